"""The contract of the C core. At run time this name stands for the backend that was loaded."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import Context
from types import FrameType, GenericAlias, TracebackType
from typing import Any, Generic, Literal, ParamSpec, Self, SupportsIndex, TypeVar, final, overload

T = TypeVar("T")
P = ParamSpec("P")
Q = ParamSpec("Q")

class RoamletError(Exception):
    """The base of all errors of roamlet's own."""

class TaskletExit(SystemExit):
    """Ends the tasklet it is raised in; not an error."""

class Cancelled(TaskletExit):
    """A blocking call in a scope that is cancelled, or whose time is over; `scope` is that one."""

    scope: CancelScope

class Deadlock(RoamletError, RuntimeError):
    """The main tasklet waits and nothing can ever wake it."""

class ChannelClosed(RoamletError, ValueError):
    """Send or receive on a closed channel."""

class NoCore(RoamletError, RuntimeError):
    """The call needs roamlet's C core, which is not there."""

backend: str
"""Which switching backend this is: "native" or "greenlet"."""

published: dict[str, object]
"""What layers above the core let readers outside of the process find, by a name each. Nothing in the process reads it."""

class tasklet(Generic[P]):
    """A microthread of this OS thread: tasklet(func)(*args, **kwargs) puts func at the end of the run queue.

    With args or kwargs given here the tasklet is bound but not scheduled: insert() or run() it. It runs in a copy of the
    contextvars context of its creator. An exception that it does not catch is raised in the main tasklet, TaskletExit
    excepted. A tasklet that is suspended when the last reference to it goes is ended with TaskletExit, and so is one that
    nothing can wake, when the cyclic collector finds it.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> tasklet[P]: ...
    def __init__(
        self,
        func: Callable[P, object] | None = None,
        args: Sequence[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tasklet[P]: ...
    def bind(
        self,
        func: Callable[..., object] | None = None,
        args: Sequence[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> tasklet[P]:
        """Bind to a function; with args or kwargs also to its arguments, which makes it alive, paused.

        Without any, unbind. Raises RuntimeError for the current, a scheduled or a started tasklet. Returns the tasklet.
        """
    def setup(self, *args: P.args, **kwargs: P.kwargs) -> tasklet[P]:
        """Give a bound tasklet its arguments and put it at the end of the run queue, as calling it does."""
    def insert(self) -> tasklet[P]:
        """Put a paused tasklet at the end of its thread's run queue. Thread-safe; does not switch."""
    def remove(self) -> tasklet[P]:
        """Take a scheduled tasklet out of the run queue. RuntimeError for a blocked one and for the current."""
    def run(self) -> None:
        """Let the tasklet run at once; the caller follows it in the queue. Of another thread: insert() there."""
    def switch(self) -> None:
        """Let the tasklet run at once and take the caller out of the run queue until it is inserted again."""
    def kill(self, pending: bool = False) -> None:
        """Raise TaskletExit in the tasklet, at once or, if pending, when it runs next.

        The caller follows it in the queue. A dead tasklet stays dead; one that never ran never will. In another
        thread's tasklet: pending.
        """
    def raise_exception(self, exception: type[BaseException] | BaseException, /, *args: Any) -> None:
        """Raise exception(*args) in the tasklet at once. RuntimeError when it is dead."""
    def throw(
        self,
        exc: type[BaseException] | BaseException,
        val: Any = None,
        tb: TracebackType | None = None,
        pending: bool = False,
    ) -> None:
        """Raise the exception of this triple in the tasklet, at once or when it runs next."""
    def bind_thread(self, thread_id: int | None = None, /) -> None:
        """Let a tasklet that has not started run in another thread, by default the calling one.

        RuntimeError for one that is in a run queue or has started, and for one that has ended before another has run in
        its thread; ValueError when the thread does not live or has not used roamlet.
        """
    def set_atomic(self, flag: bool | int, /) -> bool:
        """Make the tasklet atomic, as `with roamlet.atomic():` does, or end that; one that is suspended when it goes on.

        Returns what was set before, so that it can be restored. Levels of `with` stay as they are.
        """
    def set_ignore_nesting(self, flag: bool | int, /) -> bool:
        """Whether run() with a time-out may interrupt the tasklet inside C code that calls Python.

        Returns what was set before.
        """
    def set_context(self, context: Context, /) -> tasklet[P]:
        """Let the tasklet go on, or start, in this contextvars.Context. Returns the tasklet.

        RuntimeError when it runs in another thread, and for the current one inside Context.run().
        """
    def context_run(self, callable: Callable[Q, T], /, *args: Q.args, **kwargs: Q.kwargs) -> T:
        """Call callable(*args, **kwargs) here, in the calling tasklet, but with this tasklet's context variables."""
    @property
    def frame(self) -> FrameType | None:
        """Its innermost frame, None before it starts and after its end. f_back leads to its first."""
    @property
    def alive(self) -> bool:
        """Whether it has arguments and has not ended."""
    @property
    def blocked(self) -> bool:
        """Whether it waits: for a channel, a wake-up or a timer."""
    @property
    def scheduled(self) -> bool:
        """Whether it is in the run queue or blocked."""
    @property
    def paused(self) -> bool:
        """Whether it is alive, neither in the run queue nor blocked; so is one inside run()."""
    @property
    def is_main(self) -> bool:
        """Whether it is its thread's main tasklet."""
    @property
    def is_current(self) -> bool:
        """Whether it runs now, in its thread."""
    @property
    def thread_id(self) -> int:
        """threading.get_ident() of its thread; -1 after that ended."""
    @property
    def next(self) -> tasklet[...] | None:
        """The next tasklet in the run queue or in a channel's queue, or None."""
    @property
    def prev(self) -> tasklet[...] | None:
        """The neighbour before it, or None."""
    @property
    def atomic(self) -> bool:
        """Whether it is in atomic code, by `with roamlet.atomic()` or set_atomic()."""
    @property
    def ignore_nesting(self) -> bool:
        """Whether it may be interrupted inside C code that calls Python."""
    block_trap: bool
    """When true, a call that would block the tasklet raises RuntimeError instead."""
    tempval: Any
    """The value in transit: what a blocked sender sends; set on a suspended tasklet, what its suspending call returns.

    Set on the running one, it is what its next run() or switch() of another returns.
    """
    @property
    def recursion_depth(self) -> int:
        """How many Python calls deep it is; 0 when it has not started."""
    @property
    def nesting_level(self) -> int | None:
        """How many C calls that call Python stand between its frames; None where the switching backend cannot tell."""
    @property
    def restorable(self) -> bool:
        """Whether all of its state is in Python objects, so that it could be saved: no C call stands between its frames."""
    trace_function: Callable[..., Any] | None
    """The trace function in force: its thread's (sys.settrace), or its own once this was set.

    `del` goes back to the thread's.
    """
    profile_function: Callable[..., Any] | None
    """The profile function in force, likewise."""
    def __reduce__(self) -> tuple[Any, ...]:
        """Save what a tasklet that has not started will call, or that it has ended; TypeError for one under way."""
    def __setstate__(self, state: tuple[Any, ...], /) -> None:
        """Take over what __reduce__() saved."""
    @classmethod
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...

