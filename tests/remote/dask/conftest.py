"""Clusters for the tests: their processes are on this machine, and on hosts that a real sshd on loopback stands for."""

import gc
import shlex
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="roamlet.dask takes Dask")

from distributed import Client

from roamlet import remote
from roamlet.dask import Cluster

BASE = getattr(sys, "_base_executable", sys.executable)
NOWHERE = "127.0.0.1:0"  # for dashboards: any port
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These run last where others run in the same process: distributed leaves threads, beside which no wait is a deadlock."""
    items.sort(key=lambda item: HERE in item.path.parents)


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter for which nothing is installed."""
    path = tmp_path_factory.mktemp("bare") / "python"
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(BASE)} -S "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two workers on this machine, which have what is installed here. Tests leave as many as they found."""
    with Cluster(
        ["local"], workers_per_host=2, nthreads=1, modules=remote.Modules(), dashboard_address=NOWHERE
    ) as made:
        yield made
    gc.collect()


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Dask's event loop, threads and cycles outlive clients, so that nothing is counted here: see test_leftovers.py."""
    yield
    gc.collect()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster, set_as_default=False) as made:
        made.wait_for_workers(2, timeout=60)
        yield made


@pytest.fixture
def make() -> Iterator[Callable[..., Cluster]]:
    """Makes clusters on this machine that are closed after the test."""
    made: list[Cluster] = []

    def cluster(hosts: Any = ("local",), **options: Any) -> Cluster:
        options = {"nthreads": 1, "modules": remote.Modules(), "dashboard_address": NOWHERE, **options}
        made.append(Cluster(hosts, **options))
        return made[-1]

    yield cluster
    for one in made:
        one.close()
    made.clear()
    gc.collect()


@pytest.fixture
def over_ssh(sshd: Any, bare_python: str) -> "Callable[[str], partial[remote.Context]]":
    """A host of this name: the function that opens a context there, where nothing is installed."""
    return lambda name: partial(
        remote.ssh,
        sshd.host,
        ssh_args=sshd.ssh_args,
        python=bare_python,
        name=name,
        modules=remote.Modules(prefer="parent"),
    )


def folders() -> set[Path]:
    """Private folders of workers that are there."""
    return set(Path("/dev/shm").glob("roamlet-dask-*"))
