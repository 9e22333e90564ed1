"""roamlet.dask.Cluster: what Dask's own clusters do, on hosts where nothing is installed."""

import asyncio
import os
import random
import signal
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import dask
import pytest
import roamlet_dask_sent as sent
from distributed import Client

from roamlet import remote
from roamlet.dask import Cluster
from tests.remote.dask.conftest import NOWHERE, folders

pytestmark = [
    pytest.mark.once(reason="contexts and Dask's event loop do the same on each switching backend"),
    pytest.mark.roamlet_keeps(reason="tornado and distributed keep exceptions of their own callbacks"),
]


def until(done: Callable[[], object], seconds: float = 60) -> None:
    """Wait until it is so, for something that another process does."""
    last = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < last
        time.sleep(0.02)


def test_tasks_run_in_workers_that_have_what_travels(cluster: Cluster, client: Client) -> None:
    pids = {worker.pid for worker in cluster.workers.values()}
    assert len(pids) == 2 and os.getpid() not in pids
    assert client.gather(client.map(sent.square, range(20))) == [n * n for n in range(20)]
    assert {pid for pid, _ in client.run(sent.process).values()} == pids
    assert all(path.startswith("roamlet:") for _, path in client.run(sent.process).values())
    assert client.submit(lambda x: x + 1, 41).result() == 42
    with pytest.raises(ZeroDivisionError):
        client.submit(divmod, 1, 0).result()


def test_the_hosts_need_nothing_and_are_left_as_they_were(over_ssh: Any, bare_python: str) -> None:
    before = folders()
    with Cluster(
        [over_ssh("alpha"), over_ssh("beta")], python=bare_python, nthreads=1, dashboard_address=NOWHERE
    ) as cluster:
        with Client(cluster, set_as_default=False) as client:
            assert client.gather(client.map(sent.square, range(20))) == [n * n for n in range(20)]
            assert len(client.ncores()) == 2
            paths = client.run(lambda: (dask.__file__, os.path.exists(dask.__file__)))
            assert all(path.startswith("roamlet:") for path, _ in paths.values())
            assert {worker.place.name for worker in cluster.workers.values()} == {"alpha", "beta"}
            assert len(folders() - before) == 2
            contexts = [worker.context for worker in cluster.workers.values()]
            hubs = [place.hub for place in cluster._places]
    assert all(context.closed for context in [*contexts, *hubs] if context is not None)
    until(lambda: folders() <= before)


