"""`roamlet run`: what it refuses, what it prints and with which exit code it ends; with contexts that are not real."""

import io
import json
import os
import signal
import subprocess
import sys

import pytest

from roamlet import remote
from roamlet.cli import _parser, main
from roamlet.cli._errors import UsageError
from roamlet.cli.commands import run as command
from roamlet.cli.reaching.inventory import Host, Inventory
from roamlet.cli.reaching.options import hops
from tests.cli.fakes import FakeContext


def run(words, errors=None):
    """(exit code, output, log) of `roamlet run words`; `errors` maps the names of targets to what fails there."""
    log = []
    out = io.StringIO()
    options = _parser().parse_args(["run", *words])
    code = command.run(options, lambda target: FakeContext(target.name, (errors or {}).get(target.name), log=log), out)
    return code, out.getvalue(), log


def test_each_host_runs_the_function_once_and_gets_one_line():
    code, output, log = run(["-H", "alpha,beta", "operator:add", "2", "3"])
    assert code == 0
    assert [line.split()[0] for line in output.splitlines()] == ["alpha", "beta"]
    assert all(line.endswith("ok      5") for line in output.splitlines())
    assert [entry for entry in log if entry[0] == "call"] == [
        ("call", "alpha", (2, 3), None),
        ("call", "beta", (2, 3), None),
    ]


def test_local_targets_are_numbered():
    _, output, _ = run(["--local", "3", "platform:system"])
    assert [line.split()[0] for line in output.splitlines()] == ["local-1", "local-2", "local-3"]


def test_options_may_stand_in_several_words_and_hosts_carry_users():
    _, output, _ = run(["-H", "root@alpha", "-H", "beta", "platform:system"])
    assert [line.split()[0] for line in output.splitlines()] == ["root@alpha", "beta"]


def test_a_host_that_fails_is_told_at_once_and_again_in_the_table_with_the_whole_reason():
    error = LookupError("no such disk\n    Is it mounted?")
    code, output, _ = run(["-H", "alpha,beta", "platform:system"], {"alpha": error})
    lines = output.splitlines()
    assert code == 1
    assert lines[0].startswith("alpha") and lines[0].endswith("FAILED  LookupError: no such disk")
    assert lines[1].startswith("beta") and "ok" in lines[1]
    assert "1 of 2 failed" in output
    assert "Is it mounted?" in output


def test_the_place_where_it_failed_and_the_traceback_are_shown():
    error = ValueError("bad")
    error.add_note('In alpha, called as my.f:\n    File "roamlet:/home/my.py", line 7, in f\n    ValueError: bad')
    _, output, _ = run(["-H", "alpha", "platform:system"], {"alpha": error})
    assert "FAILED  ValueError: bad (/home/my.py:7 in f)" in output
    assert "In alpha, called as my.f:" in output
    _, output, _ = run(["-H", "alpha", "--json", "platform:system"], {"alpha": error})
    assert "line 7, in f" in json.loads(output)["traceback"]


def test_a_headline_announces_no_lines_that_do_not_follow():
    _, output, _ = run(["-H", "alpha", "platform:system"], {"alpha": OSError("it ended, and said:\n    nonsense")})
    assert output.splitlines()[0].endswith("FAILED  OSError: it ended")


