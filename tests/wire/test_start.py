"""The start of a target: behind noise, isolated, without a trace on the disk, or with a line that says why not."""

import os
import re
import resource
import subprocess

import pytest

from roamlet.wire import build, codec, protocol
from tests.wire import interpreters
from tests.wire.target import CONTEXT, Ended, Target, packed


def test_frames_that_were_pushed_with_the_payload_are_served(python, start):
    call = protocol.frame(CONTEXT, 0, 1, protocol.CALL, codec.dumps(("pushed", "f", (2,), {"y": 3})))
    bundle = protocol.frame(CONTEXT, 0, 0, protocol.MODULES, packed({"pushed": "def f(x, y):\n    return x * y\n"}))
    assert start(python, bundle + call).answer(1) == 6


def test_hello_describes_the_interpreter(python, target):
    version = interpreters.version_of(python)
    assert target.hello["python"][:2] == version
    assert target.hello["protocol"] == protocol.PROTOCOL
    assert target.hello["pid"] == target.process.pid
    assert target.hello["implementation"] == implementation_of(python)
    assert target.hello["machine"] == os.uname().machine
    assert os.path.realpath(target.hello["executable"]) == os.path.realpath(python)
    assert len(target.hello["magic"]) == 4
    assert target.scanner.noise == b""


def implementation_of(python):
    question = "import platform; print(platform.python_implementation().lower())"
    return subprocess.run([python, "-c", question], capture_output=True, text=True, check=True).stdout.strip()


def test_noise_of_the_login_shell_is_kept_apart(python, start):
    shell = 'echo "Welcome to alpha"; printf "no newline $0 $*"; exec "$@"'
    target = start(python, wrap=lambda command: ["sh", "-c", shell, "sh", *command])
    assert target.call("os:getpid") == target.hello["pid"]
    assert target.scanner.noise.startswith(b"Welcome to alpha\nno newline sh ")
    assert (
        b"sys.argv[1].replace" in target.scanner.noise
    )  # the echoed command line, token and all, was not taken for the start


SHADOW = "raise SystemError('a file of the login directory was imported')\n"
FILES = dict.fromkeys(("zlib", "struct", "os", "threading", "json"), SHADOW)


def test_files_in_the_login_directory_shadow_nothing(python, start, tmp_path):
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    target = start(
        python, wrap=lambda command: ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(tmp_path), *command]
    )
    assert target.call("os:getcwd") == str(tmp_path)
    assert target.call("json:dumps", [1]) == "[1]"
    target.modules({"look": "import sys\ndef path():\n    return sys.path\n"})
    assert not {"", ".", str(tmp_path)} & set(target.call("look:path"))


def test_the_environment_changes_nothing(python, start, tmp_path):
    (tmp_path / "json.py").write_text(FILES["json"])
    user_site = tmp_path / "lib" / ("python%d.%d" % interpreters.version_of(python)) / "site-packages"
    user_site.mkdir(parents=True)
    (user_site / "only_here.py").write_text("")
    settings = [
        f"PYTHONPATH={tmp_path}",
        f"PYTHONUSERBASE={tmp_path}",
        "PYTHONSTARTUP=/nowhere",
        "PYTHONOPTIMIZE=2",
        "PYTHONHOME=/nowhere",
    ]
    target = start(python, wrap=lambda command: ["env", *settings, *command])
    target.modules(
        {"look": "import sys\ndef at():\n    return [sys.path, sys.flags.optimize, sys.flags.no_user_site]\n"}
    )
    path, optimize, no_user_site = target.call("look:at")
    assert not [entry for entry in path if entry.startswith(str(tmp_path))]
    assert (optimize, no_user_site) == (0, 1)
    assert target.call("json:dumps", [1]) == "[1]"


def test_a_start_that_fails_says_why_in_one_line(python):
    """zlib is missing on the target, say: here something else takes its place."""
    token = build.new_token()
    frames = build.preamble({"id": CONTEXT, "name": "x"})
    command = build.command(python, token)
    stage = command.index("-c") + 1
    command[stage] = "import sys;sys.modules['zlib']=None;" + command[stage]
    done = subprocess.run(command, input=frames, capture_output=True, check=False, timeout=20)
    scanner = build.StartScanner(token)
    assert scanner.feed(done.stdout)
    assert scanner.status == protocol.START_FAILED
    assert re.match(r"(ImportError|ModuleNotFoundError)\(.*zlib", scanner.text)
    assert done.returncode == 1
    assert done.stderr == b""


def test_a_configuration_that_cannot_be_used_says_so_too(python):
    token = build.new_token()
    frames = build.payload() + protocol.frame(CONTEXT, 0, 0, protocol.CONFIG, codec.dumps({"name": "no id"}))
    done = subprocess.run(build.command(python, token), input=frames, capture_output=True, check=False, timeout=20)
    scanner = build.StartScanner(token)
    assert scanner.feed(done.stdout)
    assert (scanner.status, scanner.text) == (protocol.START_FAILED, "KeyError: 'id'")


