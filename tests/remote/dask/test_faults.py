"""What roamlet.dask refuses, what it keeps secret, and what comes of a scheduler that dies."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import roamlet_dask_sent as sent
from distributed import Client

import roamlet_dask_worker as on_target
from roamlet import remote
from roamlet.dask import Cluster, certificates
from roamlet.dask.places import Place
from tests.remote import interpreters
from tests.remote.dask.conftest import NOWHERE, folders
from tests.remote.dask.test_cluster import until

pytestmark = [
    pytest.mark.once(reason="contexts and Dask's event loop do the same on each switching backend"),
    pytest.mark.roamlet_keeps(reason="tornado and distributed keep exceptions of their own callbacks"),
]


@pytest.mark.parametrize(
    ("hosts", "options", "error", "says"),
    [
        ([], {}, ValueError, "needs a host at least"),
        ("alpha", {}, TypeError, r"takes a list of hosts, even for a single one: \['alpha'\]"),
        (7, {}, TypeError, "takes a list of hosts"),
        ([7], {}, TypeError, "a host is a name for ssh"),
        (["-oProxyCommand=x"], {}, ValueError, "no name of a host"),
        (["local"], {"workers_per_host": -1}, ValueError, "workers_per_host must be a number, 0 or more"),
        (["local"], {"workers_per_host": "2"}, ValueError, "workers_per_host must be a number"),
        (["local"], {"nthreads": True}, ValueError, "nthreads must be a number"),
        (["local"], {"preload": "pandas"}, TypeError, r"preload takes a list of modules: \['pandas'\]"),
        (["local"], {"preload": ["x.py", "a b"]}, ValueError, "preload takes names of modules"),
        (["local"], {"scheduler": 7}, TypeError, "a host is a name for ssh"),
        (["local"], {"memory_limit": "much"}, ValueError, "memory_limit"),
        (["local"], {"python": 3}, TypeError, "python= takes the name or path"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(
    hosts: Any, options: dict[str, Any], error: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "local", None)
    monkeypatch.setattr(remote, "ssh", None)
    with pytest.raises(error, match=says):
        Cluster(hosts, **options)


def test_a_closed_context_is_no_host() -> None:
    with remote.local(name="gate") as gate:
        pass
    with pytest.raises(remote.ContextClosed, match="'gate' is closed"):
        Cluster([gate])


def test_a_host_that_cannot_be_reached_is_named_and_nothing_is_left(sshd: Any) -> None:
    opened = []

    def good() -> remote.Context:
        opened.append(remote.local(name="good"))
        return opened[-1]

    def bad() -> remote.Context:
        return remote.ssh("roamlet-unknown-key", ssh_args=sshd.ssh_args)

    with pytest.raises(remote.HostKeyUnknown, match="roamlet-unknown-key"):
        Cluster([good, bad], dashboard_address=NOWHERE)
    assert opened[0].closed


@pytest.mark.parametrize("way", ["ssh", "local", "function"])
def test_where_there_is_no_python_the_argument_of_cluster_is_named(
    way: str, sshd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = "{}.{}".format(*sys.version_info)
    monkeypatch.setattr(remote, "ssh", partial(remote.ssh, ssh_args=sshd.ssh_args))
    absent = "/no/such/python3"
    hosts: dict[str, list[Any]] = {"ssh": [sshd.host], "local": ["local"], "function": [partial(remote.local, absent)]}
    with pytest.raises(remote.NoPython) as refused:
        Cluster(hosts[way], python=absent, dashboard_address=None)
    where = "as python= in the function" if way == "function" else "as Cluster(..., python=...)"
    assert absent in str(refused.value) and f"Give the path of one {where}" in str(refused.value)
    assert f"needs Python {here}, the same minor version" in str(refused.value)
    assert "remote.ssh(" not in str(refused.value) and "2.7" not in str(refused.value)


@pytest.mark.skipif(not interpreters.others(), reason="no other version of Python is here")
def test_another_version_of_python_is_named_before_it_is_sent_anything() -> None:
    version = next(one for one in interpreters.others() if one not in ("2.7", "3.6"))
    opened = []

    def other() -> remote.Context:
        opened.append(remote.local(interpreters.found()[version], name="older"))
        return opened[-1]

    with pytest.raises(remote.CannotTravel, match=r"'older' runs Python .*\n.*Name one: Cluster\(hosts, python="):
        Cluster([other], dashboard_address=NOWHERE)
    assert opened[0].closed and opened[0].stats.modules == 0


def test_a_module_to_preload_that_there_is_none_of_is_an_error_of_the_start(make: Callable[..., Cluster]) -> None:
    before = folders()
    with pytest.raises(Exception, match="roamlet_no_such_module"):
        make(preload=["roamlet_no_such_module"])
    until(lambda: folders() <= before)


def test_without_dask_the_extra_is_named() -> None:
    code = "import sys; sys.modules['distributed'] = None; import roamlet.dask"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "pip install 'roamlet[dask]'" in done.stderr and done.returncode == 1


def test_nobody_without_a_certificate_of_the_cluster_takes_part(make: Callable[..., Cluster]) -> None:
    cluster = make()
    others = certificates.made()
    for security in (None, others.here()):
        with pytest.raises((OSError, TypeError, RuntimeError)):
            Client(cluster.scheduler_address, security=security, timeout=1, set_as_default=False)
    options = {"place": Place("local", modules=remote.Modules()), "nthreads": 1}
    cluster.worker_spec["stranger"] = {
        "cls": "roamlet.dask.ContextWorker",
        "options": {"certificates": others, **options},
    }
    with pytest.raises(ConnectionRefusedError, match="refuse each other's certificate"):
        cluster.sync(cluster._correct_state)
    assert len(cluster.scheduler_info["workers"]) == 1
    del cluster.worker_spec["stranger"]


def test_keys_are_in_no_file_no_argument_and_no_log(cluster: Cluster, client: Client) -> None:
    secrets = [line for _, key in cluster._certificates.pairs.values() for line in key.splitlines() if len(line) > 40]
    assert len(secrets) >= 6
    here = sent.files()
    for leads, arguments, environment in [here, *client.run(sent.files).values()]:
        assert sum("/memfd:roamlet-dask" in one for one in leads) >= 3
        assert not any(secret.encode() in arguments + environment for secret in secrets)
    logs = "".join(cluster.get_logs().values()) + repr(cluster.security) + repr(cluster._certificates)
    assert not any(secret in logs for secret in secrets)
    for folder in folders():
        for path in folder.rglob("*"):
            assert not path.is_file() or b"PRIVATE KEY" not in path.read_bytes()


def test_each_role_has_a_certificate_and_key_of_its_own() -> None:
    made = certificates.made()
    keys = {key for _, key in made.pairs.values()}
    assert len(keys) == 3 and "PRIVATE" not in repr(made)
    given = made.of("worker")
    assert set(given.values()) == {made.authority, *made.pairs["worker"]}
    security = made.here()
    paths = re.findall(r"/proc/self/fd/\d+", str(security.get_tls_config_for_role("client")))
    assert len(paths) == 3 and all(os.path.exists(path) for path in paths)
    del security
    assert not any(Path(path).exists() and "roamlet-dask" in os.readlink(path) for path in paths)


def test_a_scheduler_on_a_host_serves_and_its_death_is_told(make: Callable[..., Cluster]) -> None:
    before = folders()
    with remote.local(name="gate") as gate:
        cluster = make([gate], scheduler=gate, address="127.0.0.1")
        with Client(cluster, set_as_default=False) as client:
            assert client.submit(sent.square, 3).result() == 9
            os.kill(cluster.scheduler.pid, signal.SIGKILL)
            until(lambda: cluster._why_failed)
        with pytest.raises(RuntimeError, match="its scheduler has ended: ContextDied"):
            cluster.scale(3)
        cluster.close()
        until(lambda: folders() <= before)
        assert not gate.closed


def test_a_closed_cluster_says_so(make: Callable[..., Cluster]) -> None:
    cluster = make()
    cluster.close()
    cluster.close()
    for use in (cluster.scale, cluster.adapt, cluster.get_client, cluster.get_logs):
        with pytest.raises(RuntimeError, match="this cluster cannot be used any more, as it was closed"):
            use()


def test_a_worker_that_cannot_start_again_is_tried_later(
    make: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roamlet.dask.cluster.PAUSE", 0.01)
    cluster = make()
    place = cluster._places[0]
    opens, fails = place.open, [2]

    def failing(name: str) -> remote.Context:
        if fails[0]:
            fails[0] -= 1
            raise remote.HostUnreachable("it is not there")
        return opens(name)

    place.open = failing  # type: ignore[method-assign]
    killed = cluster.workers[0]
    os.kill(killed.pid, signal.SIGKILL)
    until(lambda: cluster.workers.get(0) not in (None, killed) and cluster.workers[0].pid)
    assert "did not start: HostUnreachable: it is not there" in cluster.get_logs()["Cluster"]


def test_hosts_that_do_not_reach_this_machine_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.7 1 192.0.2.8 22")  # what local contexts say that they came from
    monkeypatch.setattr("roamlet.dask.cluster.get_ip", lambda: "127.0.0.1")
    monkeypatch.setattr(on_target, "reaches", sent.reaches_nothing)
    with remote.local(name="gate") as gate:
        with pytest.raises(remote.HostUnreachable) as refused:
            Cluster([gate], dashboard_address=NOWHERE)
    assert "192.0.2.7 does not belong to this machine" in str(refused.value)
    assert "gate does not reach 127.0.0.1: no route" in str(refused.value)
    assert "comm='roamlet'" in str(refused.value) and "address='192.0.2.1'" in str(refused.value)
