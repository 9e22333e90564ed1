"""threading.local per tasklet: roamlet.sync.local, and the area `local` that puts it into threading."""

import asyncio
import gc
import threading
import weakref

import pytest

import roamlet
from roamlet import snapshot, sync
from roamlet.patch.areas import local as area
from roamlet.patch.areas import loops
from tests.programs import printed


class Value:
    """Something that a weak reference can watch."""


class Counted(sync.local):
    """Its __init__ runs in each tasklet."""

    made: list[tuple[int, int]] = []
    __slots__ = ("shared",)

    def __init__(self, one, two=2):
        self.one, self.two = one, two
        Counted.made.append((one, two))


@pytest.fixture(autouse=True)
def _none_made():
    Counted.made.clear()


def in_tasklets(*functions):
    for function in functions:
        roamlet.tasklet(function)()
    roamlet.run()


def test_a_tasklet_begins_with_none_and_keeps_its_own():
    mine, seen = sync.local(), []
    mine.name = "main"

    def work(name):
        assert not hasattr(mine, "name") and vars(mine) == {}
        mine.name = name
        roamlet.schedule()
        seen.append((mine.name, mine.__dict__))
        del mine.name
        with pytest.raises(AttributeError, match="name"):
            mine.name

    in_tasklets(*(lambda name=name: work(name) for name in ("one", "two")))
    assert seen == [("one", {}), ("two", {})] and mine.name == "main"


def test_a_child_does_not_inherit_and_its_values_are_not_its_creators():
    mine, seen = sync.local(), []

    def parent():
        mine.name = "parent"
        child = roamlet.spawn(lambda: (seen.append(hasattr(mine, "name")), setattr(mine, "name", "child")))
        child.join()
        seen.append(mine.name)

    in_tasklets(parent)
    assert seen == [False, "parent"]


def test_init_runs_once_in_each_tasklet_with_the_arguments_of_the_first():
    mine = Counted(1, two=5)
    mine.shared = "of all"
    seen = []
    for _ in range(2):
        in_tasklets(lambda: (roamlet.schedule(), seen.append((mine.one, mine.two, mine.shared))))
    assert seen == [(1, 5, "of all")] * 2 and Counted.made == [(1, 5)] * 3 and vars(mine) == {"one": 1, "two": 5}


def test_init_may_switch():
    class Slow(sync.local):
        def __init__(self):
            self.before = roamlet.getcurrent()
            roamlet.schedule()
            self.after = roamlet.getcurrent()

    mine, seen = Slow(), []
    in_tasklets(*[lambda: seen.append(mine.before is mine.after is roamlet.getcurrent())] * 3)
    assert seen == [True] * 3


def test_an_init_that_fails_is_run_again():
    class Fails(sync.local):
        def __init__(self):
            self.half = True
            if not good:
                raise LookupError("not yet")

    good = True
    mine, seen = Fails(), []

    def work():
        nonlocal good
        good = False
        with pytest.raises(LookupError, match="not yet"):
            mine.half
        good = True
        seen.append(mine.half)

    in_tasklets(work)
    assert seen == [True]


@pytest.mark.parametrize("arguments", [((1,), {}), ((), {"a": 1})])
def test_arguments_need_an_init(arguments):
    class Plain(sync.local):
        pass

    for kind in (sync.local, Plain):
        with pytest.raises(TypeError, match="Initialization arguments are not supported"):
            kind(*arguments[0], **arguments[1])


def test_the_dictionary_is_read_only():
    mine = sync.local()
    for change in (lambda: setattr(mine, "__dict__", {}), lambda: delattr(mine, "__dict__")):
        with pytest.raises(AttributeError, match="'__dict__' is read-only"):
            change()


def test_attributes_of_the_class_are_found_after_the_tasklets_own():
    class Mine(sync.local):
        plain = "the class's"

        @property
        def doubled(self):
            return self.plain * 2

    mine = Mine()
    assert mine.plain == "the class's"
    mine.plain = "own"
    assert (mine.plain, mine.doubled, Mine.plain) == ("own", "ownown", "the class's")
    in_tasklets(lambda: mine.plain == "the class's" or pytest.fail("seen from another tasklet"))
    with pytest.raises(AttributeError):
        mine.doubled = 1


@pytest.mark.parametrize("end", ["returns", "raises", "is killed"])
def test_values_go_when_their_tasklet_ends(end):
    mine, watched = sync.local(), []

    def work():
        mine.value = Value()
        watched.append(weakref.ref(mine.value))
        roamlet.schedule_remove()
        if end == "raises":
            raise LookupError

    tasklet = roamlet.tasklet(work)()
    roamlet.run()
    assert watched[0]() is not None
    if end == "is killed":
        tasklet.kill()
    else:
        tasklet.insert()
        try:
            roamlet.run()
        except LookupError:
            pass
    assert watched[0]() is None and not tasklet.alive


def test_a_tasklet_that_is_bound_again_begins_with_none():
    mine, seen = sync.local(), []
    tasklet = roamlet.tasklet(lambda: (seen.append(vars(mine).copy()), setattr(mine, "name", 1)))
    for _ in range(2):
        tasklet.bind(lambda: (seen.append(vars(mine).copy()), setattr(mine, "name", 1)))
        tasklet()
        roamlet.run()
    assert seen == [{}, {}]


def test_values_go_when_the_object_goes():
    made, watched = [sync.local()], []

    def work():
        made[0].value = Value()
        watched.append(weakref.ref(made[0].value))
        roamlet.schedule_remove()

    tasklets = [roamlet.tasklet(work)() for _ in range(100)]
    roamlet.run()
    assert len([each for each in watched if each() is not None]) == 100
    made.clear()
    assert not any(each() for each in watched)
    for tasklet in tasklets:
        tasklet.kill()


