"""What the tests of io share: pipes and sockets."""

import os
import socket
from collections.abc import Iterator

import pytest

from roamlet import io
from roamlet.io import workers
from roamlet.io._workers.pool import pool
from tests.core.conftest import several_stacks  # noqa: F401 - a fixture
from tests.io._sockets import LOCALHOST
from tests.io._workers import wait_until


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe's read and write end, non-blocking; what the test did not close is closed afterwards."""
    ends = os.pipe()
    identity = [os.fstat(fd) for fd in ends]
    for fd in ends:
        os.set_blocking(fd, False)
    yield ends
    for fd, status in zip(ends, identity, strict=True):
        try:
            if os.path.samestat(os.fstat(fd), status):
                os.close(fd)
        except OSError:
            continue


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected non-blocking sockets."""
    first, second = socket.socketpair()
    first.setblocking(False)
    second.setblocking(False)
    with first, second:
        yield first, second


@pytest.fixture
def listener() -> Iterator[io.socket]:
    """A socket of ours that listens on a port of its own on the loopback interface."""
    with io.create_server(LOCALHOST) as made:
        yield made


@pytest.fixture
def pair() -> Iterator[tuple[io.socket, io.socket]]:
    """Two connected sockets of ours."""
    first, second = io.socketpair()
    with first, second:
        yield first, second


@pytest.fixture
def workers_at_first() -> Iterator[None]:
    """A pool without threads and with the settings of a new process, before the test and after it."""
    pool.dismiss_idle()
    assert workers.status() == (0, 0, 0)
    yield
    workers.configure(max_threads=64, idle_seconds=10.0, stack_size=None, on_abandoned=None)
    wait_until(lambda: workers.status().threads == workers.status().idle)
    pool.dismiss_idle()
