"""Programs that cannot be saved where they block, each with what the message must say."""

import contextlib
import socket
import sys
import threading

from tests.snapshot.async_programs import pausing
from tests.snapshot.programs import Thing, asks, blocking_generator, generator_that_blocks, leaf


def in_sorted(ch):
    return sorted([3, 1, 2], key=lambda x: x + ch.receive())


def in_map(ch):
    return list(map(lambda x: x + ch.receive(), [1, 2]))


def in_next(ch):
    return next(blocking_generator(ch, 3))


def in_sum(ch):
    return sum(blocking_generator(ch, 3))


def in_class_body(ch):
    class Body:
        x = ch.receive()

    return Body.x


class Operators:
    def __init__(self, ch):
        self.ch = ch

    def __add__(self, other):
        return self.ch.receive()

    def __eq__(self, other):
        return self.ch.receive()

    __hash__ = None

    def __del__(self):
        if hasattr(self, "end"):
            self.ch.receive()

    def __new__(cls, *args):
        if args[1:]:
            args[0].receive()
        return object.__new__(cls)


def in_operator(ch):
    return Operators(ch) + 1


def in_comparison(ch):
    return Operators(ch) == 1


def in_del(ch):
    thing = Operators(ch)
    thing.end = True
    del thing


def in_new(ch):
    with contextlib.suppress(TypeError):
        return Operators(ch, 1)


def in_exec(ch):
    exec("ch.receive()", {"ch": ch})


def in_coroutine_sent_by_hand(ch):
    coroutine = asks(ch, [])
    try:
        coroutine.send(None)
    except StopIteration as error:
        return error.value
    finally:
        coroutine.close()


class Computed:
    def __init__(self, ch):
        self.ch = ch

    @property
    def value(self):
        return self.ch.receive()


def in_property(ch):
    return Computed(ch).value


def in_async_generator(ch):
    with contextlib.suppress(StopIteration):
        values(ch).asend(None).send(None)


def in_a_generator_that_is_unpacked_into_a_call_of_its_own_function(ch):
    return list(counted(*counted(ch)))


def counted(ch, begun=None):
    if begun is None:
        yield ch
        yield ch.receive()
    else:
        yield "end"


class Passing:
    """A manager to which nothing refers while its __enter__ runs."""

    @staticmethod
    def __enter__():
        Passing.ch.receive()

    @staticmethod
    def __exit__(*args):
        pass


def in_static_enter(ch):
    Passing.ch = ch
    with Passing():
        del Passing.ch


class Bound:
    def __get__(self, instance, kind):
        return lambda *args: None


class Descriptive:
    __exit__ = Bound()

    def __init__(self, ch):
        self.ch = ch

    def __enter__(self):
        self.ch.receive()


def in_enter_when_exit_is_bound_by_python_code(ch):
    with Descriptive(ch):
        pass


class Replacing:
    def __init__(self, ch, other):
        self.made = not other
        if other:
            self = other
        ch.receive()


def in_init_that_has_replaced_self(ch):
    other = Replacing.__new__(Replacing)
    return Replacing(ch, other).made


def with_socket(ch):
    one, other = socket.socketpair()
    with one, other:
        leaf(ch)


async def asks_for_the_time(ch):
    await pausing(ch)
    yield 1


def with_async_generator_on_its_way(ch):
    generator = asks_for_the_time(ch)
    asked = generator.asend(None)
    asked.send(None)
    del asked
    leaf(ch)
    return generator


def held_lock():
    lock = threading.Lock()
    lock.acquire()
    return lock


def with_lock(ch):
    mutex = held_lock()
    leaf(ch)
    return mutex


def with_lock_in_a_cell(ch):
    mutex = held_lock()

    def uses():
        return mutex

    leaf(ch)
    return uses


def with_file(ch):
    with open("/dev/null", encoding="utf-8") as stream:
        leaf(ch)
        return stream.name


