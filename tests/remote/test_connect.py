"""Opening contexts: many at once, and every way in which it fails, each with its own error that says what to do."""

import fcntl
import os
import resource
import shlex
import socket
import subprocess
import sys
import tempfile
import threading

import pytest
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.remote.base import descriptors
from tests.remote.fakes import hostile, script
from tests.remote.inside import link_of
from tests.remote.raising import raises
from tests.remote.stopping import gone

# ---- what cannot be, before anything is started


@pytest.mark.parametrize(
    "host",
    ["-oProxyCommand=touch /tmp/x", "-v", "", "a b", "a;b", "a\nb", "$(id)", "`id`", "a'b", "@alpha", "a/b", "x\0"],
)
def test_a_host_that_cannot_be_one_is_refused_before_ssh_is_started(host, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)
    with raises(remote.BadHostName, match="cannot be a host's name, so ssh was not started") as caught:
        remote.ssh(host)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, remote.ConnectError)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"user": "-x"}, ValueError, "cannot be a user's name"),
        ({"user": "a b"}, ValueError, "cannot be a user's name"),
        ({"port": 0}, ValueError, "port must be a number from 1 to 65535, not 0"),
        ({"port": "22"}, ValueError, "port must be a number"),
        ({"python": "-c"}, ValueError, "python='-c' cannot be an interpreter"),
        ({"python": ""}, ValueError, "cannot be an interpreter"),
        ({"python": "a\nb"}, ValueError, "cannot be an interpreter"),
        ({"python": "/opt/it's/python"}, ValueError, "cannot be the name of an interpreter"),
        ({"python": ["python3"]}, TypeError, r"python= takes the name or path of one interpreter"),
        ({"ssh_args": "-F config"}, TypeError, r"ssh_args takes a list of single arguments"),
        ({"timeout": 0}, ValueError, "timeout must be a number of seconds above 0, not 0"),
        ({"timeout": "5"}, ValueError, "timeout must be"),
        ({"name": ""}, ValueError, "name must be a text that is not empty"),
    ],
)
def test_options_out_of_range_are_refused_before_ssh_is_started(options, error, says, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)
    with raises(error, match=says):
        remote.ssh("alpha", **options)


# ---- interpreters


def test_a_local_interpreter_that_is_missing_is_named():
    with raises(remote.NoPython, match="there is no interpreter '/no/such/python3.99' on this machine") as caught:
        remote.local("/no/such/python3.99")
    assert isinstance(caught.value, FileNotFoundError)
    assert "CPython 2.7, or 3.6 and later" in str(caught.value)


def test_a_file_that_cannot_be_executed_is_no_interpreter(tmp_path):
    path = tmp_path / "python"
    path.write_text("not a program")
    with raises(remote.ConnectError, match="could not be started: Permission denied"):
        remote.local(str(path))


def test_a_program_that_is_no_python_is_shown_with_what_it_said(tmp_path):
    path = script(tmp_path, "#!/bin/sh\necho I am no snake >&2\nexit 3\n")
    with raises(remote.ConnectError, match="ended with exit code 3 before it was ready.*I am no snake"):
        remote.local(path)


def test_an_interpreter_that_the_target_lacks_is_named_with_what_was_tried(sshd):
    with raises(remote.NoPython, match=r"there is no /no/such/python, or this user may not run it") as caught:
        remote.ssh(sshd.host, python="/no/such/python", ssh_args=sshd.ssh_args)
    assert sshd.host in str(caught.value)
    with raises(remote.NoPython, match=r"no Python of these names on the PATH.*: python3\.99"):
        remote.ssh(sshd.host, python="python3.99", ssh_args=sshd.ssh_args)


def test_without_python_the_parents_version_then_python3_then_python_are_tried(sshd):
    with remote.ssh(sshd.host, ssh_args=sshd.ssh_args) as context:
        assert context.facts.python[0] in (2, 3)
    assert _tried("alpha") == (f"python{sys.version_info[0]}.{sys.version_info[1]}", "python3", "python")


def _tried(host):
    from roamlet.remote.transports.ssh import Ssh

    return Ssh(host).pythons


def _old_python(folder, version):
    return script(
        folder,
        f'#!/bin/sh\nfor last; do h1=$h2; h2=$last; done\necho "$h1$h2"1 {version}\ncat >/dev/null\nexit 1\n',
    )


