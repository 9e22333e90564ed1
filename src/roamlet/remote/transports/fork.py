"""This process's own interpreter and memory, in a child that is forked off: nothing is started, and modules are shared."""

import os
import sys
from collections.abc import Sequence

from roamlet.core import outside_atomic
from roamlet.remote.base.threads import Threads
from roamlet.remote.errors import ConnectError, NoPython
from roamlet.remote.transports import Transport, ended, quoted
from roamlet.remote.transports.fork_child import ForkedProcess, fork


class Fork(Transport):
    """Forks. `beside_threads`: also while this process has threads that may hold locks."""

    name = "fork"
    to = "fork of this process"

    def __init__(self, *, beside_threads: bool = False) -> None:
        self.beside_threads = beside_threads
        self.pythons: tuple[str, ...] = (sys.executable,)

    def argv(self, token: str) -> list[str]:
        raise NotImplementedError("there is no command: see start()")

    def start(self, descriptors: Sequence[int], token: str, threads: Threads) -> ForkedProcess:
        """Fork the child that serves on `descriptors`, outside of atomic code. Raises UnsafeFork, or OSError."""
        return outside_atomic(fork, (descriptors, token, threads), {"beside_threads": self.beside_threads})

    def cannot_start(self, number: int) -> ConnectError:
        return ConnectError(f"the {self.to} was not made: {os.strerror(number)}")

    def missing(self) -> NoPython:
        return NoPython(f"the {self.to} has no interpreter; this is a mistake in roamlet")

    def explain(self, exit_code: int | None, said: list[str]) -> ConnectError:
        return ConnectError(
            f"the {self.to} {ended(exit_code)} before it was ready, and said:\n{quoted(said)}\n"
            "    Does something that this process has loaded survive no fork? remote.local() starts an interpreter of its own."
        )