class channel(Generic[T]):
    """A meeting place of tasklets: send and receive pass one value each.

    `buffer`: how many values may wait without a receiver, before senders do; 0: none, each send meets a receive. A channel
    with a buffer has preference 0, so that a receiver which waits does not run for each single value. Iterating receives
    until the channel is closed. Thread-safe. Raises ValueError for a negative buffer, TypeError for one that is no integer.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> channel[T]: ...
    def __init__(self, buffer: SupportsIndex = 0) -> None: ...
    def send(self, value: T, /) -> None:
        """Pass `value` to the receiver that has waited longest. When none waits, leave it in the buffer, or wait.

        Blocks this tasklet only, until the value was received or is in the buffer. Switches: with preference -1 a waiting
        receiver runs at once and this tasklet after it. The receiver may live in another thread. Raises ChannelClosed on
        a closed channel, Deadlock (in main) when no tasklet can ever receive.
        """
    def receive(self) -> T:
        """Take the oldest value of the buffer, or that of the sender that has waited longest, or wait for a sender.

        Blocks this tasklet only. Switches to the sender whose value it takes, or lets into the buffer, when preference is
        1. Raises what was sent with send_exception, ChannelClosed when the channel is closed and empty, Deadlock (in main)
        when no tasklet can ever send. First come, first served among receivers, which may live in several threads.
        """
    def send_exception(self, exception: type[BaseException] | BaseException, /, *args: Any) -> None:
        """Like send, but the receiver raises exception(*args). `exception` is a class, or an instance without args."""
    def send_throw(
        self, exc: type[BaseException] | BaseException, val: Any = None, tb: TracebackType | None = None, /
    ) -> None:
        """Like send, but the receiver raises the exception of this (type, value, traceback) triple."""
    def give_back(self, value: T | BaseException, is_exception: bool = False, /) -> None:
        """Send a value that was received, and could not be used, to the next receiver: in front of all waiting senders.

        Blocks as send does, in a closed channel too; but not in one with a buffer, where it is the first of the values,
        also when the buffer is full. What is given back last is received first. is_exception: it is an exception instance,
        which the receiver raises.
        """
    def send_sequence(self, values: Iterable[T], /) -> int:
        """Send each of an iterable's values; return how many there were. Blocks as send does."""
    def close(self) -> None:
        """Let no other tasklet wait here, and no other value into the buffer: those that wait already may still be met.

        `for` loops over the channel end now, or when they have taken what waits. Does not switch.
        """
    def open(self) -> None:
        """Undo close."""
    def __iter__(self) -> Iterator[T]: ...
    def __next__(self) -> T: ...
    @property
    def balance(self) -> int:
        """How many tasklets wait here: senders count up, receivers down."""
    @property
    def queue(self) -> tasklet[...] | None:
        """The tasklet that has waited longest, or None."""
    @property
    def closing(self) -> bool:
        """Whether close() was called."""
    @property
    def closed(self) -> bool:
        """Whether it is closing, and no tasklet waits here any more and no value."""
    @property
    def buffer(self) -> int:
        """How many values may wait without a receiver."""
    @property
    def buffered(self) -> int:
        """How many values wait now; more than `buffer` when some were given back."""
    preference: Literal[-1, 0, 1]
    """Which one runs when two meet: -1 the receiver (default without a buffer), 1 the sender, 0 the one that ran already
    (default with a buffer). Its sign counts.
    """
    schedule_all: bool
    """When true, every operation lets the next tasklet run, whatever the preference."""
    def __reduce__(self) -> tuple[Any, ...]:
        """Save the channel's settings and the values in its buffer; as roamlet.snapshot does where tasklets wait."""
    def __sizeof__(self) -> int:
        """Its size in bytes, with the slots of its buffer."""
    def __setstate__(self, state: tuple[Any, ...], /) -> None:
        """Take over what __reduce__() saved."""
    @classmethod
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...

