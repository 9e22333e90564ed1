"""What a zygote answers, and what its children share: requests, payloads, changes on the target, faults."""

import importlib.util
import json
import marshal
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from apps.ansible.tests.host import driver
from apps.ansible.tests.host.driver import BASIC, NONCE, Zygote, digest, payload
from roamlet_ansible import host
from roamlet_ansible.cores import commands
from tests.wire import interpreters

PRELOAD = ["ansible.module_utils.basic"]
LEAVE = "from ansible.module_utils import basic\nbasic.leave(**basic.params())\n"
PYTHONS = interpreters.found()


def python_version_of(name):
    return tuple(map(int, name.split(".")))


SOME = [name for name in ("2.7", "3.6", "3.13") if name in PYTHONS] or list(PYTHONS)[:1]


@pytest.fixture(params=SOME)
def zygote(request):
    with Zygote(PYTHONS[request.param]) as zygote:
        yield zygote


@pytest.fixture
def own():
    """A zygote of the Python that runs the tests."""
    with Zygote(sys.executable) as zygote:
        yield zygote


def wait_for_words(path: Path) -> None:
    """Until a module has written a word, with a space after it, into the file."""
    until = time.monotonic() + 20
    while not path.exists() or not path.read_text().endswith(" "):
        assert time.monotonic() < until
        time.sleep(0.01)


def gone(pid: int) -> bool:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_facts(zygote):
    facts = zygote.facts
    assert facts["pid"] != os.getpid()
    assert facts["uid"] == os.getuid()
    assert facts["cwd"] == os.getcwd()
    assert facts["umask"] == 0o22
    assert len(bytes.fromhex(facts["magic"])) == 4
    assert facts["executable"]


def test_the_rest_of_a_payload_is_asked_for(zygote):
    files = payload(LEAVE)
    answer, _ = zygote.answer(zygote.start(files, definition=None, send={}))
    assert answer["missing"] == ["definition"]
    answer, _ = zygote.answer(zygote.start(files, send={}))
    assert answer["missing"] == sorted({digest(data) for data in files.values()})
    assert zygote.run(files, params={"a": 1})[:2] == (0, b'{"a": 1}\n')
    assert zygote.run(files, definition=None, send={}, params={"a": 2})[:2] == (0, b'{"a": 2}\n')
    other = {**files, "ansible/modules/probe.py": b"import sys; sys.exit(5)"}
    answer, _ = zygote.answer(zygote.start(other, send={}))
    assert answer["missing"] == [digest(b"import sys; sys.exit(5)")]


def test_files_come_compressed_and_as_code(zygote):
    files = payload(LEAVE)
    blobs = {digest(data): (zlib.compress(data), "source/zlib") for data in files.values()}
    assert zygote.run(files, send=blobs, params={"a": 1})[0] == 0
    assert zygote.known


def test_code_of_the_same_python_saves_compiling_it(own):
    files = payload("import sys\nsys.stdout.write(sys._getframe().f_code.co_filename)\nsys.exit(TWO)\n")
    source = files["ansible/modules/probe.py"]
    changed = source.replace(b"TWO", b"2  ")
    code = zlib.compress(marshal.dumps(compile(changed, "ansible/modules/probe.py", "exec")))
    number = own.start(files)
    assert own.result(number)[0] == 1  # there is no TWO: the source was compiled
    other = payload("import sys\nsys.stdout.write(sys._getframe().f_code.co_filename)\nsys.exit(THREE)\n")
    text = json.dumps({}).encode()
    source = other["ansible/modules/probe.py"]
    header = {
        "do": "run", "payload": "p", "fqn": "ansible.modules.probe", "name": "probe", "shape": "2.16", "params": len(text),
        "definition": [[path, digest(data)] for path, data in other.items()],
        "files": [[digest(source), len(source), "source"], [digest(source), len(code), "code/zlib"]],
        "magic": own.facts["magic"],
    }  # fmt: skip
    rc, out, _ = own.result(own.send(header, text + source + code))
    assert rc == 2
    assert out.endswith(b"_payload.zip/ansible/modules/probe.py")