def test_a_worker_that_is_killed_has_a_successor_and_its_tasks_run_again(cluster: Cluster, client: Client) -> None:
    before = folders()
    killed = cluster.workers[0]
    futures = client.map(sent.slow_square, range(40), pure=False)
    os.kill(killed.pid, signal.SIGKILL)
    assert client.gather(futures) == [n * n for n in range(40)]
    until(lambda: cluster.workers.get(0) not in (None, killed) and cluster.workers[0].address in client.ncores())
    until(lambda: len(folders() & before) <= len(before) - 1)  # that of the killed one is removed
    assert "worker 0 on local has ended: ContextDied" in cluster.get_logs()["Cluster"]


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.soak)])
def test_killing_workers_at_random_spoils_no_result(
    cluster: Cluster, client: Client, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roamlet.dask.cluster.SHORT", 0)  # they are not to blame
    rng = random.Random(24)
    cluster.scheduler.allowed_failures = kills
    tasks = 100 * kills
    futures = client.map(sent.slow_square, range(tasks), pure=False, seconds=0.01)
    total = client.submit(sum, futures)
    for _ in range(kills):
        until(lambda: [worker for worker in list(cluster.workers.values()) if worker.pid])
        victim = rng.choice([worker for worker in list(cluster.workers.values()) if worker.pid])
        os.kill(victim.pid, signal.SIGKILL)
        until(lambda gone=victim: gone not in cluster.workers.values())
        if rng.random() < 0.5:
            until(lambda: len(client.ncores()) == 2)
    assert total.result(300) == sum(n * n for n in range(tasks))
    assert client.gather(futures) == [n * n for n in range(tasks)]
    until(lambda: len(client.ncores()) == 2)


def test_a_large_result_whose_worker_dies_on_its_way_is_made_again(cluster: Cluster, client: Client) -> None:
    size = 30_000_000
    future = client.submit(sent.large, 7, size, pure=False)
    until(lambda: future.status == "finished")
    (address,) = client.who_has()[future.key]
    (worker,) = [one for one in cluster.workers.values() if one.address == address]
    threading.Timer(0.01, os.kill, (worker.pid, signal.SIGKILL)).start()
    assert future.result(60) == b"\7" * size
    until(lambda: len(client.ncores()) == 2)


def test_scale_and_restart(cluster: Cluster, client: Client) -> None:
    first = {worker.pid for worker in cluster.workers.values()}
    before = {worker.address for worker in cluster.workers.values()}
    cluster.scale(3)
    client.wait_for_workers(3, timeout=60)
    (last,) = {worker.address for worker in cluster.workers.values()} - before
    kept = client.scatter(list(range(5)), workers=[last])
    cluster.scale(2)
    until(lambda: len(cluster.workers) == 2 and len(client.ncores()) == 2)
    assert client.gather(kept) == list(range(5))
    client.restart(timeout=60)
    until(lambda: len(cluster.workers) == 2 and len(client.ncores()) == 2)
    assert not first & {worker.pid for worker in cluster.workers.values()}
    assert client.submit(sent.square, 3).result() == 9


def test_a_worker_that_is_retired_has_no_successor(cluster: Cluster, client: Client) -> None:
    address = cluster.workers[max(cluster.workers)].address
    client.retire_workers([address], close_workers=True)
    until(lambda: len(cluster.workers) == 1)
    assert len(cluster.worker_spec) == 1
    cluster.scale(2)
    client.wait_for_workers(2, timeout=60)


def test_the_number_of_workers_follows_the_work(make: Callable[..., Cluster]) -> None:
    cluster = make()
    with Client(cluster, set_as_default=False) as client:
        cluster.adapt(minimum=1, maximum=2, interval="50ms", wait_count=2)
        futures = client.map(sent.slow_square, range(60), pure=False, seconds=0.1)
        until(lambda: len(client.ncores()) == 2)
        assert client.gather(futures) == [n * n for n in range(60)]
        until(lambda: len(cluster.workers) == 1 and len(client.ncores()) == 1)
        assert client.submit(sent.square, 3).result() == 9


def test_logs_and_the_dashboard_can_be_read(cluster: Cluster, client: Client) -> None:
    client.run(sent.log, "said by a worker")
    logs = cluster.get_logs()
    assert "local: this machine" in logs["Cluster"]
    assert "Register worker" in logs["Scheduler"]
    assert all("said by a worker" in logs[worker.address] for worker in cluster.workers.values())
    with urllib.request.urlopen(cluster.dashboard_link.replace("/status", "/health"), timeout=30) as answer:
        assert answer.read() == b"ok"
    assert cluster.dashboard_link.startswith("http://127.0.0.1:")


def test_workers_have_their_share_and_folders_of_their_own(cluster: Cluster, client: Client) -> None:
    directories = client.run(sent.folder)
    assert len(set(directories.values())) == 2
    for each in directories.values():
        assert each.startswith("/dev/shm/roamlet-dask-")
        assert (
            os.stat(each.split("/dask-")[0]).st_mode & 0o77 == 0
            or os.stat("/".join(each.split("/")[:4])).st_mode & 0o77 == 0
        )
    limits = {worker["memory_limit"] for worker in cluster.scheduler_info["workers"].values()}
    assert len(limits) == 1 and 0 < limits.pop() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def test_dask_s_configuration_of_this_process_counts_there(make: Callable[..., Cluster]) -> None:
    with dask.config.set({"roamlet-test.word": "said here", "temporary-directory": "/nowhere"}):
        cluster = make()
    with Client(cluster, set_as_default=False) as client:
        (found,) = client.run(
            lambda: (dask.config.get("roamlet-test.word"), dask.config.get("temporary-directory"))
        ).values()
        assert found == ("said here", None)


def test_it_serves_coroutines(make: Callable[..., Cluster]) -> None:
    async def main() -> int:
        async with Cluster(
            ["local"], nthreads=1, modules=remote.Modules(), dashboard_address=NOWHERE, asynchronous=True
        ) as cluster:
            async with Client(cluster, asynchronous=True, set_as_default=False) as client:
                return int(await client.submit(sent.square, 12))

    assert asyncio.run(main()) == 144


def test_a_context_of_ones_own_stays_open(make: Callable[..., Cluster]) -> None:
    with remote.local(name="gate") as gate:
        cluster = make([gate])
        (worker,) = cluster.workers.values()
        assert worker.place.name == "gate" and worker.context is not None
        cluster.close()
        assert worker.context.closed and not gate.closed
        assert gate.call(pow, (2, 3)) == 8


def test_it_closes_while_tasks_run(make: Callable[..., Cluster]) -> None:
    cluster = make()
    with Client(cluster, set_as_default=False) as client:
        future = client.submit(sent.slow_square, 2, seconds=100)
        until(lambda: any(client.processing().values()))
        pid = cluster.workers[0].pid
        cluster.close()
        assert not os.path.exists(f"/proc/{pid}")
        assert not future.done() or future.status != "finished"


def test_it_closes_while_c_code_keeps_the_lock_of_a_worker(make: Callable[..., Cluster]) -> None:
    with remote.local(name="gate") as gate:
        cluster = make([gate])
        with Client(cluster, set_as_default=False) as client:
            future = client.submit(sent.hold, 100)
            until(lambda: any(client.processing().values()))
            pid = cluster.workers[0].pid
            cluster.close()
            until(lambda: not os.path.exists(f"/proc/{pid}"))
            assert future.status != "finished"


def test_a_host_whose_context_has_ended_is_opened_again(make: Callable[..., Cluster]) -> None:
    opened: list[remote.Context] = []

    def host() -> remote.Context:
        opened.append(remote.local(name=f"gate {len(opened)}"))
        return opened[-1]

    cluster = make([host], workers_per_host=2)
    with Client(cluster, set_as_default=False) as client:
        futures = client.map(sent.slow_square, range(30), pure=False)
        os.kill(opened[0].facts.pid, signal.SIGKILL)
        assert client.gather(futures) == [n * n for n in range(30)]
        until(lambda: len(client.ncores()) == 2 and len(cluster.workers) == 2)
    assert len(opened) == 2
    cluster.close()
    assert all(context.closed for context in opened)