@final
class Waiter(Generic[T]):
    """A one-shot wake-up: one tasklet waits, any code in any thread settles it, before or after the wait began."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Waiter[T]: ...
    def wait(self, timeout: float | None = None, daemon: bool = False) -> T:
        """Block this tasklet until the waiter is settled; return the value of succeed, raise the exception of fail.

        Raises TimeoutError when `timeout` seconds (float, >= 0) passed first. A `daemon` wait neither keeps roamlet.run()
        going nor hides a deadlock. RuntimeError for a second wait.
        """
    def succeed(self, value: T = ..., /) -> bool:
        """Settle with a value. True, or False when it was settled before or its wait has ended.

        Thread-safe; never switches.
        """
    def fail(self, exception: BaseException, /) -> bool:
        """Settle with an exception instance, which wait raises. Otherwise like succeed."""
    @property
    def done(self) -> bool:
        """Whether it was settled, or its wait has ended without that."""
    @classmethod
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...

@final
class ModuleLock:
    """The import system's lock of the module `name`, which belongs to a tasklet.

    acquire() raises importlib's _DeadlockError where the owner waits for the calling tasklet.
    """

    def __new__(cls, name: str) -> Self: ...
    def acquire(self) -> Literal[True]:
        """Take the lock, once more if it is the calling tasklet's; wait while another has it. Returns True.

        Blocks this tasklet only; the thread where tasklets cannot be switched. Thread-safe.
        """
    def release(self) -> None:
        """Undo one acquire(). Never switches. RuntimeError when the lock is not the calling tasklet's."""

