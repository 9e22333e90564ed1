"""What free-threaded CPython keeps for a thread and a tasklet needs for itself, case by case.

Each case is a small program that fails or crashes when one part of the prototype is left out: README.md has the table. Names as
arguments run those cases alone.
"""

import faulthandler
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from pinned import Channel, Tasklet, TaskletExit, counts, run, schedule

CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


def in_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def collect_elsewhere() -> None:
    for _ in range(3):
        in_thread(gc.collect)


@case
def code_that_only_a_suspended_frame_has() -> None:
    """The only references to a function and its code are those of a suspended frame, which have no count."""
    found: list[object] = []
    channel = Channel()
    scope: dict[str, Any] = {"channel": channel, "found": found}
    source = (
        "def waits():\n"
        "    local = [channel.receive(), 'a constant of its own %d' % len(found)]\n"
        "    found.append(local)\n"
        "def calls():\n"
        "    waits()\n"
    )
    exec(source, scope)

    def others() -> None:
        del scope["waits"]
        collect_elsewhere()
        noise = [compile(f"x{i} = {i}", "noise", "exec") for i in range(2000)]
        channel.send(5)
        del noise

    Tasklet(scope["calls"])
    Tasklet(others)
    run()
    assert found == [[5, "a constant of its own 0"]], found


@case
def a_method_that_only_the_c_stack_has() -> None:
    """A slot's function is looked up, kept on the C stack without a count, and blocks; another tasklet does the same."""
    channel = Channel()
    source = (
        "class Adds:\n"
        "    def __add__(self, other):\n"
        "        del Adds.__add__\n"
        "        return (name, other, channel.receive())\n"
    )
    results: list[object] = []
    for name in ("first", "second", "third"):
        scope: dict[str, Any] = {"name": name, "channel": channel}
        exec(source, scope)
        Tasklet(lambda adds=scope["Adds"]: results.append(adds() + 1))
    Tasklet(lambda: (collect_elsewhere(), [channel.send(i) for i in range(3)]))
    run()
    assert results == [("first", 1, 0), ("second", 1, 1), ("third", 1, 2)], results


@case
def a_list_that_is_locked_while_its_sort_blocks() -> None:
    """list.sort() locks the list and calls a key that blocks: other tasklets of the thread and other threads get at the list."""
    channel = Channel()
    items = [3, 1, 2]
    lengths: list[int] = []

    def key(item: int) -> int:
        channel.receive()
        return item

    def others() -> None:
        lengths.append(len(items.copy()))
        in_thread(lambda: lengths.append(len(items.copy())))
        for _ in range(3):
            channel.send(None)

    Tasklet(lambda: items.sort(key=key))
    Tasklet(others)
    run()
    assert items == [1, 2, 3], items
    assert lengths == [0, 0], lengths  # a list is empty while it is sorted


