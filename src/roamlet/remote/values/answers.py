"""From the answer to a call to its value, or to the exception that the caller gets."""

import sys
import time
from collections.abc import Callable
from typing import Any

from roamlet.remote import modules
from roamlet.remote.base.facts import Facts
from roamlet.remote.errors import (
    CannotTravel,
    ChainBroken,
    FunctionExited,
    FunctionNotFound,
    ProtocolError,
    RemoteError,
    RemoteModuleNotFound,
)
from roamlet.remote.link.inflight import Answer
from roamlet.remote.values import error_places, failures, registry
from roamlet.remote.values.registry import Incoming
from roamlet.wire import codec, protocol

VALUES = b"V"  # the beginning of what is not plain: see roamlet.wire.values.values
IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError")
FIELDS = (("reason", str), ("type", str), ("module", str), ("text", str), ("traceback", str))


class Refused:
    """What came is a value, and cannot be made here. `path`: where in it."""

    def __init__(self, why: str, path: str) -> None:
        self.why = why
        self.path = path


class Failure:
    """The body of ERROR, checked."""

    def __init__(self, said: Any) -> None:
        if not isinstance(said, dict):
            raise ValueError("ERROR is no dict")
        for name, kind in FIELDS:
            if type(said.get(name)) is not kind:
                raise ValueError(f"ERROR says {name}={said.get(name)!r:.80}")
        self.reason: str = said["reason"]
        self.type_name: str = said["type"]
        self.module: str = said["module"]
        self.text: str = said["text"]
        self.traceback: str = said["traceback"]
        self.path: str = said["path"] if type(said.get("path")) is str else ""
        self.args: Any = said.get("args")
        self.fields: Any = said.get("fields")


def value(
    answer: Answer,
    name: str,
    facts: Facts,
    function: str,
    refer: Callable[[int], object] | None = None,
    deadline: float | None = None,
) -> Any:
    """The result of a call of `function` in the context `name`, or raise its error. `refer`: see codec.loads.

    Raises codec.OutOfTime when it is large, and has not been decoded by `deadline` (time.monotonic), and ProtocolError
    when the bytes are no answer; the caller of this closes the context then.
    """
    kind, body = answer
    until = None if deadline is None else lambda: time.monotonic() > deadline
    if kind == protocol.RESULT and body[:1] != VALUES:
        try:
            return codec.loads(body, refer, until=until)
        except (codec.CannotTravel, ValueError):
            pass  # what is wrong is found out below
    said, problem = _decoded(kind, body, refer, until)
    if isinstance(said, Refused):
        raise _refused(said, name, facts, function)
    if problem:
        raise ProtocolError(
            f"{name!r} answered {function} with bytes that are no value, so it was closed: {problem}.\n"
            "    A program on the target writes to descriptors that are not its own, or it is hostile.",
            context=name,
            function=function,
        )
    if isinstance(said, Failure):
        raise _error(said, name, facts, function)
    return said


def _decoded(
    kind: int, body: bytes, refer: Callable[[int], object] | None, until: Callable[[], bool] | None
) -> tuple[Any, str]:
    """The value, or a Failure, and why the bytes are neither. A value is never a Failure: codec makes plain types only."""
    try:
        said = Incoming().loads(body, refer, until)
        return (said if kind == protocol.RESULT else Failure(said)), ""
    except codec.CannotTravel as error:
        return Refused(str(error), error.path), ""
    except ValueError as error:
        return None, str(error)


def _refused(refused: Refused, name: str, facts: Facts, function: str) -> CannotTravel:
    where = f"{name!r} ({facts.implementation} {facts.version})"
    travel = CannotTravel(
        f"{function} ran in {where}, but what it returned cannot be taken: {refused.why}.",
        context=name,
        function=function,
    )
    travel.path = refused.path or None
    return travel