class local:
    """An object whose attributes each tasklet has for itself, as threading.local has them for each thread.

    They go when their tasklet ends; a tasklet begins with none, whatever its creator has. A subclass's __init__ runs once in
    each tasklet that uses the object, with the arguments that it was made with. A thread without tasklets has its own, as its
    main tasklet. Thread-safe.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def __getattribute__(self, name: str, /) -> Any: ...
    def __setattr__(self, name: str, value: Any, /) -> None: ...
    def __delattr__(self, name: str, /) -> None: ...

@overload
def select(
    *cases: channel[Any] | tuple[channel[Any], Any], timeout: float | None = None
) -> tuple[channel[Any], Any]: ...
@overload
def select(*cases: channel[Any] | tuple[channel[Any], Any], default: T) -> tuple[channel[Any] | None, Any | T]:
    """Receive from, or send to, the first of several channels that has a partner; wait for a partner when none has.

    A case is a channel, to receive from, or a pair (channel, value), to send; one for each channel. Returns (channel, value)
    of the one case that was met, value being None for a send. Where several can be met, each has its turn. Blocks this
    tasklet only; switches as send and receive do. Raises what send_exception has sent, ChannelClosed when no case can be met
    and one of the channels is closed, or is being closed meanwhile, TimeoutError when none came within `timeout` seconds
    (float, >= 0), Deadlock (in main) when none ever can. With `default` it does not wait: (None, default) when no case
    can be met at once. Thread-safe.
    """

@overload
def schedule() -> tasklet[...]: ...
@overload
def schedule(retval: T) -> T:
    """Let the next tasklet of the run queue run; this one goes to its end.

    Returns retval, by default the current tasklet. Switches; raises what is thrown into this tasklet meanwhile.
    """

@overload
def schedule_remove() -> tasklet[...]: ...
@overload
def schedule_remove(retval: T) -> T:
    """Like schedule, but take this tasklet out of the run queue until it is inserted again."""

@final
class atomic:
    """A context manager: code inside it excludes all other atomic code, in every thread, and is not preempted.

    It does not exclude code that is not atomic. Re-entrant for its tasklet; works in threads without tasklets too. A
    tasklet may block, switch or be killed inside: it gives atomic up and has it again, at the same depth, before it goes
    on. Blocks the whole thread, with the GIL released, while another thread is in atomic code; a wait of more than a
    second is reported by a RuntimeWarning that names the owner's line. Waiters are not served in order.
    """

    def __new__(cls) -> atomic: ...
    def __enter__(self) -> atomic:
        """Go one level deeper into atomic code; wait while another thread is in it."""
    def __exit__(self, *args: object) -> None:
        """Leave one level. RuntimeError when the tasklet is not atomic."""

def run(
    timeout: int = 0,
    threadblock: bool = False,
    soft: bool = False,
    ignore_nesting: bool = False,
    totaltimeout: bool = False,
    *,
    hub: bool = True,
    slice: float | None = None,
) -> tasklet[...] | None:
    """Run until nothing is runnable and nothing waits in the hub: no sleep, descriptor, child process, job or remote reply.

    Any tasklet may call it, usually main; it raises what a tasklet did not catch, and may be called again. Tasklets that
    are blocked on channels do not keep it; with threadblock it also waits while other threads live that might wake one.
    With hub=False it returns as soon as the run queue is empty.

    slice, in seconds (float, 1e-06 to 3600): a tasklet that has run for so long goes to the end of the run queue.
    timeout, a number of opcodes: a tasklet that has executed so many since it was switched to, or with totaltimeout all
    together, is taken out of the run queue, and run returns it: insert() lets it go on. With soft it is not interrupted;
    run returns None at its next switch. Returns None when everything is done. A tasklet is not interrupted while it is
    atomic nor, unless ignore_nesting, inside C code that calls Python or an import. In a thread that runs under one
    time-out or slice already, those of inner run() calls are ignored, as in Stackless. When run raises although it has
    interrupted a tasklet, that one stays in the run queue.
    ValueError for values out of range, RuntimeError where tasklets cannot be switched.
    """

def run_queue(
    timeout: int = 0,
    threadblock: bool = False,
    soft: bool = False,
    ignore_nesting: bool = False,
    totaltimeout: bool = False,
) -> tasklet[...] | None:
    """Stackless's run(): like run(..., hub=False)."""

