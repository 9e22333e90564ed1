"""`roamlet run` of scripts and of shell commands, in real contexts: output with the host in front, exit status, summary."""

import json
import os
import signal
import subprocess
import sys

import pytest

from roamlet import remote
from roamlet.cli import main
from roamlet.cli.commands import run
from roamlet.remote.programs import run_command, run_script
from roamlet.testing.links import flush_output
from tests.remote import interpreters
from tests.remote.inside import calls_of
from tests.remote.raising import raises
from tests.remote.stopping import gone

LIMIT = 60
PYTHONS = list(interpreters.found().values())
ENDS = [PYTHONS[0], PYTHONS[-1]]

SCRIPT = """
import sys, threading
import beside

def later():
    print("later %s" % beside.NAME)

if __name__ == "__main__":
    threading.Thread(target=later).start()
    print(" ".join(sys.argv[1:]))
    if "fail" in sys.argv:
        raise LookupError("as asked")
    sys.exit({"no": None, "text": "enough"}.get(sys.argv[1], 5))
"""


def roamlet(folder, *words):
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "roamlet", "run", *words],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/job.py").write_text(SCRIPT)
    (tmp_path / "scripts/beside.py").write_text("NAME = 'neighbour'\n")
    return tmp_path


def test_what_a_command_prints_comes_with_the_host_in_front(tmp_path):
    done = roamlet(tmp_path, "--local", "2", "-c", "echo to $1; echo and $2 >&2", "out", "a b")
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["local-1: to out", "local-2: to out"])
    assert sorted(done.stderr.splitlines()) == ["local-1: and a b", "local-2: and a b"]


def test_a_status_other_than_0_is_told_at_the_end_and_is_the_exit_code(tmp_path):
    done = roamlet(tmp_path, "--local", "2", "-c", "mkdir once 2>/dev/null || exit 7")
    assert (done.returncode, done.stdout) == (1, "")
    assert "FAILED  exit status 7" in done.stderr and "1 of 2 failed:" in done.stderr
    done = roamlet(tmp_path, "--local", "1", "-c", "kill -9 $$")
    assert done.returncode == 1 and "ended by SIGKILL" in done.stderr


def test_a_group_is_what_printed_the_same_and_ended_the_same(tmp_path):
    done = roamlet(
        tmp_path, "--local", "3", "--group", "-c", "echo one; mkdir once 2>/dev/null || { echo two >&2; exit 1; }"
    )
    assert done.returncode == 1
    first, second = done.stdout.split("1 host: ")
    assert first.startswith("2 hosts: FAILED  exit status 1\n    local-[") and second.startswith("ok\n    local-")
    assert sorted(first.splitlines()[2:]) == ["        one", "        two"] and second.splitlines()[2:] == [
        "        one"
    ]


@pytest.mark.parametrize("python", ENDS)
def test_a_script_runs_as_a_program_with_its_neighbours(folder, python):
    words = ["--local", "1", "--python", python, "--json", "scripts/job.py"]
    done = roamlet(folder, *words, "no", "3")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    lines = answer.pop("stdout").splitlines()  # two threads print: 2.7 puts a space between them now and then
    assert sorted(line.strip() for line in lines) == ["later neighbour", "no 3"] and answer.pop("seconds")
    assert answer == {"host": "local-1", "ok": True, "status": 0, "stderr": ""}
    for word, status, said in (("5", 5, ""), ("text", 1, "enough\n")):
        answer = json.loads(roamlet(folder, *words, word).stdout)
        assert (answer["ok"], answer["status"], answer["stderr"]) == (False, status, said)
        assert answer["message"] == f"exit status {status}"


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["--older-than", "30"], ["--older-than", "30"]),
        (["a", "--json", "-c", "x"], ["a", "--json", "-c", "x"]),
        (["--", "--text"], ["--text"]),
        (["--help"], ["--help"]),
    ],
    ids=" ".join,
)
def test_what_follows_a_script_is_for_the_script_options_too(folder, words, arguments):
    (folder / "show.py").write_text("import sys\nprint(sys.argv[1:])\n")
    done = roamlet(folder, "--local", "1", "show.py", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"local-1: {arguments}\n", "")