def test_damaged_code_is_not_used(own):
    source = b"import sys\nsys.exit(3)\n"
    files = payload(source.decode())
    others = {digest(data): data for data in files.values()}
    text = b"{}"
    damaged = b"nonsense", marshal.dumps(17), marshal.dumps(compile("", "x", "exec"))[:20]
    for number, code in enumerate((b"", *damaged, *map(zlib.compress, (b"", *damaged)))):
        header = {
            "do": "run", "payload": f"p{number}", "fqn": "ansible.modules.probe", "name": "probe", "shape": "2.16",
            "params": len(text), "definition": [[path, digest(data)] for path, data in files.items()],
            "files": [[sha, len(data), "source"] for sha, data in others.items()] + [[digest(source), len(code), "code/zlib"]],
        }  # fmt: skip
        with Zygote(sys.executable) as one:
            header["magic"] = one.facts["magic"]
            assert one.result(one.send(header, text + b"".join(others.values()) + code))[0] == 3


@pytest.mark.parametrize("optimized", [False, True])
def test_code_for_another_interpreter_is_not_used(optimized):
    source = b"import sys\nsys.exit(3)\n"
    files = payload(source.decode())
    code = zlib.compress(marshal.dumps(compile(b"import sys\nsys.exit(4)\n", "x", "exec")))
    header = {
        "do": "run", "payload": "p", "fqn": "ansible.modules.probe", "name": "probe", "shape": "2.16", "params": 2,
        "definition": [[path, digest(data)] for path, data in files.items()],
        "files": [[digest(data), len(data), "source"] for data in files.values()] + [[digest(source), len(code), "code/zlib"]],
    }  # fmt: skip
    with Zygote(sys.executable, env={**os.environ, **({"PYTHONOPTIMIZE": "1"} if optimized else {})}) as one:
        header["magic"] = one.facts["magic"] if optimized else "00000000"
        assert one.result(one.send(header, b"{}" + b"".join(files.values()) + code))[0] == 3


def test_code_of_the_zygote_itself_is_used_by_its_own_version_only():
    text = host.zygote_text()
    other = text.replace(b'"cwd": self.cwd,', b'"cwd": "from code",')
    assert other != text
    code = zlib.compress(marshal.dumps(compile(other, "<roamlet zygote>", "exec", 0, True)))
    magic = importlib.util.MAGIC_NUMBER
    cases = [
        (code, magic, {}),
        (code, b"\0\0\0\0", {}),
        (code, magic, {"PYTHONOPTIMIZE": "1"}),
        (b"damaged", magic, {}),
    ]
    for given, number, variables in cases:
        source = host.zygote_source(given, number)
        with Zygote(sys.executable, env={**os.environ, **variables}, source=source) as one:
            assert one.facts["cwd"] == ("from code" if (given, number, variables) == cases[0] else os.getcwd())
            assert one.run("import sys\nsys.exit(3)\n")[0] == 3


HOOKS = """
import json, os, posix, random, sys, threading
from ansible.module_utils import basic
drawn = random.getstate()[1][-1]
if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=lambda: os.write(1, b'hook '))
state = random.random()
pid = os.fork()
if not pid:
    os.write(1, ('%s %s\\n' % (random.getstate()[1][-1], threading.current_thread() is threading.main_thread())).encode())
    os._exit(0)
os.waitpid(pid, 0)
ident = getattr(threading.main_thread(), 'native_id', os.getpid())
basic.leave(state=state, drawn=drawn, threads=threading.active_count(), same=ident == os.getpid(),
            own=getattr(os, 'register_at_fork', None) is getattr(posix, 'register_at_fork', None))
"""
SEEDED = 624  # the place in the state of random after it was seeded, and before a number was drawn