def test_a_module_that_exits_while_it_is_imported_is_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "exits_at_once.py").write_text("raise SystemExit('usage')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["run", "--local", "1", "exits_at_once:f"]) == 64
    assert "exits_at_once cannot be imported here: it calls sys.exit('usage')" in capsys.readouterr().err


def test_every_context_is_closed_whatever_happened():
    _, _, log = run(["-H", "alpha,beta", "platform:system"], {"alpha": ValueError("x")})
    assert sorted(entry for entry in log if entry[0] == "close") == [("close", "alpha"), ("close", "beta")]


def test_the_time_limit_reaches_the_call():
    _, _, log = run(["--local", "1", "--timeout", "2.5", "platform:system"])
    assert ("call", "local-1", (), 2.5) in log


def test_json_is_one_object_per_line_with_values_and_errors():
    code, output, _ = run(["-H", "alpha,beta", "--json", "operator:add", "1", "2"], {"beta": ValueError("no")})
    alpha, beta = map(json.loads, output.splitlines())
    assert code == 1
    assert (alpha["host"], alpha["ok"], alpha["value"]) == ("alpha", True, 3)
    assert (beta["host"], beta["ok"], beta["error"], beta["message"]) == ("beta", False, "ValueError", "no")


def test_a_value_that_json_has_no_word_for_stands_as_repr_and_says_so():
    _, output, _ = run(["--local", "1", "--json", "--text", "os:fsencode", "x"])
    answer = json.loads(output)
    assert (answer["value"], answer["repr"]) == ("b'x'", True)


@pytest.mark.parametrize("how", [[], ["--json"], ["--group"]], ids=["lines", "json", "group"])
def test_what_python_makes_no_text_of_ends_no_command(how):
    words = ["-H", "alpha,beta", *how, "operator:pow", "10", "5000"]
    code, output, _ = run(words, {"beta": ValueError(10**5000)})
    assert code == 1
    assert "<int that cannot be shown: Exceeds the limit" in output
    assert "<ValueError that cannot be shown: Exceeds the limit" in output


def test_equal_results_are_shown_once_with_the_hosts_that_gave_them():
    code, output, _ = run(["-H", "web[01-12],db", "--group", "platform:system"], {"db": ValueError("no")})
    lines = output.splitlines()
    assert code == 1
    assert lines[:4] == ["12 hosts: ok      'Linux'", "    web[01-12]", "1 host: FAILED  ValueError: no", "    db"]


def test_hosts_that_could_not_be_reached_have_an_exit_code_of_their_own():
    unreachable = remote.HostUnknown("no such host")
    assert run(["-H", "a,b", "platform:system"], {"a": unreachable})[0] == 3
    assert run(["-H", "a,b", "platform:system"], {"a": unreachable, "b": ValueError("x")})[0] == 1


def test_no_more_than_so_many_are_open_at_once():
    _, _, log = run(["-H", "h[1-9]", "--at-once", "1", "platform:system"])
    assert [entry[0] for entry in log] == ["open", "call", "close"] * 9


def test_settings_of_the_inventory_and_of_the_command_line_reach_the_host(tmp_path):
    (tmp_path / "hosts.toml").write_text(
        '[groups]\nweb = ["w1"]\n[hosts.w1]\nport = 22\npython = "python3.6"\nvia = "x"\n'
    )
    seen = []

    def connect(target):
        seen.append(target)
        return FakeContext(target.name)

    words = ["run", "-i", str(tmp_path / "hosts.toml"), "-H", "web,me@other", "--via", "jump", "platform:system"]
    command.run(_parser().parse_args(words), connect, io.StringIO())
    assert seen == [
        Host("w1", "w1", port=22, python="python3.6", via="jump"),
        Host("me@other", "other", user="me", via="jump"),
    ]


def test_an_interrupt_ends_everything(tmp_path):
    (tmp_path / "sleeps_here.py").write_text(
        "import os, time\ndef f():\n    print('pid', os.getpid())\n    time.sleep(100)\n"
    )
    words = [sys.executable, "-m", "roamlet", "run", "--local", "3", "sleeps_here:f"]
    with subprocess.Popen(
        words, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        pids = [int(process.stderr.readline().split()[-1]) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == "roamlet run: interrupted\n"
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_text_leaves_arguments_alone():
    _, _, log = run(["--local", "1", "--text", "operator:add", "1", "2"])
    assert ("call", "local-1", ("1", "2"), None) in log


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--local", "0", "os:getpid"], "--local 0: give a number from 1 to 256"),
        (["--local", "257", "os:getpid"], "--local 257: give a number from 1 to 256"),
        (["-H", "alpha,,beta", "os:getpid"], "names an empty host"),
        (["-H", "", "os:getpid"], "names an empty host"),
        (["-H", "-oProxyCommand=x", "os:getpid"], "expected one argument"),
        (["-H-oProxyCommand=x", "os:getpid"], "'-oProxyCommand=x' is no host name"),
        (["-H", "a b", "os:getpid"], "'a b' is no host name"),
        (["-H", "alpha,beta,alpha", "os:getpid"], "names 'alpha' more than once"),
        (["--local", "1", "--timeout", "0", "os:getpid"], "--timeout 0: give a number of seconds above 0"),
        (["--local", "1", "--timeout", "nan", "os:getpid"], "--timeout nan"),
        (["--local", "1", "--python", "no-such-python", "os:getpid"], "there is no such program on this machine"),
        (["--local", "1", "--python", __file__, "os:getpid"], "that is no program that can be started"),
        (["-H", "alpha", "--python", "", "os:getpid"], "--python ''"),
        (["-H", "alpha:0", "os:getpid"], "'alpha:0': there is no port 0; ports are 1 to 65535"),
        (["-H", "web[3-1]", "os:getpid"], "'web[3-1]': [3-1] is no range; write it as in web[01-20]"),
        (["-H", "web[1-99999]", "os:getpid"], "is no range"),
        (["-H", "web[1-200][1-200]", "os:getpid"], "stands for more than 10000 hosts"),
        (["-H", "@/no/such/file", "os:getpid"], "-H @/no/such/file: the file cannot be read"),
        (["-H", "alpha", "-i", "/no/such.toml", "os:getpid"], "-i /no/such.toml: the file cannot be read"),
        (["-H", "alpha", "--via", "a b", "os:getpid"], "'a b' is no host name"),
        (["--local", "2", "--via", "alpha", "os:getpid"], "--local and --via"),
        (["-H", "alpha", "--at-once", "0", "os:getpid"], "--at-once 0: give a number of hosts, 1 or more"),
        (["--local", "1", "platform.py:system"], "Did you mean platform:system?"),
        (["--local", "1", "os.getpid"], "is not of the form MODULE:FUNCTION"),
        (["--local", "1", "nowhere_at_all:f"], "there is no module 'nowhere_at_all'"),
        (["os:getpid"], "one of the arguments --local -H/--hosts is required"),
        (["--local", "1", "-H", "alpha", "os:getpid"], "not allowed with argument"),
        (["--local", "1"], "required: MODULE:FUNCTION"),
        (["--local", "many", "os:getpid"], "invalid int value: 'many'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_command_line_is_refused_with_exit_code_2_before_anything_is_touched(words, message, capsys):
    assert main(["run", *words]) == 64
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""


def test_a_real_module_of_the_current_folder_runs_in_real_contexts(tmp_path):
    (tmp_path / "checks_here.py").write_text(
        "def half(number):\n"
        "    print('asked for', number)\n"
        "    if number % 2:\n"
        "        raise ValueError('%d is odd' % number)\n"
        "    return number // 2\n"
    )

    def roamlet(*words):
        command = [sys.executable, "-W", "error", "-m", "roamlet", "run", "--local", "2", *words]
        return subprocess.run(
            command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )

    good, bad = roamlet("--json", "checks_here:half", "8"), roamlet("checks_here:half", "7")
    assert (good.returncode, bad.returncode) == (0, 1)
    assert sorted((answer["host"], answer["value"]) for answer in map(json.loads, good.stdout.splitlines())) == [
        ("local-1", 4),
        ("local-2", 4),
    ]
    assert sorted(good.stderr.splitlines()) == ["local-1: asked for 8", "local-2: asked for 8"]
    assert bad.stdout.count("FAILED  ValueError: 7 is odd") == 2
    assert "2 of 2 failed:" in bad.stdout


def test_hosts_that_failed_in_one_way_are_one_group_though_each_message_names_its_host():
    errors = {name: remote.HostUnknown(f"ssh to {name!r} failed: no such name") for name in ("a1", "a2", "b")}
    errors["b"] = remote.HostUnknown("ssh to 'b' failed: no answer")
    _, output, _ = run(["-H", "a[1-2],b", "--group", "platform:system"], errors)
    assert output.startswith(
        "2 hosts: FAILED  HostUnknown: ssh to HOST failed: no such name\n    a[1-2]\n"
        "1 host: FAILED  HostUnknown: ssh to 'b' failed: no answer\n    b\n"
    )


def test_a_password_that_nobody_can_be_asked_for_is_a_mistake_in_the_command_line(monkeypatch):
    def ask(prompt):
        raise EOFError

    monkeypatch.setattr("getpass.getpass", ask)
    words = ["run", "--local", "1", "--ask-password", "platform:system"]
    with pytest.raises(UsageError, match="give --sudo too, or leave it out"):
        hops(_parser().parse_args(words), Inventory())
    with pytest.raises(UsageError, match="no terminal to ask on; give the password in ROAMLET_SUDO_PASSWORD"):
        hops(_parser().parse_args([*words, "--sudo"]), Inventory())