def set_single_stack(on: object, /) -> bool:
    """Have tasklets that begin from now on share their thread's own C stack, or not, in all threads. Returns what was set before.

    A greenlet of another library can be resumed in any tasklet of that stack; elsewhere only in the tasklet that made it. It
    is set when greenlet is imported. Sharing costs a copy of some hundred bytes for each switch. Without effect on greenlet.
    """

def switch_trap(change: int = 0, /) -> int:
    """Add `change` to this thread's trap level and return the level before.

    While it is not 0 a call that would switch tasklets raises RuntimeError.
    """

def set_schedule_callback(
    callback: Callable[[tasklet[...], tasklet[...]], object] | None, /
) -> Callable[[tasklet[...], tasklet[...]], object] | None:
    """Have callback(previous, next) called before every switch, in all threads; None: no longer. Returns the one before.

    It runs in the tasklet that is left and must not switch. What it raises is reported, not raised.
    """

def get_schedule_callback() -> Callable[[tasklet[...], tasklet[...]], object] | None:
    """The schedule callback, or None."""

def set_channel_callback(
    callback: Callable[[channel[Any], tasklet[...], bool, bool], object] | None, /
) -> Callable[[channel[Any], tasklet[...], bool, bool], object] | None:
    """Have callback(channel, tasklet, sending, willblock) called before every channel operation, in all threads.

    None: no longer. Returns the one before. sending and willblock are bool; tasklet is the current one. It must not use
    channels. What it raises is reported.
    """

def get_channel_callback() -> Callable[[channel[Any], tasklet[...], bool, bool], object] | None:
    """The channel callback, or None."""

def set_error_handler(
    handler: Callable[[type[BaseException], BaseException, TracebackType | None], object] | None, /
) -> Callable[[type[BaseException], BaseException, TracebackType | None], object] | None:
    """Have handler(type, value, traceback) called for errors that a tasklet does not catch, in that tasklet.

    In all threads, instead of raising them in main; None: no longer. Returns the one before. What the handler raises goes
    to main.
    """

def getcurrent() -> tasklet[...]:
    """The tasklet that runs."""

def getmain() -> tasklet[...]:
    """This thread's main tasklet."""

def getruncount() -> int:
    """How many tasklets of this thread are runnable, the current one included."""

def getcurrentid() -> int:
    """A number that tells the running tasklet from all others that live; main's is its thread's id."""

def get_thread_info(
    thread_id: int | None = None, flags: int = 0
) -> tuple[tasklet[...] | None, tasklet[...] | None, int]:
    """(main tasklet, current tasklet, number of runnable tasklets) of a thread, by default the calling one.

    The current tasklet is None while the thread waits for something to run, both are while it has not used roamlet. flags is
    accepted and ignored. RuntimeError when there is no such thread.
    """

def threads() -> list[int]:
    """A list of the ids of all threads, the oldest first."""

def sleep(seconds: float, /) -> None:
    """Block this tasklet for at least `seconds` (float, >= 0); others run meanwhile. With 0 all that are runnable run once.

    A tasklet whose time has come runs before those that are runnable by then, every second one at most.
    """

def started() -> list[tasklet[...]]:
    """This thread's tasklets that have started and not ended, main excepted; the oldest first."""

def note_signal(signalnum: int, fd: int, /) -> None:
    """For roamlet.diagnose: have a handler in C write a byte, the signal's number, to fd whenever this signal comes.

    The handler before, if it is one in C, is called for a second signal that comes before signal_answered(). ValueError,
    OSError for what is no signal that can be handled.
    """

def signal_answered(signalnum: int, /) -> None:
    """For roamlet.diagnose: what the last signal asked for was begun."""

def counted() -> tuple[int, int]:
    """For roamlet.diagnose: how often tasklets have come to where others may run, and how many values have passed through
    channels, in all threads but service threads, those that have ended too. Both only grow. Never switches.
    """