def test_what_modules_see_of_the_fork_is_what_a_new_interpreter_has():
    for python in [PYTHONS[name] for name in SOME if name != "2.7"] + [sys.executable]:
        hooks = python_version(python) >= (3, 7)
        with Zygote(python) as one:
            states = set()
            for _ in range(3):
                rc, out, err = one.run(HOOKS, preload=PRELOAD)
                assert (rc, err) == (0, b"")
                first, second = out.decode().splitlines()
                assert first == (f"hook {SEEDED} True" if hooks else "2 True")
                found = json.loads(second)
                states.add(found.pop("state"))
                assert found == {"drawn": SEEDED, "threads": 1, "same": True, "own": True}
            assert len(states) == 3


PREPARATIONS = {
    "2.19": "if umask:\n                os.umask(umask)",
    "2.16": "self._restore_signal_handlers()\n            if umask:\n                os.umask(umask)",
    "other": "os.umask(umask or 0o22)",
}
STARTING = """
import json, os, signal, subprocess, sys
from ansible.module_utils import basic
PY2 = sys.version_info[0] == 2
class AnsibleModule:
    def _restore_signal_handlers(self):
        # Reset SIGPIPE to SIG_DFL, otherwise in Python2.7 it gets ignored in subprocesses.
        if PY2 and sys.platform != 'win32':
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    def run_command(self, args, umask=None):
        def preexec():
            {preparation}
        return subprocess.check_output(args, preexec_fn=preexec).decode()
words = basic.params()
if words.get('changed'):
    AnsibleModule._restore_signal_handlers = lambda self: os.write(1, b'own ')
if words.get('registers'):
    os.register_at_fork(after_in_child=lambda: os.write(1, b'hook '))
basic.leave(said=AnsibleModule().run_command(['sh', '-c', 'umask; echo ' + words.get('word', '')], words.get('umask')))
"""


def starting(shape, **others):
    source = STARTING.format(preparation=PREPARATIONS[shape])
    return payload(source, **{"ansible/module_utils/basic.py": BASIC.decode() + "import subprocess\n"}, **others)


NEW = [
    name for name in PYTHONS if python_version_of(name) >= (3, 7)
]  # Pythons with functions that run when others fork


@pytest.mark.parametrize("python", NEW)
def test_a_process_is_started_without_a_fork_where_nothing_is_done_before_its_program(python):
    """A function that is to run at each fork tells what has happened; the broker names the modules where that may be seen."""
    with Zygote(PYTHONS[python]) as zygote:

        def said(shape, **words):
            more = {"hooks": True} if words.pop("told", False) else {}
            rc, out, err = zygote.run(starting(shape), preload=PRELOAD, params={"registers": True, **words}, **more)
            assert (rc, err) == (0, b"")
            before, found = out.split(b"{")
            return before, json.loads(b"{" + found)["said"].split("\n")[0]

        for shape in ("2.19", "2.16"):
            assert said(shape) == (b"", "0022")
            assert said(shape, told=True) == (b"hook ", "0022")
            assert said(shape, umask=0o77) == (b"hook ", "0077")
        assert said("2.16", changed=True) == (b"hook ", "own 0022")
        assert said("other", umask=0o27) == (b"hook ", "0027")


ALMOST = """
import json, os, subprocess, sys
from ansible.module_utils import basic
def newer(umask):
    def preexec():
        if umask:
            os.umask(umask)
    return preexec
def older(self, umask=None):
    def preexec():
        self._restore_signal_handlers()
        if umask:
            os.umask(umask)
    return preexec
PY2 = False
class Owner(object):
    def _restore_signal_handlers(self):
        if PY2 and sys.platform != 'win32':
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
def said(preexec):
    try:
        return subprocess.check_output(['sh', '-c', 'umask'], preexec_fn=preexec).decode()
    except Exception as error:
        return repr(error)
"""
ALMOST_CORES = {
    "as core has them": "words = [said(newer(None)), said(older(Owner()))]",
    "a variable that is not set": """
def unset():
    def preexec():
        if umask:
            os.umask(umask)
    if False:
        umask = None
    return preexec
words = said(unset())
""",
    "an argument": """
def asking(umask):
    def preexec(argument):
        if umask:
            os.umask(umask)
    return preexec
words = said(asking(None))
""",
    "an owner without a dict": """
class Slots(object):
    __slots__ = ()
    _restore_signal_handlers = Owner._restore_signal_handlers
words = said(older(Slots()))
""",
    "an owner that is asked": """
class Asked(Owner):
    def __getattribute__(self, name):
        os.write(1, b'asked ')
        return Owner.__getattribute__(self, name)
words = said(older(Asked()))
""",
    "an owner that has none": "words = said(older(object()))",
    "threading was taken away": "del sys.modules['threading']\nwords = said(newer(None))",
    "threading is another": """
other = sys.modules['threading'] = type(sys)('threading')
other._shutdown = lambda: None
words = said(newer(None))
""",
}


