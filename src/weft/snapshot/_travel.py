"""A tasklet on its way to another process: packed here, and made again over there, where it goes on. What moves the bytes is
weft.remote.

A tasklet travels alone. The channels that it holds stay where they are: over there they are what weft.remote makes of channels in
arguments. This module is sent to contexts with the rest of weft.snapshot; below is first the side that sends.
"""

import io
import sys
import types
from collections.abc import Sequence
from typing import Any

from weft.core import NoCore, tasklet
from weft.snapshot import _code, _format, _load, _native
from weft.snapshot._contexts import warn_of
from weft.snapshot._errors import BadSnapshot
from weft.snapshot._helpers import base
from weft.snapshot._save import FUNCTION, STARTED, Reduced, Saver, save
from weft.sync._outcome import Outcome
from weft.sync._spawn import Body, Spawned, without_first_frame

RAISES, SENDS_ERROR, ITERATES, ENDED, ATOMIC_FLAG, SCHEDULED, HAS_VALUE = (
    1,
    2,
    4,
    8,
    16,
    32,
    64,
)  # of the flags in a state
MAIN = "__main__"

_BODY = Body.__dict__["__call__"]

State = tuple[int, object, object, int, int]
"""Where a tasklet was before it was detached: direction, channel, value, flags, atomic depth. settle() takes it."""