def frame_slots(tasklet: tasklet[...], /) -> list[Any]:
    """For roamlet.diagnose: what the frames of a suspended tasklet refer to in variables and operands, from the innermost frame,
    in the order of their slots. From CPython 3.14 on with what they only borrow, which gc.get_referents() lacks. [] on greenlet.
    """

def survey(tasklets: bool = True, /) -> list[tuple[Any, ...]]:
    """For roamlet.diagnose: what all threads that have used roamlet do at this moment, the oldest first. Never switches.

    For each thread a tuple: its id, the main tasklet, the current one (None while no tasklet can run), whether none can, the
    number of runnable tasklets, of timers, and of waits that something else than a tasklet ends; seconds until the next timer
    (None without one) and since the last look at timers and descriptors; how often its tasklets have come to where others
    may run; whether it is a service thread, whether it has tasklets beside main; and a list of its tasklets. Without `tasklets`
    in place of the list: how many of them are not blocked, and how many are blocked in receive, send, a Waiter or sleep, run(),
    a queue. At last how many values have passed through channels in this thread.

    For each tasklet a tuple: itself, its state (0: without arguments, 1: has not run, 2: started), what it is blocked in (0:
    not blocked, -1: receive, 1: send, 2: a Waiter or sleep, 3: run(), 4: a queue), the object it waits for or None, the offset
    of the queue in that object, the channels of a select, seconds until its timer or None, seconds since it began to wait,
    coarse, or None; its scopes, the innermost first, each with the address of the tasklet that entered it; how deep it is in
    atomic code, whether it was preempted, whether it is in the run queue; and the stack of a suspended one, the innermost
    frame first, as code, line, code, line and so on, one tuple for all equal stacks; None on greenlet.
    """

_API: Any
"""The table of functions of c/api.h, for roamlet's other extension modules."""

class CancelScope:
    """Code whose blocking calls raise Cancelled once the scope is cancelled or its time is over.

    `timeout` is a number of seconds (>= 0) from entering on. Each blocking call inside raises, until it is left. `with scope:`
    in one tasklet, once; others join by adopt(). Cancelled.scope is the outermost scope that is over; leaving that one
    swallows it. A shielded scope does not hear of those around it. Code that blocks in no call of roamlet's goes on.
    `name` is what messages and repr() call it.
    """

    def __new__(cls, timeout: float | None = None, *, shield: bool = False, name: str = "CancelScope") -> Self: ...
    def __enter__(self) -> Self:
        """The current tasklet is in it from now on; time counts. RuntimeError the second time."""
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> bool:
        """Leave it. True, which swallows the exception, for a Cancelled that is this scope's.

        RuntimeError for another tasklet than the one that entered it, or when an inner scope was not left.
        """
    def cancel(self) -> None:
        """Let every blocking call inside raise Cancelled, those that wait now included. For good.

        Thread-safe; does not switch.
        """
    def adopt(self, tasklet: tasklet[...], /) -> None:
        """Put a tasklet that has not run yet into the scope, and so into those around it.

        RuntimeError when it has, or when no tasklet is in the scope. Does not switch.
        """
    def reschedule(self, timeout: float | None, /) -> None:
        """Let its time be over `timeout` seconds (float, >= 0) from now, or never (None).

        RuntimeError when no tasklet is inside. Thread-safe; does not switch.
        """
    @property
    def deadline(self) -> float | None:
        """When its time is over, in seconds as time.monotonic() counts; None: never.

        Can be set while a tasklet is inside.
        """
    @deadline.setter
    def deadline(self, value: float | None) -> None: ...
    @property
    def cancelled(self) -> bool:
        """Whether cancel() was called."""
    @property
    def expired(self) -> bool:
        """Whether its time is over, or was when it was left."""

def install_hub(poll: Callable[[float | None], object] | None, wake_fd: int, /) -> None:
    """Let this thread wait through poll(timeout), a float of seconds or None, which wakes tasklets by their Waiters.

    Another thread that makes a tasklet runnable here while poll sleeps writes 8 bytes to the eventfd wake_fd. poll may
    not block in roamlet. install_hub(None, -1) undoes it.
    """

