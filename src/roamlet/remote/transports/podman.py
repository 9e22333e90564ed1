"""An interpreter in a running container of Podman."""

from typing import ClassVar

from roamlet.remote.errors import ConnectError, NotAllowed, TargetNotFound, TargetNotRunning
from roamlet.remote.transports.command import Meaning
from roamlet.remote.transports.docker import NO_PROGRAM, NO_USER, Docker


class Podman(Docker):
    """Starts a Python in the container `container` of this user: each user has containers of their own."""

    program = "podman"
    comes_with = "the package podman"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        Meaning(
            r"no container with name or ID|no such container",
            TargetNotFound,
            "this user has no container {target}",
            "See which there are: podman ps --all. Root's are not those of other users.",
        ),
        Meaning(
            r"exec sessions on running containers|container that is not running|container state improper",
            TargetNotRunning,
            "the container does not run",
            "Start it: podman start {target}. Why it ended: podman logs {target}",
        ),
        Meaning(
            r"[Cc]annot connect to Podman|unable to connect to Podman socket",
            ConnectError,
            "Podman's service does not answer",
            "See the connections that it knows: podman system connection list",
        ),
        Meaning(
            r"newuidmap|cannot clone: Operation not permitted|cannot re-exec process|XDG_RUNTIME_DIR.*[Pp]ermission denied",
            NotAllowed,
            "Podman cannot make its user namespace here",
            "Does /etc/subuid have a line for this user, and does the kernel allow user namespaces?",
        ),
        NO_USER,
        NO_PROGRAM,
    )