def test_an_object_that_its_own_values_refer_to_is_collected():
    def work():
        mine = Counted(1)
        mine.self = mine
        kept.append(weakref.ref(mine))
        del mine
        roamlet.schedule_remove()

    kept = []
    tasklet = roamlet.tasklet(work)()
    roamlet.run()
    gc.collect()
    assert kept[0]() is None
    tasklet.kill()


def test_what_ends_with_a_tasklet_may_use_the_object_again():
    class Again:
        def __del__(self):
            ended.append(hasattr(made[0], "value"))
            made[0].value = "put there by the end of another"

    made, ended = [sync.local()], []

    def work():
        made[0].value = Again()

    in_tasklets(work)
    assert ended == [False] and not hasattr(made.pop(), "value")  # a class is a cycle


def test_many_objects_and_many_tasklets():
    objects = [sync.local() for _ in range(200)]

    def work(number):
        for at, each in enumerate(objects):
            each.value = number * at
        roamlet.schedule()
        good.append(all(each.value == number * at for at, each in enumerate(objects)))

    good = []
    in_tasklets(*(lambda number=number: work(number) for number in range(200)))
    assert good == [True] * 200 and not any(vars(each) for each in objects)


def test_threads_have_their_own_and_lose_it_with_their_end():
    mine, seen, watched = sync.local(), [], []
    mine.value = "main"

    def work():
        seen.append(hasattr(mine, "value"))
        mine.value = Value()
        watched.append(weakref.ref(mine.value))
        in_tasklets(lambda: seen.append(hasattr(mine, "value")))
        seen.append(mine.value is watched[-1]())

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [False, False, True] * 3 and mine.value == "main" and not any(each() for each in watched)


def test_the_object_may_die_in_another_thread():
    made = [sync.local()]
    set_, end, watched = threading.Event(), threading.Event(), []

    def work():
        made[0].value = Value()
        watched.append(weakref.ref(made[0].value))
        set_.set()
        end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    set_.wait()
    made.clear()
    assert watched[0]() is None
    end.set()
    thread.join()


def test_a_loop_that_a_tasklet_has_set_is_no_part_of_a_snapshot(in_place):
    in_place(loops)

    def set_loop(loop):
        asyncio.set_event_loop(loop)
        roamlet.schedule()

    loop = asyncio.new_event_loop()
    for value in (loop, None):  # the second is what asyncio.run() leaves
        tasklet = roamlet.tasklet(set_loop)(value)
        roamlet.schedule()
        if value is None:
            assert snapshot.dumps(tasklet)
        else:
            with pytest.raises(snapshot.CannotSave, match="local"):
                snapshot.dumps(tasklet)
        roamlet.run()
    loop.close()


def test_values_are_no_part_of_a_snapshot():
    mine = sync.local()

    def work():
        mine.value = 1
        roamlet.schedule_remove()

    tasklet = roamlet.tasklet(work)()
    roamlet.run()
    with pytest.raises(snapshot.CannotSave, match="it has attributes in a roamlet.sync.local"):
        snapshot.dumps(tasklet)
    tasklet.kill()


def test_a_forked_child_has_those_of_the_thread_that_forked_alone(python, program):
    program("""\
        import os, threading, warnings
        from roamlet import sync
        warnings.simplefilter("ignore")
        class Told:
            def __del__(self):
                print("gone in the", "child" if os.getpid() != parent else "parent", flush=True)
        parent, mine, ready, end = os.getpid(), sync.local(), threading.Event(), threading.Event()
        mine.name = "main"
        def work():
            mine.told = Told()
            ready.set()
            end.wait()
        thread = threading.Thread(target=work)
        thread.start()
        ready.wait()
        pid = os.fork()
        if pid == 0:
            print(vars(mine), flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        end.set()
        thread.join()
        """)
    assert printed(python("program.py")) == "gone in the child\n{'name': 'main'}\ngone in the parent\n"


def test_the_area_replaces_threadings_name_and_nothing_else(in_place):
    original = threading.local
    before = threading.local()
    before.name = "the thread's"
    changes = in_place(area)
    assert threading.local is sync.local and type(before) is original
    seen = []
    in_tasklets(lambda: seen.append(before.name))
    changes.undo()
    assert threading.local is original and seen == ["the thread's"]


def test_install_and_the_command_take_it_when_asked(python, program):
    program("""\
        import threading
        import roamlet, roamlet.patch, roamlet.sync
        print("local" in roamlet.patch.installed(), threading.local is roamlet.sync.local)
        roamlet.patch.install(local=True)
        print(threading.local is roamlet.sync.local, "threading.local" in roamlet.patch.status().replaced)
        """)
    assert printed(python("program.py")) == "False False\nTrue True\n"
    assert printed(python("-m", "roamlet.patch", "--local", "program.py")) == "True True\nTrue True\n"


def test_objects_and_classes_that_were_made_before_are_named(python, program, tmp_path):
    program("import threading\nstate = threading.local()\nclass Mine(threading.local):\n    pass\n", "holder.py")
    program("""\
        import holder
        import roamlet.patch
        roamlet.patch.install(local=True)
        for each in roamlet.patch.status().early:
            print(each.place.rpartition("/")[2], each.name, each.kind, each.original)
        """)
    assert printed(python("-W", "ignore", "program.py")).splitlines() == [
        "holder.py:3 Mine subclass threading.local",
        "holder.py:2 state object threading.local",
    ]