@pytest.mark.parametrize("name", ALMOST_CORES)
def test_what_only_looks_like_cores_function_is_called_as_by_stock(own, name):
    source = ALMOST + ALMOST_CORES[name] + "\nbasic.leave(words=words)"
    files = payload(source, **{"ansible/module_utils/basic.py": BASIC.decode() + "import subprocess\n"})
    stock = driver.reference(sys.executable, files)
    assert stock[0] == 0
    assert own.run(files, preload=PRELOAD) == stock


def test_a_process_that_cannot_be_started_leaves_the_traceback_of_stock(own):
    files = starting("2.19")
    words = {"word": "\0"}
    stock = driver.reference(sys.executable, files, params=words)
    assert b"embedded null byte" in stock[2]
    assert driver.comparable(own.run(files, preload=PRELOAD, params=words)) == driver.comparable(stock)


def python_version(python):
    text = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=True
    )
    return tuple(map(int, text.stdout.split()))


def test_the_locale_of_a_module_is_that_of_a_new_interpreter(own):
    look = """
import json, locale, sys
from ansible.module_utils import basic
before = locale.setlocale(locale.LC_ALL, None)
basic.leave(before=before, after=locale.setlocale(locale.LC_ALL, ''))
"""
    environment = {**os.environ, "LC_ALL": "", "LANG": "C.UTF-8", "LC_TIME": "C"}
    code = "import locale; print(locale.setlocale(locale.LC_ALL, None)); print(locale.setlocale(locale.LC_ALL, ''))"
    plain = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    with Zygote(sys.executable, env=environment) as one:
        for _ in range(2):
            rc, out, _ = one.run(look, preload=PRELOAD)
            assert rc == 0
            found = json.loads(out)
            assert [found["before"], found["after"]] == plain.stdout.splitlines()


def test_other_contents_under_a_loaded_name(zygote):
    assert zygote.run(LEAVE, preload=PRELOAD, params={"a": 1})[1] == b'{"a": 1}\n'
    mine = BASIC.replace(b"def leave(**result):", b"def leave(**result):\n    result['mine'] = True")
    changed = {**payload(LEAVE), "ansible/module_utils/basic.py": mine}
    for _ in range(2):
        assert zygote.run(changed, preload=PRELOAD, params={"a": 1})[1] == b'{"a": 1, "mine": true}\n'
        assert zygote.run(LEAVE, preload=PRELOAD, params={"a": 1})[1] == b'{"a": 1}\n'


def test_a_module_sees_only_what_its_payload_has(zygote):
    helper = {"ansible/module_utils/extra.py": "here = True\n"}
    look = "import sys\ntry:\n    from ansible.module_utils import extra\nexcept ImportError:\n    sys.exit(4)\nsys.exit(0)\n"
    assert zygote.run(payload(look, **helper), preload=["ansible.module_utils.extra"])[0] == 0
    assert zygote.run(payload(look))[0] == 4
    assert zygote.run(payload(look, **helper))[0] == 0


def test_an_import_before_the_fork_that_fails_or_prints_changes_nothing(zygote):
    helpers = {
        "ansible/module_utils/ends.py": "import sys\nprint('{\"failed\": true}')\nsys.exit(1)\n",
        "ansible/module_utils/prints.py": "print('imported')\n",
        "ansible/module_utils/breaks.py": "import ansible.module_utils.prints\n1 / 0\n",
    }
    names = [path[:-3].replace("/", ".") for path in helpers] + ["ansible.module_utils.none", "none"]
    assert zygote.run(payload(LEAVE, **helpers), preload=names, params={"a": 1}) == (0, b'{"a": 1}\n', b"")
    rc, out, _ = zygote.run(payload("import ansible.module_utils.ends", **helpers), preload=names)
    assert (rc, out) == (1, b'{"failed": true}\n')