def set_clock(now: Callable[[], float] | None = None, advance: Callable[[float], object] | None = None, /) -> None:
    """For tests: timers of all threads follow now() (seconds), and waiting for one calls advance(seconds).

    Without arguments the monotonic clock is back. In this thread the calls that let others run now and then count anew
    from here.
    """

def inside_atomic(function: Callable[..., T], /, *args: object) -> T:
    """Return function(*args), called in atomic code.

    As `with atomic():` does, with nothing in between where a signal handler could raise and leave the caller atomic for good,
    as it can on CPython 3.14. May switch if the function does.
    """

def outside_atomic(function: Callable[..., T], args: Sequence[object] = (), kwargs: dict[str, Any] | None = None) -> T:
    """Return function(*args, **kwargs), called outside of the atomic code that the caller is in.

    For a call that blocks the thread and is not roamlet's: others can be in atomic code meanwhile. The caller is atomic again,
    at the same depth, before this returns or raises. May switch if the function does.
    """

def set_deadlock_mode(mode: str, /) -> str:
    """Say what happens when the main tasklet waits and nothing that roamlet knows of can wake it; return the mode before.

    'auto': Deadlock is raised if the process has no thread but this one and roamlet's own, as the system counts them; else it
    waits, and that is logged once in a process. 'raise': threads that Python does not know of are ignored. 'warn': it is
    logged, and waits. 'off': it waits. For all threads of the process. ValueError for any other mode.
    """

def gil_requests() -> int | None:
    """For tests: how often threads that woke from a sleep have asked the holder of the GIL to drop it.

    None where roamlet cannot ask.
    """

def gil_short_waits() -> int | None:
    """For tests: how often threads that woke from a sleep have waited for the GIL with a limit below the switch interval, for
    which the machine's timer is set. None where roamlet cannot ask for the GIL.
    """

def gil_debt(holds: tuple[tuple[int, int], ...], now: int, /) -> int:
    """For tests: how many ns of the GIL such threads owe to others at `now`, after these holds of it.

    A hold is (begin, end) in ns; an end of -1 is not known: the next hold ends it.
    """

def mark_service_signal(signalnum: int, /) -> None:
    """Declare that the Python handler of this signal wakes no tasklet: it does not hide a deadlock.

    Others do: a handler may set an event.
    """

def mark_service_thread(service: bool = True, thread_id: int = ..., /) -> None:
    """Declare this thread one of roamlet's own, which by itself wakes no tasklet: it does not hide a deadlock. False undoes it.

    With thread_id, do so for another thread, if it lives and has a scheduler.
    """

def keep_current() -> None:
    """For a forked child: let no tasklet of this thread but the current one run ever again.

    The others are dead, without their finally blocks; main, if it is another one, stays suspended. While the current one
    lives it gets a Deadlock and the errors that main would get. RuntimeError in a process that was not forked.
    """

def end_thread() -> None:
    """End this thread's tasklets, the oldest first, by TaskletExit. Done by itself when a thread ends."""

def thread_ends() -> bool:
    """Whether this thread's tasklets are just being ended because the thread ends."""

def trace_start(internal: str, events: int) -> None:
    """Record what the tasklets of all threads do, in a ring of so many events (rounded up to a power of two) for each thread.

    `internal` is the folder, with its separator, whose code is passed over where the place of a wait is noted.
    RuntimeError when that is done already, ValueError for events out of 16 to 16777216. For roamlet.diagnose.trace().
    """

def trace_stop() -> tuple[Any, ...]:
    """End the recording and return it: (started, stopped, events lost with their thread's ring, places missed, threads, places,
    tasklets). Times are in ns of time.monotonic_ns(). threads: (id, ended, capacity, count, bytes of the last `capacity` of
    `count` events), the newest first; places: (number, name, file or None, line); tasklets that live: (number, name or None, thread
    id, whether it is main). RuntimeError when nothing is being recorded.
    """

def trace_held(ns: int, /) -> list[tuple[int, int, int]]:
    """The threads whose tasklet has run for longer, while a trace is taken: (thread id, tasklet's number, since when)."""

def trace_current(tasklet: tasklet[...] = ..., /) -> int:
    """The number of a tasklet, by default of the current one, in the trace that is being taken; 0 without a trace or tasklet."""

def trim() -> None:
    """Give back the memory of this thread's pools."""
