"""The errors of remote contexts; no code that detects them.

Each also derives from the builtin that people already catch. What happened on the target arrives as the same type where it is
one of Python's own exceptions, with the remote traceback as a note; every other type arrives as a plain RemoteError.
"""

from collections.abc import Callable
from typing import Any

from roamlet import _migration
from roamlet._escapes import escaped
from roamlet.core import RoamletError, tasklet


class RemoteError(RoamletError):
    """Something went wrong with another context, or in it.

    As itself: a function on the target raised an exception that is not one of Python's own. `type_name` is that exception's
    module and name, `args_text` its text, `traceback` the traceback on the target. In subclasses those may be None.
    `context` is the name of the context, `function` that of the function that was called, where there is one. `sent` tells
    whether the call had been sent: False is a promise that it has not happened and will not; None: see the type.
    """

    context: str | None
    function: str | None
    type_name: str | None
    traceback: str | None
    sent: bool | None = None

    def __init__(
        self,
        message: str,
        *,
        context: str | None = None,
        function: str | None = None,
        type_name: str | None = None,
        traceback: str | None = None,
    ) -> None:
        super().__init__(escaped(message))  # it quotes what targets say, and Python prints it as it is
        self.context = context
        self.function = function
        self.type_name = type_name
        self.traceback = traceback

    def happened_in(self, context: str, function: str | None = None) -> None:
        """Name the context, and the function if it is not named yet, for an error from where they were not known."""
        if self.context is None:
            self.context = context
            self.function = self.function or function
            self.args: tuple[Any, ...] = (f"{self}\n    The call was for the context {context!r}; nothing was sent.",)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        return _bare, (type(self), str(self)), dict(vars(self))


class ConnectError(RemoteError, ConnectionError):
    """A context could not be opened. Nothing of it is left: no process, no descriptor."""


class BadHostName(ConnectError, ValueError):
    """What was given as host, user, container or the like cannot be one; nothing was started."""


class HostUnknown(ConnectError):
    """The host's name cannot be resolved."""


class HostUnreachable(ConnectError):
    """The host has an address, but nothing answers there (no ssh, no cluster's server), or the answer broke off."""


class HostKeyRefused(ConnectError):
    """The host's key is not the one that is known for it."""


class HostKeyUnknown(ConnectError):
    """No key is known for the host, and ssh may not ask the user."""


class AuthenticationFailed(ConnectError, PermissionError):
    """The target accepts neither the keys that were offered nor the password, or it wants a password and none was given."""


class NotAllowed(ConnectError, PermissionError):
    """This user may not do that: rules of sudo or doas, the socket of a daemon, namespaces of others."""


class TargetNotFound(ConnectError, LookupError):
    """There is no such container, pod, machine, process, node or user."""


class TargetNotRunning(ConnectError):
    """The container, pod or machine is there, but it does not run."""


class UnsafeFork(ConnectError):
    """The process was not forked: threads beside the caller's may hold locks that no thread would release in the child."""


class NoAllocation(ConnectError):
    """There is no allocation of Slurm's to start a task in, or no longer."""


class NoPython(ConnectError, FileNotFoundError):
    """None of the interpreters that were tried is there."""


class PythonTooOld(ConnectError):
    """The interpreter that answered is older than what a target needs: CPython 2.7, or 3.6 and later."""


class VersionConflict(ConnectError):
    """A package has another version on the target than here, and the context was to be opened only if they are the same."""


class ConnectTimeout(ConnectError, TimeoutError):
    """The context was not ready within its time."""


class NotScheduled(ConnectTimeout):
    """What was requested of Slurm or Kubernetes still waited for room when its time was over. It was taken back, or the
    message has the line that does it.
    """


class RequestRefused(ConnectError, ValueError):
    """Slurm or Kubernetes takes no such request: no such partition, more than there is, a field that it does not know."""


class ImagePullFailed(ConnectError):
    """A node of the cluster did not get the image of the pod."""


class NoTasklets(ConnectError):
    """Tasklets were asked for, and the Python on the target cannot run roamlet's core."""


class ContextClosed(RemoteError, ValueError):
    """The context was closed: by `close()`, or by leaving its `with` block."""


class ContextDied(RemoteError, ConnectionError):
    """The process on the target, or the connection to it, ended by itself. The message says how.

    `exit_code` and `signal` tell how the local end of it ended, where that is known.
    """

    exit_code: int | None = None
    signal: int | None = None


class ProtocolError(ContextDied):
    """The other end sent what it must never send; its context was closed, and nothing of what it sent was used."""


class ForkedContext(RemoteError):
    """The context belongs to the parent of this forked process; it cannot be used here."""


class CallTimeout(RemoteError, TimeoutError):
    """A call did not answer within its time. It was asked to stop; whether it does is up to its function."""


class ChainBroken(RemoteError):
    """The call was not run, because one before it in its chain has failed: `__cause__` is its error, `first` its function."""

    first: str | None = None
    _chain: int | None = None


class OutputHeld(RemoteError, RuntimeError):
    """An output function called the context whose output it takes, or one opened via that, which waits for this function."""


class CannotTravel(RemoteError, TypeError):
    """An argument or a result holds something that is not plain data. `path` names where in it."""

    path: str | None = None


class FunctionNotFound(RemoteError, AttributeError):
    """The function has no name by which the other side could find it, or its module there has no such name."""


class RemoteModuleNotFound(RemoteError, ModuleNotFoundError):
    """A module is neither on the target nor here."""

    def happened_in(self, context: str, function: str | None = None) -> None:
        super().happened_in(context, function)
        self.msg: str = str(self.args[0])  # which is the text of an ImportError, and not its args


class FileChanged(RemoteError, OSError):
    """A file was changed while it was read. Nothing was put in place of the one it was to be."""


class DamagedFile(RemoteError, OSError):
    """A file did not arrive as it was sent: its checksum is another one. Nothing was put in place."""


class UnsafeName(RemoteError, ValueError):
    """The other side named something outside of the folder that was asked for; it was not touched."""


class NotMoved(RemoteError, _migration.NotMoved):
    """A tasklet was not moved to a context: it is where it was, and nothing of it is on the target. roamlet.NotMoved, too."""


class MoveInDoubt(RemoteError, ConnectionError):
    """The link broke when a tasklet had been sent the order to continue on the target: whether it has done so is unknown.

    `tasklet` is suspended here, and goes on in both places only if the program decides so: `take_back()` puts it where it was,
    `tasklet.kill()` ends it. When `tasklet` is None, it is suspended in the context that it was to leave, and kill() of its handle
    ends it. A context ends some seconds after its link at the latest, and with it what went on there.
    """

    def __init__(
        self,
        message: str,
        *,
        context: str | None = None,
        tasklet: "tasklet[...] | None" = None,
        take_back: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(message, context=context)
        self.tasklet = tasklet
        self._take_back = take_back

    def take_back(self) -> None:
        """Let the tasklet be where it was before the move: at the end of its channel's queue, or of the run queue. Once only."""
        take_back, self._take_back = self._take_back, None
        if take_back is None:
            raise RuntimeError("the tasklet was taken back already")
        take_back()


class FunctionExited(RemoteError):
    """The function called sys.exit(). The context lives on. `code` is what it was called with."""

    code: Any = None


def _bare(cls: type[RemoteError], message: str) -> RemoteError:
    """For pickle and copy: the same error, its attributes follow."""
    return cls(message)