def test_an_import_before_the_fork_that_warns_is_taken_back(zygote):
    """A module's result shows what was warned of when it, and not another module, imported something."""
    helpers = {
        "ansible/module_utils/common/__init__.py": "",
        "ansible/module_utils/common/warnings.py": "_global_warnings = []\n_global_deprecations = {}\n",
        "ansible/module_utils/warns.py": "from .common import warnings\nwarnings._global_warnings.append('old')\n",
    }
    look = "import sys\nfrom ansible.module_utils.common import warnings\nprint(warnings._global_warnings)\nsys.exit(0)"
    names = ["ansible.module_utils.common.warnings", "ansible.module_utils.warns"]
    assert zygote.run(payload(look, **helpers), preload=names)[1] == b"[]\n"
    assert zygote.run(payload("import ansible.module_utils.warns\n" + look, **helpers))[1] == b"['old']\n"


def test_what_a_module_leaves_in_its_process_is_not_seen_by_the_next(zygote, tmp_path):
    change = f"""
import os, sys, random, tempfile
from ansible.module_utils import basic
basic.state = getattr(basic, 'state', 0) + 1
os.environ['STATE'] = os.environ.get('STATE', '') + 'x'
sys.stdout.write('%s %s %s %s' % (basic.state, os.environ['STATE'], os.umask(0o77), os.getcwd()))
os.chdir({str(tmp_path)!r})
sys.exit(0)
"""
    first = zygote.run(change, preload=PRELOAD)
    assert first[1].startswith(b"1 x 18 ")
    assert zygote.run(change, preload=PRELOAD) == first


def test_random_numbers_and_names_differ(zygote):
    module = "import random, sys, tempfile\nprint(random.random(), tempfile.mktemp(), _modlib_path)\nsys.exit(0)"
    assert len({zygote.run(module, preload=["random", "tempfile"])[1] for _ in range(3)}) == 3


def test_variables_of_the_request(zygote, tmp_path):
    module = """
import os, sys, tempfile, time
print(os.environ['A'], tempfile.gettempdir(), time.timezone, _modlib_path)
sys.exit(0)
"""
    rc, out, _ = zygote.run(module, environment={"A": "ä", "TMPDIR": str(tmp_path), "TZ": "XYZ-3"})
    assert rc == 0
    assert "ä".encode() in out or b"\\xc3\\xa4" in out
    assert out.count(str(tmp_path).encode()) == 2
    assert b"-10800" in out
    assert zygote.run("import os, sys\nsys.exit('A' in os.environ)")[0] == 0


def test_variables_that_an_interpreter_reads_when_it_starts_are_refused(zygote):
    for name in ("PYTHONPATH", "PYTHONHASHSEED", "LD_PRELOAD", "LC_ALL", "LANG"):
        answer, _ = zygote.answer(zygote.start(payload(LEAVE), environment={name: "odd", "A": "1"}))
        assert answer["refused"] == f"environment: {name}"
        assert commands._AT_START.fullmatch(name)  # so the zygote of a task with it was started with it


def test_variables_that_the_zygote_was_started_with_are_not_refused():
    with Zygote(sys.executable, env={**os.environ, "LC_ALL": "C.UTF-8"}) as zygote:
        assert zygote.run(LEAVE, environment={"LC_ALL": "C.UTF-8"})[0] == 0


def test_the_limit_of_descriptors(zygote):
    module = "import resource, sys\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[0])\nsys.exit(0)"
    assert zygote.run(module, rlimit_nofile=123)[1] == b"123\n"
    assert zygote.run(module)[1] != b"123\n"


@pytest.mark.timeout(300)
def test_a_hundred_megabytes(own):
    rc, out, err = own.run(
        "import sys\nsys.stdout.write('x' * 100000000)\nsys.stderr.write('y' * 3000000)\nsys.exit(6)"
    )
    assert (rc, len(out), len(err)) == (6, 100000000, 3000000)
    assert own.run(LEAVE)[0] == 0