def test_a_python_that_is_too_old_says_which_it_is(tmp_path, sshd):
    path = _old_python(tmp_path, "2.6.9")
    with raises(remote.PythonTooOld, match=r"is 2\.6\.9, which is too old: a target needs CPython 2\.7, or 3\.6"):
        remote.local(path)
    with raises(remote.PythonTooOld, match=rf"ssh to '{sshd.host}' is 2\.6\.9"):
        remote.ssh(sshd.host, python=path, ssh_args=sshd.ssh_args)


def test_what_a_login_shell_prints_before_the_start_disturbs_nothing(tmp_path):
    path = script(
        tmp_path, f'#!/bin/sh\necho "Welcome to this machine"\necho "You have mail"\nexec {sys.executable} "$@"\n'
    )
    with remote.local(path) as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3


def test_an_interpreter_that_never_answers_is_given_up_in_time_and_killed(tmp_path):
    path = script(tmp_path, "#!/bin/sh\necho waiting for a tape >&2\nexec sleep 600\n")
    with raises(remote.ConnectTimeout, match=r"was not ready within 2 seconds, and said so far:\n +waiting for a tape"):
        remote.local(path, timeout=2)


def test_a_time_limit_is_kept_though_the_process_ignores_that_it_is_told_to_end(tmp_path):
    pid_file = tmp_path / "pid"
    path = script(tmp_path, f"#!/bin/sh\ntrap '' TERM\necho $$ >{pid_file}\nwhile :; do sleep 0.05; done\n")
    with raises(remote.ConnectTimeout, match="was not ready within 1 seconds"):
        remote.local(path, timeout=1)
    pid = int(pid_file.read_text())
    assert not gone(pid, seconds=0)  # the caller has not waited for what takes longer,
    assert gone(pid, seconds=20)  # and it is ended all the same


def test_a_program_that_ends_leaves_no_process_that_ignored_its_end(tmp_path):
    pid_file = tmp_path / "pid"
    path = script(tmp_path, f"#!/bin/sh\ntrap '' TERM\necho $$ >{pid_file}\nwhile :; do sleep 0.05; done\n")
    program = f"from roamlet import remote\nremote.local({path!r}, timeout=1)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "ConnectTimeout" in done.stderr
    assert gone(int(pid_file.read_text()), seconds=0)


# ---- ssh


def test_an_unknown_host_is_named(sshd):
    with raises(remote.HostUnknown, match="'no-such-host.invalid' cannot be resolved"):
        remote.ssh("no-such-host.invalid", ssh_args=sshd.ssh_args)


def test_a_port_in_the_name_is_shown_where_it_belongs(sshd):
    with raises(remote.HostUnknown, match=r"cannot be resolved.*remote\.ssh\('127\.0\.0\.1', port=22\)"):
        remote.ssh("127.0.0.1:22", ssh_args=sshd.ssh_args)


def test_a_changed_host_key_is_refused_with_the_line_and_the_command_to_remove_it(sshd):
    with raises(
        remote.HostKeyRefused, match=r"the host key is not the one in known_hosts \(line 2 of .*known_hosts_changed\)"
    ) as caught:
        remote.ssh("roamlet-changed-key", ssh_args=sshd.ssh_args)
    assert "ssh-keygen" in str(caught.value) and "-R" in str(caught.value)
    assert "ssh to 'roamlet-changed-key' was refused" in str(caught.value)


def test_an_unknown_host_key_is_refused_because_no_user_can_be_asked(sshd):
    with raises(remote.HostKeyUnknown, match="ssh to 'roamlet-unknown-key' was refused: no host key is known"):
        remote.ssh("roamlet-unknown-key", ssh_args=sshd.ssh_args)


def test_an_unknown_host_key_is_taken_where_the_users_configuration_says_so(sshd, tmp_path):
    own = ("-oStrictHostKeyChecking=accept-new", f"-oUserKnownHostsFile={tmp_path}/known", *sshd.ssh_args)
    with remote.ssh("roamlet-unknown-key", ssh_args=own) as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3
    assert (tmp_path / "known").read_text().startswith("roamlet-unknown-key ssh-ed25519 ")


def test_a_key_that_is_not_let_in_is_an_authentication_failure(sshd):
    with raises(
        remote.AuthenticationFailed, match="the host does not let this user in.*it accepts publickey"
    ) as caught:
        remote.ssh("roamlet-wrong-user-key", user="ann", ssh_args=sshd.ssh_args)
    assert str(caught.value).endswith(f"ssh -v {shlex.join(sshd.ssh_args)} -l ann roamlet-wrong-user-key true")
    assert isinstance(caught.value, PermissionError)


def test_a_port_where_no_server_listens_is_unreachable(sshd):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        with raises(remote.HostUnreachable, match="no ssh server answers there.*Connection refused"):
            remote.ssh(sshd.host, port=port, ssh_args=(f"-oPort={port}", *sshd.ssh_args))


