"""setns into namespaces that the test makes, and systemd-nspawn as it is; containers' first processes by stand-ins."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import roamlet_sent

from roamlet import remote
from tests.remote.raising import raises
from tests.remote.transports.private_system import PYTHON
from tests.remote.transports.standin import StandIn
from tools import unpack_debian

REPOSITORY = Path(__file__).parents[3]
UNPACKED = REPOSITORY / ".venv" / "containers"

MAKE = """
hostname roamlet-inside && mount -t tmpfs roamlet /mnt && echo here > /mnt/roamlet-marker && mount -t proc proc /proc && echo ready
cat
"""


@pytest.fixture
def inside(request):
    """The number of a process in namespaces of its own; it ends with the test."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("namespaces of one's own take root and unshare")
    words = [
        "unshare",
        "--mount",
        "--uts",
        "--pid",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
        "sh",
        "-c",
        MAKE,
    ]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline() != "ready\n":
            pytest.skip(f"no namespaces: {process.stderr.read()}")
        yield int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()
        process.stderr.close()


def test_a_context_is_opened_in_the_namespaces_of_a_process(inside):
    with remote.setns(inside, python=sys.executable) as context:
        assert context.call(socket.gethostname) == "roamlet-inside"
        assert context.call(os.listdir, ("/mnt",)) == ["roamlet-marker"]
        assert context.facts.pid < 20  # the number that it has in there
        assert context.name == str(inside)
    assert not os.path.exists("/mnt/roamlet-marker")


def test_only_the_namespaces_that_are_named_are_entered(inside):
    with remote.setns(inside, namespaces=["uts"], python=sys.executable) as context:
        assert context.call(socket.gethostname) == "roamlet-inside"
        assert not context.call(os.path.exists, ("/mnt/roamlet-marker",))


def test_without_python_the_file_system_inside_is_searched(inside):
    with remote.setns(inside) as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3


ASKS = {
    "machinectl": ("machinectl", ("show", "--", "NAME"), ("--value",), ("--property",)),
    "docker": ("docker", ("inspect", "--", "NAME"), (), ("--type", "--format")),
    "podman": ("podman", ("inspect", "--", "NAME"), (), ("--type", "--format")),
    "lxc": ("lxc-info", (), ("--no-humanize", "--pid"), ("--name",)),
}


def _stand_in(runtime, prints):
    program, spec, flags, values = ASKS[runtime]
    return StandIn(program, spec, flags=flags, values=values, prints=prints)


@pytest.mark.parametrize("runtime", ASKS)
def test_the_first_process_of_a_container_is_asked_for(runtime, inside, commands):
    command = _stand_in(runtime, str(inside)).install(commands)
    with remote.setns(container="web", runtime=runtime, python=sys.executable) as context:
        assert context.call(socket.gethostname) == "roamlet-inside"
        assert context.name == "web"
    assert command.calls[0][-1] == "web"


def test_a_machine_that_machinectl_knows_is_entered(inside, commands):
    command = _stand_in("machinectl", str(inside)).install(commands)
    with remote.nspawn(machine="web", python=sys.executable) as context:
        assert context.call(socket.gethostname) == "roamlet-inside"
    assert command.calls == [["show", "--property=Leader", "--value", "--", "web"]]


@pytest.mark.parametrize("runtime", ASKS)
def test_a_container_that_does_not_run_is_told_from_one_that_is_not_there(runtime, commands):
    _stand_in(runtime, "0").install(commands)
    with raises(remote.TargetNotRunning, match="the container does not run"):
        remote.setns(container="web", runtime=runtime)
    _stand_in(runtime, None).install(commands).fails("Could not get path to machine: No machine 'web' known\n")
    with raises(
        remote.TargetNotFound, match=f"{runtime} tells no process of such a container.*No machine.*It was asked by: "
    ):
        remote.setns(container="web", runtime=runtime)


def test_what_a_runtime_prints_is_no_code(commands, tmp_path):
    _stand_in("docker", f"1; touch {tmp_path}/owned").install(commands)
    with raises(remote.TargetNotRunning):
        remote.setns(container="web", runtime="docker")
    assert not (tmp_path / "owned").exists()


def test_a_process_that_is_gone_is_named():
    gone = subprocess.Popen(["true"])
    gone.wait()
    with raises(remote.TargetNotFound, match="there is no such process, or it has ended.*lsns"):
        remote.setns(gone.pid)


def test_a_user_who_may_not_enter_is_told(commands):
    command = StandIn("nsenter", ("--",), flags=("--all",), values=("--target",)).install(commands)
    command.fails("nsenter: cannot open /proc/1/ns/user: Permission denied\n")
    with raises(remote.NotAllowed, match="may not enter these namespaces"):
        remote.setns(1)
    command.fails("nsenter: reassociate to namespace 'ns/mnt' failed: Operation not permitted\n")
    with raises(remote.NotAllowed, match="may not enter these namespaces"):
        remote.setns(1)