def test_what_follows_a_command_or_a_function_is_an_option_where_it_is_one(folder):
    done = roamlet(folder, "--local", "1", "-c", "echo $1", "show.py", "--json")
    assert json.loads(done.stdout)["stdout"] == "show.py\n"
    done = roamlet(folder, "--local", "1", "posixpath:basename", "a/show.py", "--json")
    assert json.loads(done.stdout)["value"] == "show.py"


@pytest.mark.parametrize("python", ENDS)
def test_the_traceback_of_a_script_is_that_of_the_script_alone(folder, python):
    done = roamlet(folder, "--local", "1", "--python", python, "scripts/job.py", "fail")
    lines = [line.removeprefix("local-1: ") for line in done.stderr.splitlines()]
    assert done.returncode == 1
    assert lines[lines.index("Traceback (most recent call last):") :][:4] == [
        "Traceback (most recent call last):",
        '  File "scripts/job.py", line 12, in <module>',
        '    raise LookupError("as asked")',
        "LookupError: as asked",
    ]
    (folder / "scripts/job.py").write_text("print('no'\n")
    done = roamlet(folder, "--local", "1", "--python", python, "scripts/job.py")
    assert done.returncode == 1 and "SyntaxError" in done.stderr and done.stdout == ""


@pytest.mark.parametrize("python", ENDS)
def test_a_command_that_takes_too_long_is_killed_with_what_it_started(python, tmp_path):
    lines = []
    with remote.local(python, output=lambda context, stream, line: lines.append(line)) as context:
        with raises(
            remote.CallTimeout, match=r"the command in 'local' had not ended within 0.5 seconds, and was killed"
        ):
            run_command(context, "sleep 100 & echo $!; wait", timeout=0.5)
        assert context.call(os.getpid) == context.facts.pid
        flush_output(context, LIMIT)
        assert gone(int(lines[0]), seconds=LIMIT)
        assert run_command(context, "exit 4", timeout=LIMIT) == 4


def test_a_command_ends_with_its_context(tmp_path):
    pids = []
    with remote.local(output=lambda context, stream, line: pids.append(int(line))) as context:
        calls_of(context).background(lambda: run_and_forget(context))
        while not pids:
            context.call(os.getpid)
    assert gone(pids[0], seconds=LIMIT)


def run_and_forget(context):
    with raises(remote.ContextClosed):
        run_command(context, "echo $$; exec sleep 100")


@pytest.mark.parametrize("python", PYTHONS)
def test_a_command_ends_when_the_interpreter_is_killed(python):
    pids = []
    with remote.local(python, output=lambda context, stream, line: pids.append(int(line))) as context:
        calls_of(context).background(lambda: run_until_lost(context))
        while len(pids) < 2:
            context.call(os.getpid)
        os.kill(context.facts.pid, signal.SIGKILL)
        assert all(gone(pid, seconds=LIMIT) for pid in pids)


def run_until_lost(context):
    with raises(remote.ContextDied):
        run_command(context, "sleep 100 & echo $!; echo $$; wait")


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("python", PYTHONS)
def test_what_a_command_leaves_running_outlives_the_context(python, kill):
    pids = []
    with remote.local(python, output=lambda context, stream, line: pids.append(int(line))) as context:
        assert run_command(context, "sleep 100 >/dev/null 2>&1 & echo $!", timeout=LIMIT) == 0
        if kill:
            os.kill(context.facts.pid, signal.SIGKILL)
            assert gone(context.facts.pid, seconds=LIMIT)
    assert not gone(pids[0], seconds=0.5)
    os.kill(pids[0], signal.SIGKILL)