@pytest.mark.parametrize(
    ("version", "says"), [((2, 6, 9), "2.6.9"), ((3, 5, 10), "3.5.10"), ((3, 0, 0), "3.0.0"), ((1, 5, 2), "1.5.2")]
)
def test_a_python_that_is_too_old_says_so(python, version, says):
    token = build.new_token()
    command = build.command(python, token)
    stage = command.index("-c") + 1
    command[stage] = f"import sys;sys.version_info={version};" + command[stage]
    done = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=20)
    scanner = build.StartScanner(token)
    assert scanner.feed(done.stdout)
    assert (scanner.status, scanner.text) == (protocol.TOO_OLD, says)


def test_a_parent_that_vanishes_during_the_start_leaves_nothing_behind(python):
    for cut in (0, 100, len(build.payload()) - 1, len(build.payload()), len(build.payload()) + 10):
        frames = build.preamble({"id": CONTEXT, "name": "x"})[:cut]
        done = subprocess.run(
            build.command(python, build.new_token()), input=frames, capture_output=True, check=False, timeout=20
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


WORK = """
import json
import logging
import subprocess
import sys

def work():
    print("hello")
    logging.getLogger("x").warning("logged")
    subprocess.call(["true"])
    import colorsys, pack.sub
    try:
        1 // 0
    except ZeroDivisionError:
        logging.getLogger("x").exception("oh")
    return pack.sub.value
"""

WRITING = re.compile(r"(O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND)")
CHANGING = (
    "open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,truncate,"
    "mknod,mknodat"
)


def a_session(python, wrap):
    target = Target(python, wrap=wrap).start()
    target.modules({"work": WORK, "pack": "", "pack.sub": "value = 8\n"}, packages=["pack"], complete={"pack": ["sub"]})
    assert target.call("work:work") == 8
    target.call("work:nothing")
    target.begin("work:none")
    return target.close()


def test_no_file_is_opened_for_writing_as_strace_sees_it(python, tmp_path, strace):
    log = tmp_path / "log"
    watched = [*strace, "-f", "-qq", "-o", str(log), "-e", "trace=" + CHANGING]
    try:
        assert a_session(python, lambda command: [*watched, *command]) == 0
    except Ended as ended:
        pytest.skip(f"strace may not trace here: {ended}")
    lines = [line.split(None, 1)[1] for line in log.read_text().splitlines() if "(" in line]
    lines = [
        line for line in lines if not line.startswith("???(")
    ]  # strace left while a call began that it cannot name
    assert len(lines) > 20
    harmless = re.compile(r'"/dev/(null|tty)"')
    changed = [line for line in lines if is_change(line) and not harmless.search(line)]
    assert changed == []


def is_change(line):
    call = line.partition("(")[0]
    if "ENOENT" in line and call in ("unlink", "unlinkat"):
        return False
    return bool(WRITING.search(line)) if call in ("open", "openat") else True


AUDIT = """
import os
import sys
def note(event, args):
    if event == "open" and isinstance(args[0], str) and args[0] != "/dev/null":
        path, mode, flags = args
        if set(mode) & set("wax+") if mode else isinstance(flags, int) and flags & 3:
            os.write(FD, ("%s %s %s;" % args).encode())
    elif event in ("os.mkdir", "os.rename", "os.remove", "os.link", "os.symlink", "os.truncate", "tempfile.mkstemp"):
        os.write(FD, ("%s %s;" % (event, args)).encode())
sys.addaudithook(note)
"""


@pytest.mark.parametrize("version", interpreters.since(3, 8))
def test_no_file_is_opened_for_writing_as_the_interpreter_sees_it(version):
    events, write = os.pipe()

    def wrap(command):
        stage = command.index("-c") + 1
        command[stage] = f"exec({AUDIT.replace('FD', str(write))!r});" + command[stage]
        return command

    target = Target(interpreters.found()[version], wrap=wrap, pass_fds=[write])
    os.close(write)
    target.start()
    target.modules({"work": WORK, "pack": "", "pack.sub": "value = 8\n"}, packages=["pack"])
    assert target.call("work:work") == 8
    assert target.close() == 0
    with os.fdopen(events, "rb") as noted:
        assert noted.read() == b""


def test_compiled_modules_are_never_written(python, start, tmp_path):
    (tmp_path / "beside.py").write_text("value = 1\n")
    target = start(python)
    target.modules(
        {"look": "import sys\ndef add(path):\n    sys.path.append(path)\n    import beside\n    return beside.value\n"}
    )
    assert target.call("look:add", str(tmp_path)) == 1
    assert os.listdir(tmp_path) == ["beside.py"]


def test_a_start_costs_at_most_70_ms_of_processor_time_beyond_the_interpreter_itself(python):
    """On a slow or busy machine, four times what the interpreter itself takes there."""

    def cost(run):
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        run()
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime

    bare = min(cost(lambda: subprocess.run([python, "-BEsc", "pass"], check=True)) for _ in range(5))
    started = min(cost(lambda: Target(python).start().close()) for _ in range(5))
    assert started - bare < max(0.07, 4 * bare)
