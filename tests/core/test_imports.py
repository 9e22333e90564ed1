"""Imports in tasklets: the lock of a module belongs to the tasklet that imports it, also while its body blocks."""

import importlib
import sys
import threading
import weakref

import pytest

import roamlet
from roamlet.core import _imports
from roamlet.core._core import ModuleLock
from tests.core._scripts import output_of


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """modules(name=source, ...): modules that can be imported by these names until the test is over."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def write(**sources):
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()

    yield write
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and sys.modules[name].__file__.startswith(str(tmp_path)):
            del sys.modules[name]
    for path in [path for path in sys.path_importer_cache if path.startswith(str(tmp_path))]:
        del sys.path_importer_cache[path]


@pytest.fixture
def gate(monkeypatch):
    """A channel that a module gets by `from the_gate import gate`."""
    channel = roamlet.channel()
    monkeypatch.setitem(sys.modules, "the_gate", type(sys)("the_gate"))
    sys.modules["the_gate"].gate = channel
    return channel


BODY = "from the_gate import gate\nvalue = gate.receive()\n"


def test_the_second_tasklet_waits_until_the_first_has_imported_the_module(modules, gate):
    modules(slow=BODY)
    got = []

    def use():
        import slow

        got.append(slow.value)

    tasklets = [roamlet.tasklet(use)() for _ in range(3)]
    roamlet.run()
    assert got == [] and [tasklet.blocked for tasklet in tasklets] == [True, True, True]
    gate.send("imported once")
    roamlet.run()
    assert got == ["imported once"] * 3


@pytest.mark.pythons((3, 15), (3, 99), reason="PEP 810 is of CPython 3.15")
def test_the_second_tasklet_waits_for_a_lazy_import_that_the_first_resolves(modules, gate):
    modules(
        slow=BODY,
        asking="lazy import slow\nlazy from slow import value\ndef by_module(): return slow.value\ndef by_name(): return value\n",
    )
    asking = importlib.import_module("asking")
    got = []
    tasklets = [
        roamlet.tasklet(lambda ask=ask: got.append(ask()))()
        for ask in (asking.by_module, asking.by_module, asking.by_name, asking.by_name)
    ]
    roamlet.run()
    assert got == [] and all(tasklet.blocked for tasklet in tasklets)
    gate.send("imported once")
    roamlet.run()
    assert got == ["imported once"] * 4
    assert type(vars(asking)["slow"]) is type(sys)


@pytest.mark.pythons((3, 15), (3, 99), reason="PEP 810 is of CPython 3.15")
def test_a_tasklet_that_is_killed_while_it_resolves_a_lazy_import_lets_the_next_one_do_it(modules, gate):
    modules(slow=BODY, asking="lazy import slow\ndef ask(): return slow.value\n")
    asking = importlib.import_module("asking")
    got = []
    first, second, third = [roamlet.tasklet(lambda: got.append(asking.ask()))() for _ in range(3)]
    roamlet.run()
    first.kill()
    third.kill()
    roamlet.run()
    assert got == [] and second.blocked and not first.alive and not third.alive
    gate.send(2)
    roamlet.run()
    assert got == [2]


@pytest.mark.pythons((3, 15), (3, 99), reason="PEP 810 is of CPython 3.15")
def test_a_lazy_import_that_needs_itself_is_still_refused(modules, gate):
    modules(
        slow="from the_gate import gate\ngate.receive()\nimport asking\nvalue = asking.ask()\n",
        asking="lazy import slow\ndef ask(): return slow.value\n",
    )
    asking = importlib.import_module("asking")
    names = []

    def use():
        try:
            asking.ask()
        except ImportError as error:
            while error is not None:
                names.append(type(error).__name__)
                error = error.__cause__ or error.__context__

    roamlet.tasklet(use)()
    roamlet.run()
    gate.send(None)
    roamlet.run()
    assert "ImportCycleError" in names


def test_a_package_is_whole_for_a_tasklet_that_imports_its_submodule(modules, gate, tmp_path):
    (tmp_path / "pack").mkdir()
    modules(**{"pack/__init__": BODY, "pack/part": "from pack import value\n"})
    got = []
    for name in ("pack", "pack.part"):
        roamlet.tasklet(lambda name=name: got.append(importlib.import_module(name).value))()
    roamlet.run()
    gate.send(5)
    roamlet.run()
    assert got == [5, 5]


def test_a_module_that_imports_itself_through_another_one_sees_it_half_made_as_ever(modules, gate):
    modules(first="early = 1\nimport second\nlate = 2\n", second="import first\n" + BODY + "seen = dir(first)\n")
    done = roamlet.tasklet(lambda: importlib.import_module("first"))()
    roamlet.run()
    gate.send(None)
    roamlet.run()
    seen = sys.modules["second"].seen
    assert "early" in seen and "late" not in seen and not done.alive


def test_two_tasklets_that_import_each_others_modules_do_not_wait_for_ever(modules, gate):
    modules(left=BODY + "import right\nlate = 1\n", right=BODY + "import left\nlate = 1\n")
    for name in ("left", "right"):
        roamlet.tasklet(importlib.import_module)(name)
    roamlet.run()
    gate.send(1)
    gate.send(2)
    roamlet.run()
    assert sys.modules["left"].late == sys.modules["right"].late == 1


def test_what_run_inside_a_module_starts_sees_that_module_half_made(modules):
    modules(
        program="import roamlet\nearly, seen = 1, []\n"
        "def work():\n    import program\n    seen.append(program.early)\n"
        "roamlet.tasklet(work)()\nroamlet.run()\n"
    )
    assert importlib.import_module("program").seen == [1]


def test_one_that_is_killed_in_the_middle_lets_the_next_one_import_the_module(modules, gate):
    modules(slow=BODY)
    got = []
    first = roamlet.tasklet(importlib.import_module)("slow")
    second = roamlet.tasklet(lambda: got.append(importlib.import_module("slow").value))()
    roamlet.run()
    first.kill()
    gate.send("second")
    roamlet.run()
    assert got == ["second"] and not second.alive


def test_one_that_is_killed_while_it_waits_passes_its_turn_on(modules, gate):
    modules(slow=BODY)
    got = []
    tasklets = [roamlet.tasklet(lambda: got.append(importlib.import_module("slow").value))() for _ in range(3)]
    roamlet.run()
    roamlet.tasklet(gate.send)(1)
    gate_is_open = gate.balance
    tasklets[1].kill()
    roamlet.run()
    assert gate_is_open == -1 and got == [1, 1]


def test_one_that_was_woken_and_is_killed_before_it_runs_passes_its_turn_on():
    lock = ModuleLock("slow")
    got = []

    def take(name):
        lock.acquire()
        got.append(name)
        lock.release()

    lock.acquire()
    tasklets = [roamlet.tasklet(take)(name) for name in "ab"]
    roamlet.schedule()
    lock.release()
    tasklets[0].kill(pending=True)
    roamlet.run()
    assert got == ["b"]


def test_a_time_out_ends_the_wait_for_anothers_import(modules, gate, clock):
    modules(slow=BODY)
    roamlet.tasklet(importlib.import_module)("slow")
    roamlet.run()
    with pytest.raises(TimeoutError), roamlet.timeout(5):
        importlib.import_module("slow")
    gate.send(1)
    roamlet.run()
    assert clock.jumps == [5]


def test_a_deadlock_names_the_module_and_the_tasklet_that_imports_it(modules, gate):
    modules(slow=BODY)
    tasklet = roamlet.tasklet(importlib.import_module)("slow")
    roamlet.run()
    with pytest.raises(roamlet.Deadlock, match="<import lock of module 'slow', held by <roamlet.tasklet import_module"):
        importlib.import_module("slow")
    tasklet.kill()


def test_a_thread_waits_for_a_tasklet_and_a_tasklet_for_a_thread(modules, gate):
    modules(mine=BODY, theirs=BODY)
    got = []

    def use(name):
        got.append((name, importlib.import_module(name).value))

    roamlet.tasklet(use)("mine")
    roamlet.run()
    threads = [threading.Thread(target=use, args=(name,)) for name in ("mine", "theirs")]
    for thread in threads:
        thread.start()
    while gate.balance != -2:
        roamlet.sleep(0.001)
    tasklet = roamlet.tasklet(use)("theirs")
    roamlet.schedule()
    assert got == [] and tasklet.blocked
    gate.send(1)
    gate.send(1)
    roamlet.run()
    for thread in threads:
        thread.join()
    assert sorted(got) == [("mine", 1)] * 2 + [("theirs", 1)] * 2


def test_two_threads_that_import_each_others_modules_do_not_wait_for_ever(modules, monkeypatch):
    both = threading.Barrier(2, timeout=30)
    monkeypatch.setitem(sys.modules, "the_gate", type(sys)("the_gate"))
    sys.modules["the_gate"].both = both
    body = "from the_gate import both\nboth.wait()\nimport {}\nlate = 1\n"
    modules(left=body.format("right"), right=body.format("left"))
    threads = [threading.Thread(target=importlib.import_module, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.modules["left"].late == sys.modules["right"].late == 1


def test_where_no_tasklet_may_be_switched_another_ones_module_is_seen_as_it_is(modules, gate):
    modules(slow="early = 1\n" + BODY)
    roamlet.tasklet(importlib.import_module)("slow")
    roamlet.run()
    roamlet.switch_trap(1)
    try:
        import slow

        assert slow.early == 1 and not hasattr(slow, "value")
    finally:
        roamlet.switch_trap(-1)
    gate.send(1)
    roamlet.run()


def test_where_no_tasklet_may_be_switched_another_threads_import_is_waited_for(modules, monkeypatch):
    begun, go = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "the_gate", type(sys)("the_gate"))
    sys.modules["the_gate"].begun, sys.modules["the_gate"].go = begun, go
    modules(slow="from the_gate import begun, go\nbegun.set()\ngo.wait()\nvalue = 1\n")
    thread = threading.Thread(target=importlib.import_module, args=("slow",))
    thread.start()
    begun.wait()
    roamlet.tasklet(int)()
    roamlet.switch_trap(1)
    try:
        opens = threading.Timer(0.05, go.set)  # likely in the middle of the wait; correct whenever it comes
        opens.start()
        assert importlib.import_module("slow").value == 1
    finally:
        roamlet.switch_trap(-1)
    thread.join()
    opens.join()
    roamlet.run()


DeadlockError = sys.modules["_frozen_importlib"]._DeadlockError


@pytest.fixture
def thread():
    """thread(function, *args): runs it in a thread up to where that blocks; thread.lets(event, going): sets the event, and returns
    when the thread that waited for it has added to `going` and blocks again; thread.end() joins all of them.
    """
    before, threads = sys.getswitchinterval(), []
    sys.setswitchinterval(100)  # a thread that runs gives the GIL up where it blocks, and nowhere else

    def start(function, *args):
        begun = []
        threads.append(threading.Thread(target=lambda: (begun.append(True), function(*args)), daemon=True))
        threads[-1].start()
        while not begun:
            roamlet.sleep(0.001)

    def lets(go, going):
        number = len(going)
        go.set()
        while len(going) == number:  # what the thread adds is seen here when it blocks again
            roamlet.sleep(0.001)

    def end():
        for each in threads:
            each.join(20)
        assert not any(each.is_alive() for each in threads)

    start.lets, start.end = lets, end
    yield start
    sys.setswitchinterval(before)


def takes(lock):
    """Take the lock and let it go again: whether it was taken, or there was a deadlock."""
    try:
        lock.acquire()
    except DeadlockError:
        return False
    lock.release()
    return True


def test_each_search_for_a_deadlock_looks_at_all_waits():
    """One that finds none, of a third tasklet, has seen the wait that the next one needs."""
    first, second, log = ModuleLock("first"), ModuleLock("second"), []

    def holds(mine, other, gate):
        mine.acquire()
        gate.receive()
        log.append(takes(other))
        mine.release()

    gates = roamlet.channel(), roamlet.channel()
    tasklets = [
        roamlet.tasklet(holds)(*locks, gate)
        for locks, gate in zip([(first, second), (second, first)], gates, strict=True)
    ]
    roamlet.run()
    gates[1].send(None)  # the second holds its own and waits for the first one's
    roamlet.tasklet(takes)(second)
    roamlet.run()
    assert tasklets[1].blocked and log == []
    gates[0].send(None)
    roamlet.run()
    assert log == [False, True]


@pytest.mark.parametrize("order", ["the thread first", "the tasklet first"])
def test_a_thread_that_blocks_as_a_whole_holds_up_all_of_its_tasklets(thread, order):
    """Its tasklet, which cannot go on then, holds what another thread waits for that holds what it waits for."""
    ours, theirs = ModuleLock("ours"), ModuleLock("theirs")
    release, we_go, they_go, going, log = roamlet.channel(), threading.Event(), threading.Event(), [], []

    def holds(lock):
        lock.acquire()
        release.receive()
        lock.release()

    def our_thread():
        roamlet.tasklet(holds)(ours)
        roamlet.schedule()
        we_go.wait()
        going.append("ours")
        roamlet.switch_trap(1)
        log.append(("ours", takes(theirs)))
        roamlet.switch_trap(-1)
        release.send(None)
        roamlet.run()

    def their_thread():
        theirs.acquire()
        they_go.wait()
        going.append("theirs")
        log.append(("theirs", takes(ours)))
        theirs.release()

    thread(our_thread)
    thread(their_thread)
    for go in (they_go, we_go) if order == "the thread first" else (we_go, they_go):
        thread.lets(go, going)
    thread.end()
    assert sorted(log) == [("ours", order == "the tasklet first"), ("theirs", order == "the thread first")]


def test_a_wake_up_is_not_lost_to_a_tasklet_whose_thread_is_blocked(thread):
    """It waited first, and its thread blocks for what the second one holds."""
    first, second, going, log = ModuleLock("first"), ModuleLock("second"), [], []
    we_go, they_go = threading.Event(), threading.Event()

    def our_thread():
        roamlet.tasklet(lambda: log.append(("tasklet", takes(first))))()
        roamlet.schedule()
        we_go.wait()
        going.append("ours")
        roamlet.switch_trap(1)
        log.append(("ours", takes(second)))
        roamlet.switch_trap(-1)
        roamlet.run()

    def their_thread():
        roamlet.getcurrent()
        second.acquire()
        they_go.wait()
        going.append("theirs")
        log.append(("theirs", takes(first)))
        second.release()

    first.acquire()
    thread(our_thread)
    thread(their_thread)
    for go in (they_go, we_go):
        thread.lets(go, going)
    first.release()
    thread.end()
    assert log == [("theirs", True), ("ours", True), ("tasklet", True)]


def test_a_run_in_another_thread_waits_for_the_imports_of_its_tasklets(thread):
    """So who holds what they wait for must not wait for a module that the caller of that run() holds."""
    ours, theirs, go, log = ModuleLock("ours"), ModuleLock("theirs"), threading.Event(), []

    def our_thread():
        ours.acquire()
        go.wait()
        log.append(("ours", takes(theirs)))
        ours.release()

    def their_thread():
        theirs.acquire()
        roamlet.tasklet(lambda: log.append(("theirs", takes(ours))))()
        roamlet.run()
        theirs.release()

    thread(our_thread)
    thread(their_thread)
    go.set()
    thread.end()
    assert log == [("ours", False), ("theirs", True)]


def test_a_run_in_another_thread_that_waits_for_none_of_its_tasklets_is_waited_for(thread):
    """run(hub=False) ends although a tasklet waits for an import: no deadlock."""
    ours, theirs, going, log = ModuleLock("ours"), ModuleLock("theirs"), [], []
    we_go, they_go, done = threading.Event(), threading.Event(), threading.Event()

    def our_thread():
        ours.acquire()
        we_go.wait()
        going.append("ours")
        log.append(("ours", takes(theirs)))
        ours.release()
        done.set()

    def their_thread():
        theirs.acquire()
        roamlet.tasklet(lambda: log.append(("theirs", takes(ours))))()
        roamlet.tasklet(they_go.wait)()
        roamlet.run(hub=False)
        theirs.release()
        done.wait()
        roamlet.run()

    thread(our_thread)
    thread(their_thread)
    thread.lets(we_go, going)
    they_go.set()
    thread.end()
    assert log == [("ours", True), ("theirs", True)]


def test_a_thread_that_waits_for_an_import_as_a_whole_gives_atomic_up(thread):
    lock, go, log = ModuleLock("slow"), threading.Event(), []

    def imports():
        lock.acquire()
        go.wait()
        with roamlet.atomic():
            log.append("atomic in the module's body")
        lock.release()

    def waits():
        with roamlet.atomic(), roamlet.atomic():
            lock.acquire()
            lock.release()
            log.append(roamlet.getcurrent().atomic)

    thread(imports)
    thread(waits)
    go.set()
    thread.end()
    assert log == ["atomic in the module's body", True]


def test_a_signal_handler_runs_and_may_end_the_wait_of_a_blocked_thread():
    printed = output_of("""
        import signal, sys, threading, roamlet
        from roamlet.core._core import ModuleLock
        lock, holds, go, seen = ModuleLock("slow"), threading.Event(), threading.Event(), []
        def holder():
            lock.acquire()
            holds.set()
            go.wait()
            lock.release()
        def handler(*_):
            seen.append(len(seen))
            if len(seen) == 2:
                raise KeyboardInterrupt
        thread = threading.Thread(target=holder)
        thread.start()
        holds.wait()
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        roamlet.switch_trap(1)
        try:
            lock.acquire()
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            print("interrupted", seen)
        go.set()
        thread.join()
        lock.acquire()
        lock.release()
        print(lock)
        """, timeout=30)  # fmt: skip
    assert printed.splitlines() == ["interrupted [0, 1]", "<import lock of module 'slow'>"]


def test_a_lock_that_another_thread_takes_later_is_waited_for_as_its_own(thread):
    lock, go, log = ModuleLock("slow"), threading.Event(), []

    def holds():
        lock.acquire()
        go.wait()
        lock.release()

    assert takes(lock)
    thread(holds)
    roamlet.tasklet(lambda: log.append(takes(lock)))()
    roamlet.tasklet(go.set)()
    roamlet.run()
    assert log == [True]
    thread.end()


def test_a_release_by_another_tasklet_is_refused():
    lock = ModuleLock("slow")
    lock.acquire()
    lock.acquire()
    refused = []

    def release():
        with pytest.raises(
            RuntimeError, match=r"cannot release un-acquired lock: <import lock of module 'slow', held by"
        ):
            lock.release()
        refused.append(True)

    roamlet.tasklet(release)()
    roamlet.schedule()
    lock.release()
    lock.release()
    with pytest.raises(RuntimeError, match=r"cannot release un-acquired lock: <import lock of module 'slow'>"):
        lock.release()
    assert refused == [True]


def test_a_lock_goes_with_its_last_import():
    lock = ModuleLock("slow")
    gone = weakref.ref(lock)
    with pytest.raises(TypeError):
        ModuleLock()
    del lock
    assert gone() is None


def test_uninstalled_it_leaves_importlib_as_it_was():
    printed = output_of("""
        import sys, importlib
        importlib = sys.modules["_frozen_importlib"]
        before = dict(vars(importlib))
        import roamlet
        from roamlet.core import _imports
        ours = importlib._ModuleLock
        _imports.install()
        print(ours is not before["_ModuleLock"], importlib._ModuleLock is ours)
        _imports.uninstall()
        _imports.uninstall()
        print({name for name in vars(importlib) if vars(importlib)[name] is not before.get(name)})
        _imports.install()
        print(importlib._ModuleLock is ours)
    """)
    assert printed == "True True\nset()\nTrue"


def test_a_module_that_imports_roamlet_and_blocks_then_is_waited_for_as_well(modules, tmp_path):
    modules(
        program="import roamlet\nchannel = roamlet.channel()\n"
        "def second():\n    import program\n    print(program.late)\n"
        "tasklet = roamlet.tasklet(second)()\nroamlet.schedule()\nprint('waits', tasklet.blocked)\nlate = 5\n",
    )
    printed = output_of(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import program
        roamlet = program.roamlet
        roamlet.run()
        import gc
        gc.disable()
        locks = sys.modules["_frozen_importlib"]._module_locks
        print([name for name in locks if name in ("program", "roamlet", "roamlet.core")])
    """)
    assert printed.split("\n") == ["waits True", "5", "[]"]


def test_where_importlib_is_another_nothing_is_changed(monkeypatch):
    class Other:
        def _get_module_lock(name):
            return name

    monkeypatch.setattr(_imports, "_importlib", Other)
    _imports.install()
    _imports.uninstall()
    assert not hasattr(Other, "_ModuleLock")