def with_frame(ch):
    frame = sys._getframe()
    leaf(ch)
    del frame


async def values(ch):
    yield ch.receive()


def with_local_class(ch):
    class Local:
        pass

    thing = Local()
    leaf(ch)
    return thing


def with_deep_lock(ch):
    thing = Thing.__new__(Thing)
    thing.parts = [{"a": held_lock()}]
    leaf(ch)
    return thing


C = r"what C code was about to do next cannot be saved"
CASES = {
    in_sorted: r"the call of <built-in function sorted> in in_sorted \(.*refused\.py, line \d+\) has called "
    rf"in_sorted\.<locals>\.<lambda> .*{C}",
    in_map: rf"the call of <class 'list'> in in_map .* has called in_map\.<locals>\.<lambda> .*{C}",
    in_next: rf"the call of <built-in function next> in in_next .* has called blocking_generator .*{C}",
    in_sum: rf"the call of <built-in function sum> in in_sum .* has called blocking_generator .*{C}",
    in_class_body: r"in_class_body\.<locals>\.Body \(.* is the body of a module or a class",
    in_operator: rf"BINARY_OP in in_operator .* has called Operators\.__add__ .*{C}",
    in_comparison: rf"COMPARE_OP in in_comparison .* has called Operators\.__eq__ .*{C}",
    in_del: rf"in in_del .* has called Operators\.__del__ .*{C}",
    in_new: rf"the call of <class '.*Operators'> in in_new .* has called Operators\.__new__ .*{C}",
    in_exec: r"<module> \(<string>, line 1\) is the body of a module or a class, or was started by exec",
    in_coroutine_sent_by_hand: rf"has called (asks|answer) .*{C}",
    in_property: rf"the operation LOAD_ATTR in in_property .* has called Computed\.value .*{C}",
    in_async_generator: r"the async generator values \(.*refused\.py, line \d+\) is under way in it",
    in_a_generator_that_is_unpacked_into_a_call_of_its_own_function: r"the call of <function counted .* has called counted .*"
    rf"{C}",
    in_static_enter: rf"entering a `with` block in in_static_enter .* has called Passing\.__enter__ .*{C}",
    in_enter_when_exit_is_bound_by_python_code: rf"entering a `with` block in in_enter_when_exit.* has called .*{C}",
    in_init_that_has_replaced_self: rf"the call of <class .*Replacing'> in .* has called Replacing\.__init__ .*{C}",
    with_socket: r"the variable '(one|other)' of with_socket .*cannot pickle 'socket' object",
    with_lock: r"the variable 'mutex' of with_lock \(.*refused\.py, line \d+\) holds <locked _thread\.lock .*: "
    "cannot pickle '_thread.lock' object: it is held",
    with_lock_in_a_cell: r"the variable 'mutex' of with_lock_in_a_cell .*cannot pickle '_thread\.lock' object",
    with_file: r"the variable 'stream' of with_file .*cannot pickle '(_io\.)?TextIOWrapper'",
    with_frame: r"the variable 'frame' of with_frame .*frames are saved with their tasklet alone",
    with_async_generator_on_its_way: r"the variable 'generator' of with_async_generator_on_its_way .*is on its way to a value: "
    "an async generator is saved between two of them",
    with_local_class: r"the variable '(Local|thing)' of with_local_class .*(Can't pickle|Can't get local)",
    with_deep_lock: r"the variable 'thing' of with_deep_lock .*cannot pickle '_thread\.lock' object",
}
if sys.version_info >= (3, 14):  # __enter__ is called like any other function, with __exit__ looked up before
    del CASES[in_static_enter], CASES[in_enter_when_exit_is_bound_by_python_code]
if sys.version_info < (3, 12):
    CASES[generator_that_blocks] = (
        r"before CPython 3\.12, running a generator in generator_that_blocks \(.*programs\.py, line \d+\) has called "
    )