def test_a_process_that_a_module_leaves_behind_holds_nothing_up(zygote):
    module = """
import os, subprocess, sys
print(subprocess.Popen(['sleep', '60']).pid)
sys.stdout.flush()
os._exit(0)
"""
    begun = time.monotonic()
    rc, out, _ = zygote.run(module)
    assert rc == 0
    assert time.monotonic() - begun < 20
    os.kill(int(out), signal.SIGKILL)


def test_a_process_that_prints_for_ever_holds_nothing_up(zygote):
    module = """
import os, subprocess, sys
sys.stderr.write('%d' % subprocess.Popen(['yes']).pid)
sys.stderr.flush()
os._exit(0)
"""
    rc, out, err = zygote.run(module)
    assert (rc, out.replace(b"y\n", b"").strip(b"\ny")) == (0, b"")
    assert gone(int(re.match(rb"\d+", err)[0]))  # its next word met a closed pipe, which `yes` may say, too


def test_runs_at_once(zygote, tmp_path):
    waits = payload(f"""
import os, sys, time
while not os.path.exists({str(tmp_path / "gate")!r}):
    time.sleep(0.01)
print('waited')
sys.exit(0)
""")
    first = [zygote.start(waits) for _ in range(3)]
    assert zygote.run(LEAVE, params={"a": 1})[1] == b'{"a": 1}\n'
    assert not zygote.answers
    (tmp_path / "gate").write_text("")
    for number in first:
        assert zygote.result(number)[:2] == (0, b"waited\n")


def test_cancelling_kills_the_group_and_is_answered(zygote, tmp_path):
    module = f"""
import subprocess, time
child = subprocess.Popen(['sleep', '60'])
with open({str(tmp_path / "pid")!r}, 'w') as out:
    out.write('%d ' % child.pid)
time.sleep(60)
"""
    number = zygote.start(payload(module))
    wait_for_words(tmp_path / "pid")
    zygote.send({"do": "cancel", "n": number})
    zygote.number -= 1
    assert zygote.result(number)[0] == 137
    assert gone(int((tmp_path / "pid").read_text()))


def test_the_end_of_the_link_ends_what_runs(zygote, tmp_path):
    module = f"""
import os, time
with open({str(tmp_path / "pid")!r}, 'w') as out:
    out.write('%d ' % os.getpid())
time.sleep(60)
"""
    zygote.start(payload(module))
    wait_for_words(tmp_path / "pid")
    zygote.process.stdin.close()
    assert zygote.process.wait(20) == 0
    assert gone(int((tmp_path / "pid").read_text()))


def test_unknown_requests_and_wrong_ones(zygote):
    assert "dance" in zygote.answer(zygote.send({"do": "dance"}))[0]["refused"]
    assert "KeyError" in zygote.answer(zygote.send({"do": "run"}))[0]["refused"]
    assert zygote.answer(zygote.send({"do": "ping"}))[0]["pong"] == 1


