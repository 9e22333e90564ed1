"""An interpreter in a running container of Docker, or of a program with Docker's command line."""

from collections.abc import Sequence
from typing import ClassVar

from roamlet.remote.errors import ConnectError, NoPython, NotAllowed, TargetNotFound, TargetNotRunning
from roamlet.remote.transports.command import Command, Meaning, checked_arguments, checked_name, checked_user

NO_USER = Meaning(
    r"unable to find user (?P<user>\S+?):",
    TargetNotFound,
    "the container has no user {user}",
    "Give one of its own /etc/passwd, or a number, as user=.",
)
NO_PROGRAM = Meaning(
    r"exec: \"(?P<python>[^\"]+)\": (executable file not found|stat .*no such file)|"
    r"executable file `(?P<other>[^`]+)` not found",
    NoPython,
    "the container has no interpreter of that name, or no shell that could look for one",
    "Give the path of one in the container as python=: a target needs CPython 2.7, or 3.6 and later.",
)


class Docker(Command):
    """Starts a Python in the container `container`. Docker's own configuration says which daemon is asked."""

    program = "docker"
    comes_with = "Docker's client, the package docker-cli or docker-ce-cli"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        Meaning(
            r"No such container|no such container",
            TargetNotFound,
            "there is no container {target}",
            "See which there are: docker ps --all. Is it another daemon's (DOCKER_HOST, docker context)?",
        ),
        Meaning(
            r"[Cc]ontainer \S+ is (not running|paused|restarting)|cannot exec in a (stopped|paused) (state|container)",
            TargetNotRunning,
            "the container does not run",
            "Start it: docker start {target}. Why it ended: docker logs {target}",
        ),
        Meaning(
            r"permission denied while trying to connect|dial unix \S+: connect: permission denied",
            NotAllowed,
            "this user may not talk to Docker's daemon",
            "Root may, and so may members of the group docker, who can do all that root can; they log in anew to become such.",
        ),
        Meaning(
            r"Cannot connect to the Docker daemon|error during connect|[Ii]s the docker daemon running",
            ConnectError,
            "Docker's daemon does not answer",
            "Does it run (systemctl status docker), and does DOCKER_HOST or `docker context` name the right one?",
        ),
        NO_USER,
        NO_PROGRAM,
    )

    def __init__(
        self, container: str, *, python: str | None = None, user: str | None = None, arguments: Sequence[str] = ()
    ) -> None:
        super().__init__(checked_name(container, "a container"), python)
        self.user: str | None = checked_user(user)
        self.arguments: tuple[str, ...] = checked_arguments(arguments, f"{self.program}_args")

    def words(self) -> list[str]:
        user = [] if self.user is None else ["--user", self.user.lstrip("#")]
        return [self.program, *self.arguments, "exec", "--interactive", *user, "--", self.target]