def test_an_interpreter_that_is_not_in_there_is_named(inside):
    with raises(remote.NoPython, match="there is no /no/such/python in its file system"):
        remote.setns(inside, python="/no/such/python")


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({}, TypeError, "give one of pid= and container="),
        ({"pid": 1, "container": "web"}, TypeError, "give one of pid= and container="),
        ({"pid": 0}, ValueError, "pid must be the number of a running process, not 0"),
        ({"pid": True}, ValueError, "pid must be"),
        ({"pid": "1"}, ValueError, "pid must be"),
        ({"container": "web"}, TypeError, "belong together"),
        ({"container": "web", "runtime": "rkt"}, ValueError, "runtime must be one of docker, podman, lxc, machinectl"),
        ({"container": "--all", "runtime": "lxc"}, remote.BadHostName, "cannot be the name of a container"),
        ({"pid": 1, "namespaces": ["mnt"]}, ValueError, "namespaces takes a list of some of cgroup, ipc, mount"),
        ({"pid": 1, "namespaces": "uts"}, ValueError, "namespaces takes a list"),
        ({"pid": 1, "nsenter_args": "--root"}, TypeError, "nsenter_args takes a list"),
        ({"pid": 1, "pyhton": "x"}, TypeError, r"remote.setns\(\) takes no argument 'pyhton'"),
    ],
)
def test_arguments_that_cannot_be_are_refused_before_anything_is_started(arguments, error, says, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)
    with raises(error, match=says):
        remote.setns(**arguments)


# ---- systemd-nspawn


@pytest.fixture(scope="module")
def nspawn():
    """The words that start Debian's systemd-nspawn with a /run of its own, so that it notes nothing on this machine."""
    if os.geteuid() != 0 or not os.access(PYTHON, os.X_OK):
        pytest.skip("systemd-nspawn takes root and an interpreter in /usr")
    try:
        unpack_debian.unpack(UNPACKED, ["systemd-container"])
    except unpack_debian.CannotUnpack as reason:
        pytest.skip(f"no systemd-nspawn: {reason}")
    libraries = unpack_debian.environment(UNPACKED)["LD_LIBRARY_PATH"]
    return (
        "#!/bin/sh\nexec unshare --mount --propagation private sh -c 'mount -t tmpfs roamlet /run && "
        f'LD_LIBRARY_PATH="{libraries}" exec {UNPACKED}/usr/bin/systemd-nspawn "$@"\' sh "$@"\n'
    )


@pytest.fixture
def tree(nspawn, commands, tmp_path):
    """The root directory of a system that borrows this machine's /usr."""
    path = commands / "systemd-nspawn"
    path.write_text(nspawn)
    path.chmod(0o755)
    root = tmp_path / "tree"
    (root / "usr").mkdir(parents=True)
    (root / "etc").mkdir()
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    shutil.copy("/etc/os-release", root / "etc" / "os-release")
    (root / "etc" / "roamlet-marker").touch()
    return root


# No systemd runs where tests run, nor need there be a machine-id, by which the journal would be named.
ALONE = ["--register=no", "--keep-unit", "--link-journal=no"]


def test_a_context_is_opened_in_a_new_container_of_a_directory(tree):
    borrowed = [*ALONE, "--bind-ro=/usr", "--hostname=roamlet-container"]
    with remote.nspawn(str(tree), python=PYTHON, nspawn_args=borrowed, timeout=60) as context:
        assert context.call(socket.gethostname) == "roamlet-container"
        assert context.call(os.path.exists, ("/etc/roamlet-marker",))
        assert context.call(roamlet_sent.add, (1, 2)) == 3
        assert context.name == "tree"


def test_a_directory_that_holds_no_system_is_named(tree, tmp_path):
    (tmp_path / "empty").mkdir()
    with raises(remote.TargetNotFound, match="holds no operating system"):
        remote.nspawn(str(tmp_path / "empty"), python=PYTHON, nspawn_args=ALONE, timeout=60)
    with raises(remote.TargetNotFound, match="there is no directory"):
        remote.nspawn(str(tmp_path / "absent"), python=PYTHON, nspawn_args=ALONE, timeout=60)


def test_an_interpreter_that_the_container_lacks_is_named(tree):
    with raises(remote.NoPython, match="the container has no interpreter of that name"):
        remote.nspawn(str(tree), python="/no/such/python", nspawn_args=[*ALONE, "--bind-ro=/usr"], timeout=60)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({}, TypeError, "give one of directory and machine="),
        ({"directory": "/srv", "machine": "web"}, TypeError, "give one of directory and machine="),
        ({"machine": "web", "user": "me"}, TypeError, "belong to a new container"),
        ({"machine": "-x"}, remote.BadHostName, "cannot be the name of a machine"),
        ({"directory": "relative"}, ValueError, "directory must be the full path"),
        ({"directory": "/srv", "user": "-x"}, remote.BadHostName, "cannot be the name of a user"),
        ({"directory": "/srv", "nspawn_args": "--boot"}, TypeError, "nspawn_args takes a list"),
    ],
)
def test_arguments_of_nspawn_that_cannot_be_are_refused_before_anything_is_started(arguments, error, says, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)
    with raises(error, match=says):
        remote.nspawn(**arguments)