def test_a_respawned_module_has_a_real_zip(zygote, tmp_path):
    """As ansible.module_utils.common.respawn does it: a second interpreter imports from _modlib_path."""
    respawn = """
import os, pathlib, subprocess, sys
PARENT = pathlib.Path(__file__).parents[3] if sys.version_info[0] > 2 else None
def probe_interpreters_for_module(paths, name):
    environment = dict(os.environ, PYTHONPATH=str(PARENT or sys.modules['__main__']._modlib_path))
    code = 'import %s, ansible.module_utils.basic as b; print(b.__file__)' % name
    return paths[0] if subprocess.call([paths[0], '-c', code], env=environment) == 0 else None
def respawn_module(path):
    main = sys.modules['__main__']
    code = 'import sys, runpy; sys.path.insert(0, %r); runpy.run_module(%r, init_globals={"_respawned": True}, run_name="__main__")'
    child = subprocess.Popen([path], stdin=subprocess.PIPE)
    child.communicate((code % (main._modlib_path, main._module_fqn)).encode())
    sys.exit(child.returncode)
"""
    if zygote.facts["version"][0] == 2:
        respawn = respawn.replace("import os, pathlib,", "import os,")
    module = """
import os, sys
from ansible.module_utils import basic
from ansible.module_utils.common import respawn
if '_respawned' in globals():
    import ansible.module_utils.common
    print('respawned from %s' % os.path.dirname(os.path.dirname(__file__)))
    sys.exit(8)
root = globals()['_modlib' + '_path']
print(root)
print(os.path.exists(root))
sys.stdout.flush()
found = respawn.probe_interpreters_for_module([sys.executable], 'json')
print(oct(os.stat(os.path.dirname(root)).st_mode))
print(basic.__file__.replace(root, 'ROOT'))
sys.stdout.flush()
respawn.respawn_module(found)
"""
    files = payload(
        module, **{"ansible/module_utils/common/respawn.py": respawn, "ansible/module_utils/common/__init__.py": ""}
    )
    rc, out, err = zygote.run(files, preload=PRELOAD)
    assert rc == 8, (out, err)
    root, before, probed, mode, own, again = out.decode().splitlines()
    assert before == "False"
    assert probed.startswith(f"{root}/ansible/module_utils/basic.py")
    assert mode.endswith("40700")
    assert own == "ROOT/ansible/module_utils/basic.py"
    assert again == f"respawned from {root}/ansible"
    assert not os.path.exists(os.path.dirname(root))


def test_a_module_with_a_respawn_of_its_own(own):
    module = "import os, sys\nprint(os.path.exists(sys.modules['__main__']._modlib_path))\nsys.exit(0)\n"
    assert own.run(module)[1] == b"True\n"


def test_a_killed_module_leaves_no_zip(own):
    module = "import os\nprint(_modlib_path)\nos.sys.stdout.flush()\nos.kill(os.getpid(), 9)\n"
    rc, out, _ = own.run(module)
    assert rc == 137
    assert out
    assert not os.path.exists(os.path.dirname(out.decode().strip()))


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder in place of /etc for the zygote's look at what has changed."""
    etc = tmp_path / "etc"
    (etc / "security").mkdir(parents=True)
    (etc / "pam.d").mkdir()
    for name in ("passwd", "group", "environment", "security/limits.conf", "pam.d/sshd", "ld.so.cache"):
        (etc / name).write_text("")
    changed = host.zygote_text().replace(b"/etc/", f"{etc}/".encode())
    monkeypatch.setattr(host, "zygote_text", lambda: changed)
    monkeypatch.setattr(driver, "SOURCE", host.zygote_source())
    return etc