@case
def locks_that_cross() -> None:
    """Two tasklets of one thread each lock a list and need the other one's, and so do two threads."""

    def crossing() -> None:
        first, second = [2, 1], [4, 3]
        channel = Channel()

        def sort(mine: list[int], other: list[int]) -> None:
            def key(item: int) -> int:
                schedule()
                other.append(item)
                return item

            try:
                mine.sort(key=key)
            except ValueError:  # modified during sort, which is what the other one does
                channel.send("modified")
            else:
                channel.send("sorted")

        Tasklet(sort, first, second)
        Tasklet(sort, second, first)
        ended: list[object] = []
        Tasklet(lambda: ended.extend(channel.receive() for _ in range(2)))
        run()
        assert len(ended) == 2, ended

    threads = [threading.Thread(target=crossing) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@case
def locals_and_operands_live_while_others_collect() -> None:
    """Deep chains of frames, generators, handled exceptions and operands of many tasklets, with collections in another thread."""
    stop = threading.Event()
    collector = threading.Thread(target=lambda: [gc.collect() for _ in iter(stop.is_set, True)])
    collector.start()
    channel = Channel()
    results: list[int] = []

    class Node:
        def __init__(self) -> None:
            self.me = self

    def deep(n: int) -> int:
        node = Node()
        if n == 0:
            value = channel.receive()
            assert node.me is node
            return int(value)
        try:
            raise KeyError(n)
        except KeyError as error:
            result = n - n + sum(deep(n - 1) for _ in range(1))
            handled = error.args[0]
        assert handled == n and node.me is node
        return result

    for _ in range(50):
        Tasklet(lambda: results.append(deep(10)))
    Tasklet(lambda: [channel.send(i) for i in range(50)])
    run()
    stop.set()
    collector.join()
    assert results == list(range(50)), results


@case
def a_finalizer_that_blocks_while_its_frame_drops_locals() -> None:
    """__del__ runs while the frame that had the object is being cleared, and waits there."""
    channel = Channel()
    ended: list[object] = []

    class Waits:
        def __del__(self) -> None:
            ended.append(channel.receive())

    def body() -> None:
        one, two, three = Waits(), Waits(), Waits()
        assert one is not two is not three
        one = two = None
        three = None

    Tasklet(body)
    Tasklet(lambda: (collect_elsewhere(), [channel.send(i) for i in range(3)]))
    run()
    assert ended == [0, 1, 2], ended


@case
def values_change_threads_and_are_freed() -> None:
    """Values that one thread makes and another one drops are freed, with their finalizers, on both kinds of channel."""
    for disown in (False, True):
        channel = Channel(disown=disown)
        freed: list[int] = []

        class Value:
            def __init__(self, number: int) -> None:
                self.number = number

            def __del__(self, freed: list[int] = freed) -> None:
                freed.append(self.number)

        def make(channel: Channel = channel, kind: type = Value) -> None:
            Tasklet(lambda: [channel.send(kind(i)) for i in range(1000)])
            run()

        sums: list[int] = []

        def take(channel: Channel = channel, sums: list[int] = sums) -> None:
            Tasklet(lambda: sums.append(sum(channel.receive().number for _ in range(1000))))
            run()

        threads = [threading.Thread(target=each) for each in (make, take)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        assert sums == [499500], sums
        assert sorted(freed) == list(range(1000)), (disown, len(freed))


@case
def killed_from_another_thread() -> None:
    """kill() reaches tasklets that wait and that have ended; finally blocks run once, in the thread of the tasklet."""
    channel, ready, never = Channel(), Channel(), Channel()
    where: list[int] = []

    def waits() -> None:
        try:
            never.receive()
        finally:
            where.append(threading.get_ident())

    def victims() -> None:
        made = [Tasklet(waits) for _ in range(100)]
        ended = Tasklet(int)
        Tasklet(lambda: (ready.send([*made, ended]), channel.receive()))
        run()
        assert not any(each.alive for each in made)
        assert set(where) == {threading.get_ident()}

    thread = threading.Thread(target=victims)
    thread.start()
    Tasklet(lambda: ([(each.kill(), each.kill()) for each in ready.receive()], channel.send(None)))
    run()
    thread.join()
    assert len(where) == 100, len(where)
    assert never.balance == 0


@case
def a_kill_loses_no_value() -> None:
    """A receiver that is killed when it was handed a value returns the value; TaskletExit comes at its next wait."""
    channel = Channel()
    got: list[object] = []

    def receiver() -> None:
        got.append(channel.receive())
        try:
            channel.receive()
        except TaskletExit:
            got.append("killed")
            raise

    tasklet = Tasklet(receiver)
    schedule()
    channel.send("value")
    tasklet.kill()
    run()
    assert got == ["value", "killed"], got


@case
def weak_references_to_what_a_tasklet_holds() -> None:
    """What a suspended tasklet alone holds lives; once it has ended it is gone."""
    channel = Channel()

    class Held:
        pass

    seen: list[weakref.ref[Held]] = []

    def holds() -> None:
        held = Held()
        seen.append(weakref.ref(held))
        channel.receive()
        assert held is seen[0]()

    Tasklet(holds)
    schedule()
    collect_elsewhere()
    assert seen[0]() is not None
    channel.send(None)
    run()
    gc.collect()
    assert seen[0]() is None


@case
def tasklets_that_nothing_can_wake_end_in_their_thread() -> None:
    """With -DPINNED_COLLECT: finally blocks run, with functions and code that nothing else refers to; what was held is freed."""
    if not counts()["collects"]:
        return
    ended: list[object] = []
    keeps = Channel()
    source = (
        "def helper(where):\n"
        "    return ('helped', where)\n"
        "def own(where):\n"
        "    return ('its own', where)\n"
        "def generator():\n"
        "    try:\n"
        "        yield never.receive()\n"
        "    finally:\n"
        "        ended.append(helper('generator'))\n"
        "def waits(keep, held):\n"
        "    mine = own\n"
        "    del globals()['waits'], globals()['own']\n"
        "    try:\n"
        "        for _ in generator() if keep % 2 else [never.receive()]:\n"
        "            pass\n"
        "    finally:\n"
        "        seen = ref(mine)\n"
        "        ended.append(mine)\n"
        "        ended.pop()\n"
        "        ended.append((mine(get_ident()), held is not None and seen() is mine))\n"
        "def calls(keep, held):\n"
        "    waits(keep, held)\n"
    )
    held_weakly = []

    class Held:
        pass

    for number in range(20):
        scope: dict[str, Any] = {
            "never": Channel(),
            "ended": ended,
            "get_ident": threading.get_ident,
            "ref": weakref.ref,
        }
        exec(source, scope)
        held = Held()
        held_weakly.append(weakref.ref(held))
        Tasklet(scope["calls"], number, held)
    del scope, held

    def others() -> None:
        in_thread(gc.collect)
        assert not ended
        collect_elsewhere()
        while len(ended) < 30:
            schedule()

    Tasklet(keeps.receive)
    Tasklet(lambda: (schedule(), others(), keeps.send(None)))
    run()
    assert ended.count(("helped", "generator")) == 10, ended
    assert ended.count((("its own", threading.get_ident()), True)) == 20, ended
    gc.collect()
    assert [each for each in held_weakly if each() is not None] == []


def main(names: list[str]) -> int:
    faulthandler.dump_traceback_later(120, exit=True)
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"CPython {sys.version.split()[0]}{sys.abiflags}, GIL {'on' if gil else 'off'}")
    for name in names or CASES:
        print(f"{name} ... ", end="", flush=True)
        CASES[name]()
        print("ok", flush=True)
    print(counts())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