def test_a_server_that_never_speaks_is_given_up_in_time(sshd):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with raises(remote.ConnectTimeout, match=sshd.host):
            remote.ssh(sshd.host, ssh_args=(f"-oPort={port}", *sshd.ssh_args), timeout=1)


def test_a_server_that_hangs_up_is_unreachable(sshd):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def hang_up():
            server.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with raises(remote.HostUnreachable):
            remote.ssh(sshd.host, ssh_args=(f"-oPort={port}", *sshd.ssh_args))
        thread.join()


def test_a_bad_ssh_option_is_said_as_what_it_is(sshd):
    with raises(remote.ConnectError, match="ssh refuses its configuration or ssh_args:.*nosuchoption"):
        remote.ssh(sshd.host, ssh_args=("-oNoSuchOption=yes", *sshd.ssh_args))


def test_without_an_ssh_program_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises(remote.ConnectError, match="there is no program `ssh` on PATH.*openssh-client"):
        remote.ssh("alpha")


CMD = "'sh' is not recognized as an internal or external command,\r\noperable program or batch file.\r\n"
POWERSHELL = """sh : The term 'sh' is not recognized as the name of a cmdlet, function, script file, or operable program.\r
At line:1 char:1\r
    + CategoryInfo          : ObjectNotFound: (sh:String) [], CommandNotFoundException\r
    + FullyQualifiedErrorId : CommandNotFoundException\r
"""


@pytest.mark.parametrize(
    "said",
    [CMD, POWERSHELL, "The system cannot find the path specified.\r\n", CMD.replace("sh", "exec")],
    ids=["cmd", "powershell", "redirected", "exec"],
)
@pytest.mark.parametrize("stream", [1, 2])
def test_a_windows_machine_is_refused_as_what_it_is(said, stream, tmp_path, monkeypatch):
    said_file = tmp_path / "said"
    said_file.write_bytes(said.encode())
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\ncat {said_file} >&{stream}\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with raises(
        remote.ConnectError,
        match="^ssh to 'winhost' ended on a Windows machine, and contexts on Windows are not supported. What it said:\n"
        ".*(not recognized|cannot find).*let an sshd run in its WSL.*port=",
    ) as caught:
        remote.ssh("winhost")
    assert type(caught.value) is remote.ConnectError


def test_a_python_on_windows_that_a_shell_there_starts_is_refused_as_what_it_is(tmp_path):
    program = tmp_path / "python"
    lacks = "import sys;sys.modules['fcntl']=None;"  # as on Windows
    program.write_text(f'#!/bin/sh\nlaunch="$3"\nshift 3\nexec {sys.executable} -BEs -c "{lacks}$launch" "$@"\n')
    program.chmod(0o755)
    with raises(
        remote.ConnectError, match="the local interpreter .* ended on a Windows machine.*fcntl.*a POSIX system"
    ):
        remote.local(str(program))


def test_ssh_args_win_over_ours_and_the_command_line_ends_the_options_before_the_host():
    from roamlet.remote.transports.ssh import Ssh

    words = Ssh("alpha", user="me", port=2222, ssh_args=["-F", "mine"], timeout=7.4).argv("00")
    assert words[:3] == ["ssh", "-F", "mine"]
    assert words[-3:-1] == ["--", "alpha"]
    assert {"-T", "BatchMode=yes", "ConnectTimeout=7"} <= set(words)
    assert words[words.index("-l") + 1] == "me"
    assert words[words.index("-p") + 1] == "2222"


@pytest.fixture
def short_path():
    """A folder whose path leaves room for the name of a socket."""
    with tempfile.TemporaryDirectory(prefix="roamlet-") as path:
        yield path


def test_contexts_share_a_connection_where_the_users_configuration_says_so(sshd, short_path):
    shared = ("-oControlMaster=auto", f"-oControlPath={short_path}/s", "-oControlPersist=yes", *sshd.ssh_args)
    try:
        with remote.ssh(sshd.host, ssh_args=shared) as first, remote.ssh(sshd.host, ssh_args=shared) as second:
            assert first.call(roamlet_sent.add, (1, 2)) == second.call(roamlet_sent.add, (2, 1)) == 3
            assert os.listdir(short_path) == ["s"]
        remote.ssh(
            sshd.host, ssh_args=shared
        ).close()  # the shared connection, which stays, would keep it waiting for ever
    finally:
        subprocess.run(["ssh", "-O", "exit", *shared, sshd.host], capture_output=True, check=False)