CHANGES = {
    "a file": lambda etc: (etc / "environment").write_text("A=1\n"),
    "a file in a folder": lambda etc: (etc / "security/limits.conf").write_text("x"),
    "a new file in a folder": lambda etc: (etc / "security/new.conf").write_text(""),
    "a renamed file": lambda etc: (etc / "pam.d/sshd").rename(etc / "pam.d/ssh"),
    "a file that was missing": lambda etc: (etc / "locale.conf").write_text("new"),
    "a database that went": lambda etc: (etc / "group").unlink(),
    "a folder that was missing": lambda etc: (etc / "sudoers.d").mkdir(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_files_of_the_account(elsewhere, change):
    with Zygote(sys.executable) as zygote:
        assert zygote.run(LEAVE)[0] == 0
        CHANGES[change](elsewhere)
        for _ in range(2):
            answer, _ = zygote.answer(zygote.start(payload(LEAVE)))
            assert answer.get("stale") == "account"


def test_other_accounts_may_change(elsewhere):
    with Zygote(sys.executable) as zygote:
        (elsewhere / "passwd").write_text("new:x:1:1::/:/bin/sh\n")
        (elsewhere / "group").write_text("new:x:1:\n")
        (elsewhere / "unrelated").write_text("")
        assert zygote.run(LEAVE)[0] == 0


@pytest.mark.parametrize("python", SOME)
def test_changed_files_of_the_interpreter(elsewhere, tmp_path, python):
    site = tmp_path / "site"
    site.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(site)}
    for change in (lambda: (site / "new.py").write_text(""), lambda: (elsewhere / "ld.so.cache").write_text("more")):
        with Zygote(PYTHONS[python], env=environment) as zygote:
            assert zygote.run(LEAVE)[0] == 0
            change()
            assert zygote.answer(zygote.start(payload(LEAVE)))[0]["stale"] == "python"


def test_a_working_directory_that_went_and_came_back(tmp_path):
    (tmp_path / "home").mkdir()
    with Zygote(sys.executable, cwd=str(tmp_path / "home")) as zygote:
        assert zygote.run("import os, sys\nprint(os.getcwd())\nsys.exit(0)")[1].decode().strip() == str(
            tmp_path / "home"
        )
        assert os.readlink(f"/proc/{zygote.facts['pid']}/cwd") == "/"
        (tmp_path / "home").rename(tmp_path / "old")
        assert zygote.answer(zygote.start(payload(LEAVE)))[0]["stale"] == "account"
        (tmp_path / "home").mkdir()
        assert zygote.answer(zygote.start(payload(LEAVE)))[0]["stale"] == "account"


def without_roots_way_into_folders(command):
    """Root enters any folder; as root without that capability a test is like one of any other account."""
    return [*(["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []), *command]


def test_a_working_directory_that_may_not_be_entered_any_more(tmp_path):
    """Its account becomes another one than that whose home it is, and the home is closed in the middle of a play."""
    home = tmp_path / "home"
    home.mkdir()
    where = "import os, sys\nprint(os.getcwd())\nsys.exit(0)"
    try:
        with Zygote(sys.executable, cwd=str(home), wrap=without_roots_way_into_folders) as zygote:
            assert zygote.run(where)[1].decode().strip() == str(home)
            home.chmod(0o600)
            assert zygote.answer(zygote.start(payload(LEAVE)))[0]["stale"] == "account"
    finally:
        home.chmod(0o700)


def test_nothing_is_inherited_but_the_three_streams(zygote):
    read, write = os.pipe()
    try:
        os.set_inheritable(write, True)
        module = "import os, sys\nprint(sorted(int(n) for n in os.listdir('/proc/self/fd')))\nsys.exit(0)"
        numbers = json.loads(zygote.run(module)[1])
        assert (
            len([number for number in numbers if number > 2]) <= 2
        )  # that of the listing, and Python 2.7's /dev/urandom
    finally:
        os.close(read)
        os.close(write)


def test_the_bootstrap_leaves_every_shell_nothing_to_do():
    text = host.bootstrap("abc123")
    assert not set(text) & set("'\\$!`\n")
    with pytest.raises(ValueError, match="letters and digits"):
        host.bootstrap("a'b")


@pytest.mark.parametrize("python", SOME)
def test_a_terminal(python):
    import pty

    ours, theirs = pty.openpty()
    command = [PYTHONS[python], "-c", host.bootstrap(NONCE)]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, start_new_session=True)
    os.close(theirs)
    try:
        zygote = Zygote.__new__(Zygote)
        zygote.pending, zygote.number, zygote.known, zygote.answers = b"", 0, set(), {}
        with open(ours, "rb", 0, closefd=False) as out, open(ours, "wb", 0, closefd=False) as into:
            process.stdout, process.stdin = out, into
            zygote.process = process
            assert zygote.line() == f"ROAMLET-BOOT {NONCE}"
            data = driver.SOURCE
            while data:
                data = data[into.write(data) :]
            assert zygote.line().startswith(f"ROAMLET-ZYGOTE {NONCE} ")
            module = """
import os, sys
os.write(1, bytes(bytearray(range(256))))
print(sys.stdin.read(), sys.stdout.isatty())
sys.exit(3)
"""
            rc, out, err = zygote.run(module)
            assert (rc, out[:256], err) == (3, bytes(range(256)), b"")
            assert b"False" in out[256:]
    finally:
        process.stdin = process.stdout = None
        os.close(ours)
        assert process.wait(20) is not None
