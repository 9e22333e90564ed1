"""Targets for the remote tests: each interpreter that was found, over `local` and over a real sshd on loopback."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import roamlet
from roamlet import remote
from tests.exhaustive import telling
from tests.remote import interpreters
from tests.remote.sshd import Sshd, running_sshd, server_environment
from tools.unpack_debian import CannotUnpack

sys.path.append(str(Path(__file__).parent / "sent"))


# Beside the oldest, the newest and Debian's own, and over ssh beside the oldest and Debian's own.
LEFT_TO_NIGHTLY = {"local-3.8", "ssh-3.6", "ssh-3.8", "ssh-3.13"} if "debian" in interpreters.found() else set()


def targets(names: Iterable[str]) -> list[Any]:
    """The parameters of `target` and `shared` for the interpreters of these names, over every transport.

    The transport carries the same bytes for each of them: `make test` leaves some combinations to `make nightly`.
    """
    return telling(
        [f"{way}-{name}" for way in ("local", "ssh") for name in names], lambda name: name not in LEFT_TO_NIGHTLY
    )


TARGETS = targets(interpreters.found())


@dataclass
class Target:
    """One interpreter over one transport. `open` makes a context there; the fixture closes what the test left open."""

    way: str
    python: str
    version: tuple[int, int]
    sshd: Sshd | None
    opened: list[remote.Context] = field(default_factory=list)

    def open(self, **options: Any) -> remote.Context:
        options = {"python": self.python, **options}
        if self.sshd is None:
            context = remote.local(**options)
        else:
            context = remote.ssh(self.sshd.host, ssh_args=self.sshd.ssh_args, **options)
        self.opened.append(context)
        return context

    @property
    def name(self) -> str:
        return "local" if self.sshd is None else self.sshd.host

    @property
    def speaks_python_2(self) -> bool:
        return self.version < (3,)


def _target(name: str, request: pytest.FixtureRequest) -> Target:
    way, _, version = name.partition("-")
    python = interpreters.found()[version]
    sshd = request.getfixturevalue("sshd") if way == "ssh" else None
    numbers = tuple(int(part) for part in version.split(".")) if version[0].isdigit() else sys.version_info[:2]
    return Target(way, python, (numbers[0], numbers[1]), sshd)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd | CannotUnpack]:
    """The sshd of this run, or why it cannot run."""
    folder = tmp_path_factory.mktemp("sshd")
    try:
        server_environment()
    except CannotUnpack as reason:
        yield reason.with_traceback(None)
        return
    with running_sshd(folder) as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def server_before_the_first_test(request: pytest.FixtureRequest) -> None:
    """Start sshd before the checks of what a test leaves behind, if any test of this run needs it."""
    here = Path(__file__).parent
    names = [item.name for item in request.session.items if here in item.path.parents]
    if any("ssh" in name for name in names) or any("sshd" in item.fixturenames for item in request.session.items):
        request.getfixturevalue("server")


@pytest.fixture(scope="session")
def sshd(server: Sshd | CannotUnpack) -> Sshd:
    """The running server; without one, the tests over ssh are skipped and say why."""
    if isinstance(server, CannotUnpack):
        pytest.skip(f"no sshd: {server}")
    return server


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Every interpreter over every transport, for tests that need contexts of their own."""
    target = _target(request.param, request)
    yield target
    for context in target.opened:
        context.close()


@pytest.fixture(params=["local", "ssh"])
def own_target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """This process's own interpreter over every transport: for what does not depend on the target's version."""
    sshd = request.getfixturevalue("sshd") if request.param == "ssh" else None
    target = Target(request.param, sys.executable, (sys.version_info[0], sys.version_info[1]), sshd)
    yield target
    for context in target.opened:
        context.close()


@pytest.fixture(scope="module", params=TARGETS)
def shared(request: pytest.FixtureRequest) -> Iterator[remote.Context]:
    """One context for all tests of a file, for calls that leave nothing on the target."""
    target = _target(request.param, request)
    with target.open() as context:
        yield context


BARE = getattr(sys, "_base_executable", sys.executable)


@contextmanager
def _two_places() -> Iterator[tuple[remote.Context, remote.Context]]:
    with (
        remote.local(python=BARE, tasklets=True, name="a") as a,
        remote.local(python=BARE, tasklets=True, name="b") as b,
    ):
        yield a, b


@pytest.fixture(scope="module")
def two_places() -> Iterator[tuple[remote.Context, remote.Context]]:
    with _two_places() as places:
        yield places


def _as_new(a: remote.Context, b: remote.Context) -> tuple[remote.Context, remote.Context]:
    import move_to_functions  # in "sent"

    move_to_functions.forget()
    a.allow_moves_to(b, roamlet.home)
    b.allow_moves_to()
    for context in (a, b):
        context.call(move_to_functions.forget)
    return a, b


@pytest.fixture
def a(two_places: tuple[remote.Context, remote.Context]) -> remote.Context:
    """A context for tasklets, from which they may move on to `b` and home. It outlives the test."""
    return _as_new(*two_places)[0]


@pytest.fixture
def b(a: remote.Context, two_places: tuple[remote.Context, remote.Context]) -> remote.Context:
    """Another one, from which they may move on to nowhere."""
    return two_places[1]


@pytest.fixture
def mortals() -> Iterator[tuple[remote.Context, remote.Context]]:
    """The same two, for tests that end them."""
    with _two_places() as places:
        yield _as_new(*places)


@pytest.fixture
def in_tasklets() -> Callable[..., list[Any]]:
    """`in_tasklets(f, values)` runs f(value) for all values at once, each in a tasklet; returns results or exceptions."""

    def run(function: Callable[[Any], Any], values: list[Any]) -> list[Any]:
        done = roamlet.channel()

        def one(index: int, value: Any) -> None:
            try:
                result = function(value)
            except Exception as error:
                result = error.with_traceback(None)
            done.send((index, result))

        for index, value in enumerate(values):
            roamlet.tasklet(one)(index, value)
        results = sorted((done.receive() for _ in values), key=lambda pair: pair[0])
        roamlet.run()
        return [result for _, result in results]

    return run