def _error(failure: Failure, name: str, facts: Facts, function: str) -> Exception:
    where = f"{name!r} ({facts.implementation} {facts.version})"
    about = {"context": name, "function": function}
    if failure.reason == protocol.ERROR_IMPORT:
        return _noted(_import_error(failure, where, about, facts), failure, about)
    if failure.reason == protocol.ERROR_FUNCTION:
        return FunctionNotFound(
            f"{function} is not there in {where}: {failure.text}.\n"
            "    The target has another module of this name: its own packages come before the parent's.",
            **about,
        )
    if failure.reason == protocol.ERROR_RESULT:
        travel = CannotTravel(
            f"{function} ran in {where}, but what it returned cannot travel: {failure.text}.\n"
            "    Return what you need of it as plain values.",
            **about,
        )
        travel.path = failure.text.partition(" cannot travel")[0]
        return travel
    if failure.reason == protocol.ERROR_MESSAGE and failure.type_name == "CannotTravel":
        return CannotTravel(f"{function} was not run in {where}: {failure.text}", **about)
    if failure.reason != protocol.ERROR_RAISED:
        kind = ChainBroken if failure.reason == protocol.ERROR_CHAIN else RemoteError
        return kind(f"{function} was not run in {where}: {failure.text or failure.reason}", **about)
    if (failure.module, failure.type_name) == ("builtins", "SystemExit"):
        code = failure.args[0] if isinstance(failure.args, tuple) and failure.args else None
        left = FunctionExited(
            f"{function} called sys.exit({'' if code is None else repr(code)}) in {where}. The context lives on.\n"
            "    Let the function return, or raise an exception of its own.",
            type_name="SystemExit",
            traceback=failure.traceback,
            **about,
        )
        left.code = code
        return _noted(left, failure, about)
    own = registry.registered_error(failure.module, failure.type_name, failure.args, failure.fields)
    if own is not None:
        failures.add_traceback(own, failure.traceback, name, function)
        return own
    error = failures.rebuilt(
        module=failure.module,
        type_name=failure.type_name,
        args=failure.args,
        text=failure.text,
        traceback=failure.traceback,
        context=name,
        function=function,
    )
    for note in (
        error_places.of_failed_import(failure.type_name, failure.text, failure.traceback, name, facts),
        error_places.of_unopened(failure.text, failure.path),
    ):
        if note:
            error.add_note(note)
    return error


def _import_error(failure: Failure, where: str, about: dict[str, str], facts: Facts) -> RemoteError:
    """The function was never run: its module did not come about on the target."""
    module = about["function"].rpartition(".")[0]
    place = error_places.of_failed_import(failure.type_name, failure.text, failure.traceback, about["context"], facts)
    place = place or error_places.of_unopened(failure.text, failure.path)
    place = place and f"\n    {place}"
    if failure.type_name in IMPORT_ERRORS:
        return RemoteModuleNotFound(
            f"{about['function']} was not run in {where}: importing {module} failed there: {_first_cause(failure)}.\n"
            "    Pure Python modules travel by themselves when they can be imported here; what needs a compiler must be "
            f"installed on the target.{place}",
            type_name=failure.type_name,
            traceback=failure.traceback,
            **about,
        )
    if failure.type_name == "NoCore":
        return RemoteError(
            f"{about['function']} was not run in {where}: its module {module} starts something of roamlet while it is imported "
            f"there: {failure.text}.\n"
            "    Put that part under  if __name__ == '__main__':  so that it runs here alone.",
            type_name=f"{failure.module}.{failure.type_name}",
            traceback=failure.traceback,
            **about,
        )
    if module == "__main__" and not modules.has_guard():
        advice = (
            "The main script has no main guard, so that all of it runs there when it is imported, what opens contexts too. Put "
            "that part under  if __name__ == '__main__':  so that it runs in this process alone."
        )
    elif facts.python[:2] == sys.version_info[:2]:
        advice = "What the module does while it is imported, it does there; does it use what only this machine or process has?"
    else:
        advice = "The module runs on that Python as it stands here; does it use what that version lacks?"
    return RemoteError(
        f"{about['function']} was not run in {where}: importing {module} failed there: {failure.type_name}: {failure.text}.\n"
        f"    {advice}{place}",
        type_name=f"{failure.module}.{failure.type_name}",
        traceback=failure.traceback,
        **about,
    )


def _first_cause(failure: Failure) -> str:
    """What was missing first, and then the error itself: packages catch the one and give advice that is about other causes."""
    for line in failure.traceback.splitlines():
        name, _, text = line.partition(": ")
        if name in IMPORT_ERRORS and text and not failure.text.startswith(text):
            became = " ".join(failure.text.split()).rstrip(".")
            return f"{text}.\n    What became of that: {became}"
    return failure.text.rstrip(".")


def _noted(error: RemoteError, failure: Failure, about: dict[str, str]) -> RemoteError:
    failures.add_traceback(error, failure.traceback, about["context"], about["function"])
    return error