@pytest.mark.parametrize("python", PYTHONS)
def test_a_command_leaves_no_descriptor_and_no_process(python):
    with remote.local(python) as context:
        assert run_command(context, "cat; test $$ = $(cut -d' ' -f5 /proc/$$/stat)") == 0
        before = context.call(os.listdir, ("/proc/self/fd",))
        assert (
            run_command(context, 'test "$(ls -l /proc/self/fd | grep -c pipe)" = 2; kill -TERM $$') == -signal.SIGTERM
        )
        assert context.call(os.listdir, ("/proc/self/fd",)) == before
        with raises(ChildProcessError, match="No child processes"):
            context.call(os.waitpid, (-1, os.WNOHANG))


def test_a_script_in_the_library_gives_its_status(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder / "scripts")
    lines = []
    with remote.local(output=lambda *line: lines.append(line[1:])) as context:
        assert run_script(context, "job.py", SCRIPT.encode(), ["7"]) == 5
        assert run_script(context, "x.py", b"import sys\nsys.stderr.write('kept')\n") == 0
    assert sorted(lines) == [("stderr", "kept"), ("stdout", "7"), ("stdout", "later neighbour")]
    sys.modules.pop("beside", None)


@pytest.mark.parametrize("line", ["", "x" * 250])
def test_what_is_kept_of_one_host_is_bounded_whatever_its_lines_are(line, monkeypatch):
    monkeypatch.setattr(run, "MOST_PRINTED", 1000)
    printed = run.Printed()
    for _ in range(3):
        printed("a", "stdout", line)
    printed.check()
    for _ in range(1000):
        printed("a", "stdout", line)
    with raises(run.Unsuccessful, match="it printed more than the 1000 characters that --group and --json keep"):
        printed.check()
    assert len(printed.lines()) <= 10


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.py"], "nowhere.py: the script cannot be read: No such file or directory"),
        (["."], "'.' is not of the form MODULE:FUNCTION"),
        (["-c", " "], "-c: there is no command"),
        (
            ["-c", "df", "/tmp"],
            "'df' uses no $1 or $@ for '/tmp': quote all of it, -c 'df /tmp'. Several hosts are one word",
        ),
        (["-c", "systemctl", "restart", "a b"], "-c 'systemctl restart a b'"),
        (["uptime"], "a script ends in .py, and -c 'uptime' is a shell command"),
        ([], "what is to be run is required: MODULE:FUNCTION, SCRIPT.py or -c COMMAND"),
        (
            ["--ssh-config", "/dev/null", "-c", "true"],
            "--local and --ssh-config: local interpreters run on this machine",
        ),
        (["-o", "Port=2", "-c", "true"], "--local and -o"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_run_is_refused_before_anything_is_touched(words, message, capsys):
    assert main(["run", "--local", "1", *words]) == 64
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["Port", "=5", "-v", " "])
def test_what_is_no_option_of_ssh_is_refused(option, capsys):
    assert main(["run", "-H", "a", f"-o{option}", "-c", "true"]) == 64
    assert "give an option of ssh and its value, for example -o ConnectTimeout=5" in capsys.readouterr().err


def test_an_interrupt_ends_the_commands(tmp_path):
    command = [sys.executable, "-m", "roamlet", "run", "--local", "2", "-c", "echo $$; exec sleep 100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        pids = [int(process.stdout.readline().rpartition(" ")[2]) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 130
    assert all(gone(pid, seconds=LIMIT) for pid in pids)


def test_a_reader_that_ends_ends_the_commands_without_a_word(tmp_path):
    loop = "echo $$; while sleep 0.05; do echo more; done"
    command = [sys.executable, "-m", "roamlet", "run", "--local", "2", "-c", loop]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}  # what is left in a buffer would be written at the end
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=buffered) as process:
        pids = {}
        while len(pids) < 2:
            host, _, pid = process.stdout.readline().rpartition(" ")
            if pid.strip().isdigit():
                pids[host] = int(pid)
        process.stdout.close()
        assert (process.wait(LIMIT), process.stderr.read()) == (1, "")
    assert all(gone(pid, seconds=LIMIT) for pid in pids.values())