class Parcel(Saver):
    """Writes one tasklet that was detached. Afterwards `lent` has its channels in the order of their numbers, `modules` the
    names of those that it needs over there, `generators` those that were copied with it.
    """

    def __init__(
        self, moving: tasklet[...], state: State, lends: tuple[type, ...], stay: tuple[type, ...], main: str | None
    ) -> None:
        """`lends`: the classes of channels; `stay`: those of what is only named over there; `main`: by which
        name the main script can be imported over there, if it can.
        """
        self.file = io.BytesIO()
        super().__init__(self.file)
        self.moving = moving
        self.state = state
        self.lends = lends
        self.stay = stay
        self.main = main
        self.lent: list[Any] = []
        self.modules: set[str] = set()
        self.generators: list[Any] = []
        self.body: Body[Any] | None = None  # of one that weft.spawn() made
        self._numbers: dict[int, int] = {}
        self._operations = {
            id(method): name
            for cls in lends
            for name, method in vars(cls).items()
            if isinstance(method, (types.MethodDescriptorType, types.FunctionType))
        }

    def packed(self) -> bytes:
        """The bytes. Raises CannotSave."""
        from weft import __version__  # weft imports nothing of ours, but must be there first

        save(self, self.moving)
        warn_of(self.left_out, 5)  # behind what weft.remote does for Context.move()
        self.modules.update(reference[0] for reference, _ in self.table)
        return _format.write(self.table, self.file.getvalue(), __version__)

    def resolve(self, function: types.FunctionType) -> int | types.FunctionType:
        """See Saver. The functions of the main script are found by name too, where that script can travel."""
        if function.__module__ == MAIN and self.main is not None:
            reference = _code.reference_in(sys.modules[MAIN], self.main, function)
            if reference is not None:
                return self._number(reference, function.__code__)
        return super().resolve(function)

    def carries_globals(self, where: str) -> bool:
        """See Saver."""
        return super().carries_globals(where) and (where != MAIN or self.main is None)

    def tasklet_contents(self, item: tasklet[Any]) -> Reduced:
        """See Saver. What weft.spawn() puts around its function stays here, and so does where the tasklet waited."""
        contents = super().tasklet_contents(item)
        if type(item) is Spawned:  # whose outcome stays here
            contents = (*contents[:-1], getattr(item, "__dict__", None) or None)
        direction, waits_in, value, flags, depth = self.state
        if contents[0] != STARTED:
            function, args, kwargs = contents[FUNCTION : FUNCTION + 3]
            if isinstance(function, Body):
                self.body = body = function
                function, args, kwargs = body.function, body.args, body.kwargs
            return contents[0], function, args, kwargs, flags & ~HAS_VALUE, depth, None, *contents[7:]
        records = contents[1]
        if records and self.functions.get(_BODY) == records[0][0]:
            self.body = records[0][4][0]
            del records[0]
        return *contents[:6], direction, waits_in, value, flags, depth, *contents[11:]

    def refusal(self, value: object) -> str | None:
        """See Saver."""
        if isinstance(value, tasklet) and value is not self.moving:
            return "that is another tasklet, and a tasklet travels alone. Let them share a channel"
        return None

    def sees_to(self, value: object) -> bool:
        """See Saver."""
        return isinstance(value, (*self.lends, *self.stay))

    def reducer_override(self, item: Any) -> Any:
        """See Saver."""
        if isinstance(item, self.lends):
            number = self._numbers.setdefault(id(item), len(self.lent))
            if number == len(self.lent):
                self.lent.append(item)
            return _load.lent, (number,)
        if id(item) in self._operations:
            return Operation, (self._operations[id(item)],)
        if isinstance(item, self.stay):
            return Elsewhere, (repr(item),)
        problem = self.refusal(item)
        if problem is not None:
            raise TypeError(problem)
        if type(item) is Spawned:
            self.queue.append(item)
            return _load.plain_tasklet, ()
        if isinstance(item, type):
            self.modules.add(item.__module__)
        elif isinstance(item, types.ModuleType):
            self.modules.add(item.__name__)
        elif isinstance(item, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
            self.generators.append(item)
        return super().reducer_override(item)


def discard(item: tasklet[...], generators: list[Any]) -> None:
    """End a detached tasklet of this thread, without any of its handlers and finally blocks. Switches to it and back.

    Of `generators`, which is emptied, those that nobody else holds end in the same way.
    """
    kept = _native.defuse(item)
    item.kill()
    del kept
    ended = True
    while ended:
        ended = False
        for number in range(len(generators) - 1, -1, -1):
            if sys.getrefcount(generators[number]) == _REFERENCES_OF_ONE_LIST:
                _native.generator_drop(generators[number])
                del generators[number]
                ended = True
    generators.clear()


_REFERENCES_OF_ONE_LIST = 2  # to what lies in it, where that is counted: its own, and the call's


# ---- the side that takes it


class Operation:
    """What stands over there for a method of a channel, where an expression is about to call it: that of the channel it finds."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, lent: Any, /, *args: Any) -> Any:
        return getattr(lent, self._name)(*args)


class Elsewhere:
    """What stands over there for an object that has stayed here."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoCore(f"{self._shown} has stayed in the parent's process, which alone can use it (.{name})")

    def __repr__(self) -> str:
        return f"<elsewhere: {self._shown}>"


class _Loader(_load.Loader):
    """Reads a parcel."""

    def __init__(self, data: bytes, channels: Sequence[Any], main: str | None) -> None:
        header, pickles = _format.read(data)
        super().__init__(header.references, pickles)
        self.channels = channels
        self.main = main
        self.generators: list[Any] = []

    def make_new_generator(self, function: types.FunctionType) -> Any:
        made = _load.new_generator(function)
        self.generators.append(made)
        return made

    def make_lent(self, number: int) -> Any:
        return self.channels[number]

    def make_new_function(
        self, body: types.CodeType, where: str, name: str, closure: tuple[Any, ...] | None
    ) -> types.FunctionType:
        return _load.new_function(body, self._there(where), name, closure)

    def make_module(self, name: str) -> types.ModuleType:
        return _load.module(self._there(name))

    def make_variable(self, module_name: str, name: str) -> Any:
        return _load.variable(self._there(module_name), name)

    def find_class(self, module_name: str, name: str) -> Any:
        return super().find_class(self._there(module_name), name)

    def _there(self, module_name: str) -> str:
        return self.main if self.main is not None and module_name == MAIN else module_name


class _Moved:
    """A tasklet that has come: restored and suspended, until begin()."""

    def __init__(self, data: bytes, channels: Sequence[Any], main: str | None, *, block: bool) -> None:
        self.stay: Any = None  # of one that is here for a block
        self.outcome: Outcome[Any] = Outcome()
        self.waiter: tasklet[...] | None = None  # waits for it in a channel of the parent's
        self.state: State | None = None
        self.generators: list[Any] = []
        try:
            loader = _Loader(data, channels, main)
            self.tasklet, contents = loader.read()
            restoring = _load._Restoring(loader, paused=True)
            for made, content in zip(loader.objects, contents, strict=True):
                restoring.fill(made, content)
        except BadSnapshot:
            raise
        except Exception as error:
            raise BadSnapshot(f"the tasklet cannot be read here: {error}") from error
        self.generators += loader.generators
        if restoring.started:
            ((_, box, self.state),) = restoring.started
            self.tasklet.bind(_lives, (box, self.outcome))
            if block:
                from weft.snapshot._block import Stay  # which imports this

                self.stay = Stay(contents[0][1], loader.functions, self.outcome)
            restoring.start()
        else:
            content = contents[0]
            self.tasklet.bind(_begins, (self.outcome, *content[1:4]), {})

    def begin(self) -> None:
        """Let it go on. Does not switch."""
        if self.state is None:
            self.tasklet.insert()
        elif self.state[0] == 0:
            _native.settle(self.tasklet, *self.state[:3], self.state[3] | SCHEDULED, self.state[4])
        else:
            self.waiter = tasklet(_wait_for)(self.tasklet, self.state)

    def kill(self) -> None:
        """End it, with its finally blocks; it has ended when its outcome is there."""
        if self.waiter is not None and self.waiter.alive:
            self.waiter.kill(pending=True)
        elif self.tasklet.alive:
            self.tasklet.kill(pending=True)


def _settle(outcome: "Outcome[Any]", function: Any, args: Any, kwargs: Any) -> None:
    try:
        outcome.succeed(function(*args, **kwargs))
    except BaseException as error:
        outcome.fail(without_first_frame(error))
    finally:
        del outcome, function, args, kwargs  # the frame is reached from the error's traceback


def _lives(box: list[Any], outcome: "Outcome[Any]") -> None:
    """The function of a tasklet that had begun: base() puts its frames in the place of this one's callee."""
    _settle(outcome, base, (box,), {})


def _begins(outcome: "Outcome[Any]", function: Any, args: Any, kwargs: Any) -> None:
    """The function of one that had not."""
    _settle(outcome, function, args, kwargs or {})


def _wait_for(waiting: tasklet[...], state: State) -> None:
    """Do in its place what it waited for, with a channel of the parent's; then let it go on with what came."""
    direction, waits_in, value, flags, depth = state
    lent: Any = waits_in
    given: object = None
    result = SCHEDULED
    try:
        if direction < 0 and flags & ITERATES:
            try:
                given = next(lent)
                result |= HAS_VALUE
            except StopIteration:
                result |= ENDED
        elif direction < 0:
            given = lent.receive()
            result |= HAS_VALUE
        elif flags & SENDS_ERROR:
            lent.send_exception(value)
        else:
            lent.send(value)
    except BaseException as error:
        given = error.with_traceback(None)
        result |= HAS_VALUE | RAISES
    _native.settle(waiting, 0, None, given, result | flags & ATOMIC_FLAG, depth)


_here: dict[int, _Moved] = {}


def prepare(number: int, data: bytes, channels: list[Any], main: str | None, block: bool) -> None:
    """Over there: make the tasklet again, and do not let it run. `block`: for a block of weft.at() alone."""
    _here[number] = _Moved(data, channels, main, block=block)


def commit(number: int) -> None:
    """Over there: let it go on. From now on it lives here."""
    moved = _here[number]
    if moved.stay is None:
        moved.generators.clear()
    moved.begin()


def drop(number: int) -> None:
    """Over there: it was not to go on here after all."""
    moved = _here.pop(number, None)
    if moved is not None:
        discard(moved.tasklet, moved.generators)


def kill(number: int) -> None:
    """Over there: end it, with its finally blocks."""
    moved = _here.get(number)
    if moved is not None:
        moved.kill()


def join(number: int) -> Any:
    """Over there: what came of it."""
    moved = _here[number]
    try:
        moved.outcome.ended.wait()
    finally:
        _here.pop(number, None)
    try:
        value = moved.outcome.get()
        return value if moved.stay is None else moved.stay.said(moved.tasklet)
    finally:
        if moved.stay is not None:
            discard(moved.tasklet, moved.generators)
        del moved
