"""multiprocessing under the area `subprocess`, by each start method: a tasklet of the thread brings about what is waited for."""

import pytest

from tests.programs import printed

METHODS = pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])

BEGIN = """\
import warnings; warnings.simplefilter("ignore")
import roamlet
from roamlet.patch.areas import children, locks, sleeping
from roamlet.patch.changes import Changes
for area in (sleeping, locks, children):
    area.apply(Changes())
import multiprocessing, os, signal, sys
from concurrent.futures import ProcessPoolExecutor
"""


@METHODS
def test_a_process_is_joined_and_talked_to(python, program, method):
    program(
        BEGIN
        + f"""
def echo(connection, lock):
    for value in iter(connection.recv, None):
        connection.send(value * 2)
    with lock:
        sys.exit(7)

if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    ours, theirs = context.Pipe()
    lock = context.Lock()
    process = context.Process(target=echo, args=(theirs, lock))
    process.start()
    theirs.close()
    roamlet.tasklet(ours.send)("ab")
    print(ours.recv())
    roamlet.tasklet(ours.send)(bytes(1_000_000))
    print(len(ours.recv()), ours.poll(0.001))
    lock.acquire()
    roamlet.tasklet(ours.send)(None)
    process.join(0.2)
    print(process.exitcode)
    roamlet.tasklet(lock.release)()
    process.join()
    print(process.exitcode)
"""
    )
    assert printed(python("program.py")).splitlines() == ["abab", "2000000 False", "None", "7"]


@METHODS
def test_pools_queues_and_executors(python, program, method):
    program(
        BEGIN
        + f"""
def doubled(value):
    return 2 * value

def works(tasks, results):
    for value in iter(tasks.get, None):
        results.put(value * 2)

if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    tasks, results = context.Queue(), context.Queue()
    workers = [context.Process(target=works, args=(tasks, results)) for _ in range(2)]
    for each in workers: each.start()
    got = []
    takers = [roamlet.tasklet(lambda: got.extend(results.get() for _ in range(5)))() for _ in range(4)]
    roamlet.schedule()
    for value in range(20): tasks.put(value)
    roamlet.run()
    for _ in workers: tasks.put(None)
    for each in workers: each.join()
    print(sorted(got) == list(range(0, 40, 2)))
    with context.Pool(2) as pool:
        print(pool.map(doubled, range(5)), pool.apply_async(doubled, (21,)).get(60))
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        sums = []
        for _ in range(5):
            roamlet.tasklet(lambda: sums.append(sum(pool.map(doubled, range(5)))))()
        roamlet.run()
        print(sums)
"""
    )
    assert printed(python("program.py")).splitlines() == ["True", "[0, 2, 4, 6, 8] 42", "[20, 20, 20, 20, 20]"]


def test_semaphores_events_and_managers(python, program):
    program(
        BEGIN
        + """
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    semaphore, event, condition = context.Semaphore(1), context.Event(), context.Condition(context.Lock())
    print(semaphore.acquire(), semaphore.acquire(False), semaphore.acquire(True, 0.001), semaphore.acquire(timeout=-1))
    roamlet.tasklet(semaphore.release)()
    print(semaphore.acquire())
    roamlet.tasklet(event.set)()
    print(event.wait())
    def notifies():
        with condition:
            condition.notify()
    with condition:
        roamlet.tasklet(notifies)()
        print(condition.wait(60))
    waiting = roamlet.tasklet(semaphore.acquire)()
    roamlet.schedule()
    waiting.kill()
    print(waiting.alive)
    with context.Manager() as manager:
        shared = manager.list()
        for number in range(5):
            roamlet.tasklet(shared.append)(number)
        roamlet.run()
        print(sorted(shared))
"""
    )
    assert printed(python("program.py")).splitlines() == [
        "True False False False", "True", "True", "True", "False", "[0, 1, 2, 3, 4]",
    ]  # fmt: skip


def test_the_changes_are_undone_also_those_made_at_an_import(python, program):
    program("""\
        from roamlet.patch.areas import children
        from roamlet.patch.changes import Changes
        import os, sys
        changes = Changes()
        held = os.waitpid, os.wait, os.system
        children.apply(changes)
        import multiprocessing.connection, multiprocessing.synchronize, selectors
        print(multiprocessing.connection._WaitSelector is selectors.PollSelector)
        changes.undo()
        print(multiprocessing.connection._WaitSelector is selectors.PollSelector, held == (os.waitpid, os.wait, os.system))
        print([type(each).__module__ for each in sys.meta_path if "roamlet.patch" in type(each).__module__])
        import multiprocessing.forkserver
        print(multiprocessing.forkserver.read_signed.__module__)
        """)
    assert printed(python("program.py")).splitlines() == ["False", "True True", "[]", "multiprocessing.forkserver"]


def test_a_forked_process_has_no_other_tasklets_of_its_parent(python, program):
    program("""\
        import roamlet.patch
        roamlet.patch.install()
        import multiprocessing, os, time, warnings
        import roamlet
        warnings.simplefilter("ignore")
        parent, ran = os.getpid(), []
        def other():
            try:
                time.sleep(0.01)
                ran.append(os.getpid())
            finally:
                if os.getpid() != parent:
                    print("another tasklet runs in the child", flush=True)
        def work():
            time.sleep(0.02)
            print(len(roamlet.core.started()), len(ran), flush=True)
        def starts():
            process = multiprocessing.get_context("fork").Process(target=work)
            process.start()
            process.join()
            print(process.exitcode)
        for start in (starts, lambda: roamlet.spawn(starts).join()):
            tasklets = [roamlet.tasklet(other)() for _ in range(3)]
            roamlet.schedule()
            start()
            roamlet.run()
        print(set(ran) == {parent}, len(ran))
        """)
    assert printed(python("program.py")) == "0 0\n0\n1 3\n0\nTrue 6\n"
