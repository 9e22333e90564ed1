"""roamlet.execnet: gateways of execnet in contexts on which nothing is installed."""

import atexit
import gc
import io
import os
import re
import shlex
import signal
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import execnet
import pytest

import roamlet.execnet
from roamlet import remote
from roamlet.core.os_threads import OSThread
from roamlet.remote.calls.engine import calls_of
from roamlet.wire.calls import gateways, main_thread
from roamlet.wire.files import private
from tests.remote.sshd import Sshd
from tests.wire import interpreters

BASE = getattr(sys, "_base_executable", sys.executable)

WHERE = """
import sys, threading, requests
channel.send((threading.current_thread() is threading.main_thread(), requests.__version__, sys.flags.no_site))
"""


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """The specification of an interpreter in which nothing is installed."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(BASE)} -S "$@"\n')
    path.chmod(0o755)
    return f"roamlet//local//python={path}"


@pytest.fixture
def group() -> Iterator[roamlet.execnet.Group]:
    made = roamlet.execnet.Group(execmodel="main_thread_only")
    yield made
    made.terminate(5)
    atexit.unregister(made._cleanup_atexit)
    del made
    gc.collect()  # execnet's own objects refer to each other


def test_a_worker_is_the_main_thread_of_a_python_where_nothing_is_installed(
    group: roamlet.execnet.Group, bare: str
) -> None:
    import requests

    gateway = group.makegateway(bare)
    channel = gateway.remote_exec(WHERE)
    assert channel.receive() == (True, requests.__version__, 1)
    channel.waitclose()
    assert gateway._rinfo().pid != os.getpid()


def test_values_go_both_ways_in_their_order_and_of_any_size(group: roamlet.execnet.Group, bare: str) -> None:
    channel = group.makegateway(bare).remote_exec("for item in channel: channel.send(item)")
    values = [1, "ä", None, b"x" * 3_000_000, {"a": (1, 2.5)}, *range(2000)]
    for value in values:
        channel.send(value)
    assert [channel.receive() for _ in values] == values
    channel.close()


def test_what_a_task_raises_is_execnets_error(group: roamlet.execnet.Group, bare: str) -> None:
    channel = group.makegateway(bare).remote_exec("1 / 0")
    with pytest.raises(execnet.RemoteError, match="ZeroDivisionError"):
        channel.waitclose()


def test_gateways_of_a_host_stand_behind_one_context_and_other_gateways_beside_them(
    group: roamlet.execnet.Group, bare: str
) -> None:
    gateways = [group.makegateway(bare) for _ in range(3)]
    other = group.makegateway("popen")
    assert len({gateway._rinfo().pid for gateway in [*gateways, other]}) == 4
    assert len({calls_of(gateway.context.via).facts.pid for gateway in gateways}) == 1
    assert [gateway.id for gateway in group] == ["gw0", "gw1", "gw2", "gw3"]


def test_folder_niceness_and_environment_are_set(group: roamlet.execnet.Group, bare: str, tmp_path: Path) -> None:
    gateway = group.makegateway(f"{bare}//chdir={tmp_path / 'new'}//nice=3//env:ROAMLET_TRIED=yes")
    channel = gateway.remote_exec("import os; channel.send((os.getcwd(), os.nice(0), os.environ['ROAMLET_TRIED']))")
    assert channel.receive() == (str(tmp_path / "new"), os.nice(0) + 3, "yes")


def test_over_ssh(group: roamlet.execnet.Group, sshd: Sshd) -> None:
    gateway = group.makegateway(f"roamlet//ssh={sshd.host}//ssh_config={sshd.ssh_args[1]}//id=far")
    channel = gateway.remote_exec("import os; channel.send(os.environ.get('SSH_CONNECTION', ''))")
    assert channel.receive().startswith("127.0.0.1")
    assert group["far"] is gateway


def test_a_worker_that_dies_ends_what_waits_for_it_and_says_so(group: roamlet.execnet.Group, bare: str) -> None:
    gateway = group.makegateway(bare)
    channel = gateway.remote_exec("channel.receive()")
    os.kill(gateway.context.facts.pid, signal.SIGKILL)
    with pytest.raises(EOFError, match="sends nothing more"):
        channel.receive()
    with pytest.raises(OSError, match="cannot send|already closed"):  # noqa: PT012 - at one of the next messages
        while True:
            gateway.remote_exec("pass")
            time.sleep(0.01)  # until it shows


def test_a_worker_whose_task_runs_is_ended_when_the_group_is(group: roamlet.execnet.Group, bare: str) -> None:
    gateway = group.makegateway(bare)
    channel = gateway.remote_exec("import time; channel.send(1); time.sleep(600)")
    channel.receive()
    began = time.monotonic()
    group.terminate(1)
    assert time.monotonic() - began < 60
    assert gateway.context.closed


def test_a_job_goes_to_the_main_thread_whichever_thread_has_the_call(group: roamlet.execnet.Group, bare: str) -> None:
    """The calls before it leave the main thread one of several that are idle."""
    context = group.host_of(execnet.XSpec(bare))
    calls_of(context).shipping.need("calls.gateways")
    for count in range(1, 6):
        calls = [context.spawn(time.sleep, (0.02,)) for _ in range(count)]
        for call in calls:
            call.join()
        assert context.call(gateways._in_main_thread, (_check_main_thread, ())) is None
        with pytest.raises(KeyError):
            context.call(gateways._in_main_thread, (_fails_in_main_thread, ()))


@pytest.mark.roamlet_keeps(reason="a gateway of execnet keeps the error that ended its receiver")
def test_a_worker_is_the_main_thread_in_a_context_that_has_run_other_calls(
    group: roamlet.execnet.Group, bare: str
) -> None:
    context = group.host_of(execnet.XSpec(bare))
    calls = [context.spawn(time.sleep, (0.02,)) for _ in range(4)]
    for call in calls:
        call.join()
    for number in range(4):  # the main thread is one of several that wait for a call
        spec = execnet.XSpec(f"{bare}//id=worker{number}//execmodel=main_thread_only")
        link = roamlet.execnet._Link(context, spec, group.execmodel)
        gateway = execnet.Gateway(link, spec)
        group._register(gateway)
        assert gateway.remote_exec(WHERE).receive()[0] is True
        gateway.exit()
        gateway.join()


def _check_main_thread() -> None:
    import threading

    if threading.current_thread() is not threading.main_thread():
        raise AssertionError("another thread")


def _fails_in_main_thread() -> None:
    _check_main_thread()
    raise KeyError("as it should")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("roamlet", "'roamlet' names no place: one of local, ssh,"),
        ("roamlet//ssh=alpha//docker=beta", "names ssh and docker: one of"),
        ("roamlet//ssh", "does not say where: ssh=NAME"),
        ("roamlet//local=here", "local takes no name"),
        ("roamlet//local//via=gw0", "via= does not go together with roamlet//local"),
        ("roamlet//local//ssh_config=file", "ssh_config= does not go together with roamlet//local"),
        ("roamlet//local//python", "python needs a value, as in python=VALUE"),
    ],
)
def test_a_specification_that_makes_no_sense_is_refused_before_anything_is_opened(
    group: roamlet.execnet.Group, spec: str, says: str
) -> None:
    with pytest.raises(roamlet.execnet.UnknownSpec, match=re.escape(says)):
        group.makegateway(spec)
    assert len(group) == 0


def test_an_archive_that_is_none_leaves_no_folder(group: roamlet.execnet.Group, bare: str, tmp_path: Path) -> None:
    context = group.host_of(execnet.XSpec(bare))
    calls_of(context).shipping.need("calls.gateways")
    before = set(os.listdir(private.MEMORY))
    pieces = roamlet.channel[bytes](8)
    pieces.send(b"this is no archive")
    pieces.close()
    with pytest.raises(Exception, match="not a gzip file"):
        context.call(gateways.receive_tree, (pieces, "project"))
    assert not [name for name in set(os.listdir(private.MEMORY)) - before if name.startswith("roamlet-")]


def test_an_archive_is_unpacked_by_all_pythons_that_execnet_has(group: roamlet.execnet.Group, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(tmp_path / "file", "file")
    for path in [path for name, path in interpreters.found().items() if tuple(map(int, name.split("."))) >= (3, 8)]:
        context = group.host_of(execnet.XSpec(f"roamlet//local//python={path}"))
        calls_of(context).shipping.need("calls.gateways")
        pieces = roamlet.channel[bytes](8)
        pieces.send(packed.getvalue())
        pieces.close()
        folder = Path(context.call(gateways.receive_tree, (pieces, "project")))
        assert (folder / "file").read_text() == "text"
        assert folder.parent.stat().st_mode & 0o777 == 0o700


def test_a_python_that_is_too_old_is_named_before_a_worker_starts(group: roamlet.execnet.Group) -> None:
    for name, path in interpreters.found().items():
        if tuple(map(int, name.split("."))) < (3, 8):
            with pytest.raises(
                remote.CannotTravel, match=rf"runs Python {name}\.\d+, and execnet .* needs 3.8 at least"
            ):
                group.makegateway(f"roamlet//local//python={path}")
    assert len(group) == 0


def test_a_thread_that_meets_a_job_which_the_main_thread_takes_at_that_moment_goes_on() -> None:
    class Taken(list[object]):
        def __bool__(self) -> bool:
            return True

    waits: list[str] = []
    turns = SimpleNamespace(wait=lambda: waits.append("waited"), wake=lambda: waits.append("woken"))
    made = main_thread._Turns(None, turns)  # type: ignore[no-untyped-call]
    made.jobs = Taken()
    thread = OSThread(target=made.wait)
    thread.start()
    thread.join()
    assert waits == ["waited"]