def test_a_host_behind_a_jump_host_is_reached(sshd):
    jump = ("-J", "roamlet-second-name", *sshd.ssh_args)
    with remote.ssh(sshd.host, ssh_args=jump, python=sys.executable) as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3


# ---- many at once, and in the middle of other things


@pytest.mark.parametrize("way", ["local", "ssh"])
def test_50_contexts_are_opened_at_once_from_one_thread(way, request, in_tasklets):
    if way == "ssh":
        sshd = request.getfixturevalue("sshd")
    most = [0]
    opening = [0]

    def work(number):
        opening[0] += 1
        most[0] = max(most[0], opening[0])
        if way == "local":
            context = remote.local(name=f"context-{number}", timeout=120)
        else:
            context = remote.ssh(sshd.host, name=f"context-{number}", ssh_args=sshd.ssh_args, timeout=120)
        opening[0] -= 1
        with context:
            return context.call(roamlet_sent.echo, (number,))

    threads = threading.active_count()
    assert in_tasklets(work, list(range(50))) == list(range(50))
    assert most[0] > 25  # on a busy machine the first ones are ready before the last ones have begun
    assert threading.active_count() == threads


def test_other_tasklets_go_on_while_a_context_is_opened(own_target, tmp_path):
    """The target's interpreter starts when the other tasklet has been run five times."""
    os.mkfifo(tmp_path / "go_on")
    path = script(tmp_path, f'#!/bin/sh\nread _ < {tmp_path}/go_on\nexec {sys.executable} "$@"\n')
    order = []

    def tick():
        for _ in range(5):
            order.append("tick")
            roamlet.sleep(0.001)
        go_on.append(os.open(tmp_path / "go_on", os.O_RDWR))
        os.write(go_on[0], b"\n" * 10)

    go_on = []
    roamlet.tasklet(tick)()
    own_target.open(python=path)
    order.append("opened")
    roamlet.run()
    os.close(go_on[0])
    assert order == [*["tick"] * 5, "opened"]


def test_a_tasklet_killed_while_it_connects_leaves_nothing(tmp_path):
    path = script(tmp_path, f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    ended = []

    def work():
        try:
            remote.local(path, timeout=60)
        finally:
            ended.append(True)

    tasklet = roamlet.tasklet(work)()
    roamlet.schedule()
    assert tasklet.blocked
    tasklet.kill()
    roamlet.run()
    assert ended == [True]


def test_a_child_that_dies_while_it_starts_is_an_error_of_connecting(tmp_path):
    with raises(remote.ConnectError, match="was ended by signal 9"):
        remote.local(hostile(tmp_path, "os.kill(os.getpid(), 9)"))


def test_descriptors_that_run_out_are_named_and_none_is_lost():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with remote.local() as one:
        for room in range(6):
            before = len(os.listdir("/proc/self/fd"))
            free = [os.dup(0) for _ in range(room + 1)]  # the lowest numbers; the last of them shall be too high
            for fd in free:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], limits[1]))
            try:
                with raises(remote.ConnectError, match="was not started: Too many open files.*ulimit -n"):
                    remote.local()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            assert len(os.listdir("/proc/self/fd")) == before
        assert one.call(roamlet_sent.add, (1, 2)) == 3


def test_a_login_shell_that_prints_without_end_is_named_as_the_cause(tmp_path):
    python = script(tmp_path, "#!/bin/sh\nyes noise\n")
    with raises(remote.ConnectError, match="was given up: the other side printed .* prints without end"):
        remote.local(python, timeout=20)


def test_the_name_is_in_errors_and_facts(own_target):
    context = own_target.open(name="the-one-in-the-cellar")
    assert context.name == "the-one-in-the-cellar"
    with raises(remote.FunctionExited, match="the-one-in-the-cellar"):
        context.call(roamlet_sent.exit_with, (0,))
    assert os.path.basename(context.facts.executable).startswith("python")


def test_a_pipe_that_carries_much_is_made_wide_and_others_are_left_as_they_are(monkeypatch):
    monkeypatch.setattr(descriptors, "sockets", lambda size: descriptors.pipe())
    with remote.local() as context:
        process = link_of(context).process
        before = fcntl.fcntl(process.up, fcntl.F_GETPIPE_SZ)
        assert context.call(roamlet_sent.add, (1, 2)) == 3
        assert fcntl.fcntl(process.up, fcntl.F_GETPIPE_SZ) == before
        assert len(context.call(bytes, (10_000_000,))) == 10_000_000
        assert fcntl.fcntl(process.up, fcntl.F_GETPIPE_SZ) > before
