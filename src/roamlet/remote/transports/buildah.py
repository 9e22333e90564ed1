"""An interpreter in a working container of Buildah."""

from typing import ClassVar

from roamlet.remote.errors import NoPython, NotAllowed, TargetNotFound
from roamlet.remote.transports.command import Meaning
from roamlet.remote.transports.docker import NO_PROGRAM, Docker


class Buildah(Docker):
    """Starts a Python in the working container `container` of this user: it runs as long as the context does."""

    program = "buildah"
    comes_with = "the package buildah"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        Meaning(
            r"container not known",
            TargetNotFound,
            "this user has no working container {target}",
            "See which there are: buildah containers. Root's are not those of other users.",
        ),
        Meaning(
            r"unknown user error looking up user \"(?P<user>[^\"]+)\"",
            TargetNotFound,
            "the container has no user {user}",
            "Give one of its own /etc/passwd, or a number, as user=.",
        ),
        Meaning(
            r"newuidmap|creating new user namespace|[Oo]peration not permitted",
            NotAllowed,
            "Buildah may not do that here",
            "Does /etc/subuid have a line for this user, and does the kernel allow user namespaces? "
            'Or ["--isolation", "chroot"] as buildah_args=.',
        ),
        NO_PROGRAM,
        Meaning(
            r"fork/exec (?P<python>\S+): no such file",
            NoPython,
            "the container has no {python}",
            "Give the path of one in it as python=: a target needs CPython 2.7, or 3.6 and later.",
        ),
    )

    def words(self) -> list[str]:
        user = [] if self.user is None else ["--user", self.user.lstrip("#")]
        return ["buildah", "run", *self.arguments, *user, "--", self.target]
