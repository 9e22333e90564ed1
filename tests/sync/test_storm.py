"""Several threads whose tasklets use everything of roamlet.sync at random, are killed, timed out and cancelled: nothing is lost."""

import os
import subprocess
import sys
import textwrap

import pytest

from tests.core._scripts import output_of

STORM = """
    import faulthandler, gc, random, sys, threading, roamlet
    from roamlet import core, sync
    faulthandler.dump_traceback_later(90, exit=True)
    sys.setswitchinterval(1e-5)

    class Storm(Exception):
        pass

    locks = [sync.Lock(), sync.Lock(fair=True), sync.RLock()]
    inside = [0] * len(locks)
    semaphore, within = sync.BoundedSemaphore(3), [0]
    simple, items = sync.SimpleQueue(), sync.Queue(5)
    condition, tokens = sync.Condition(), [0]
    event = sync.Event()
    everybody, put, got = [], ([], []), ([], [])

    def timeout(generator):
        return generator.choice([None, 0.0002, 0.002, 0.02])

    def with_lock(generator):
        number = generator.randrange(len(locks))
        limit = timeout(generator)
        if not locks[number].acquire(timeout=-1 if limit is None else limit):
            return
        try:
            inside[number] += 1
            assert inside[number] == 1
            if generator.random() < 0.5:
                roamlet.schedule()
            assert inside[number] == 1
        finally:
            inside[number] -= 1
            locks[number].release()

    def with_semaphore(generator):
        if not semaphore.acquire(timeout=timeout(generator)):
            return
        try:
            within[0] += 1
            assert within[0] <= 3
            roamlet.schedule()
        finally:
            within[0] -= 1
            semaphore.release()

    def with_queue(generator):
        which = generator.randrange(2)
        queue = (simple, items)[which]
        if generator.random() < 0.5:
            queue.put(1, timeout=timeout(generator) or 0.05)
            put[which].append(1)
        else:
            queue.get(timeout=timeout(generator) or 0.05)
            got[which].append(1)

    def with_condition(generator):
        with condition:
            if generator.random() < 0.5:
                tokens[0] += 1
                condition.notify()
            elif condition.wait_for(lambda: tokens[0] > 0, timeout(generator) or 0.05):
                tokens[0] -= 1
            assert condition._is_owned()

    def with_event(generator):
        call = generator.randrange(3)
        event.set() if call == 0 else event.clear() if call == 1 else event.wait(timeout(generator) or 0.05)

    def disturb(generator):
        victim = generator.choice(everybody)
        try:
            if generator.random() < 0.9:
                victim.throw(Storm, pending=True)
            else:
                victim.kill(pending=True)
        except RuntimeError:  # it is dead
            pass

    def cancelled(generator):
        with core.CancelScope(timeout=generator.choice([0.0001, 0.001])):
            generator.choice(ACTS[:4])(generator)

    ACTS = [with_lock, with_semaphore, with_condition, with_event, with_queue, disturb, cancelled]

    def body(seed):
        generator = random.Random(seed)
        for _ in range(STEPS):
            try:
                generator.choice(ACTS)(generator)
            except (Storm, sync.Empty, sync.Full):
                continue

    def uncaught(kind, error, traceback):
        if kind is not Storm:  # which may hit a tasklet before it has begun
            raise error

    roamlet.set_error_handler(uncaught)

    def thread(seed):
        tasklets = [roamlet.tasklet(body)(seed * 100 + number) for number in range(8)]
        everybody.extend(tasklets)
        while core.started() or roamlet.getruncount() > 1:
            try:
                roamlet.sleep(0.001)
            except Storm:  # it hit a tasklet that was just ending
                continue

    for round in range(ROUNDS):
        threads = [threading.Thread(target=thread, args=(SEED + round * 1000 + number,)) for number in range(3)]
        for each in threads:
            each.start()
        thread(SEED + round * 1000 + 999)
        for each in threads:
            each.join()
    assert [lock.acquire(blocking=False) for lock in locks] == [True] * 3, locks
    assert semaphore._value == 3, semaphore
    assert condition.acquire(blocking=False), condition
    assert repr(condition).endswith(", 0)>"), condition
    assert len(put[0]) - len(got[0]) == simple.qsize() and len(put[1]) - len(got[1]) == items.qsize()
    print("quiet", len(put[0]) > 0, len(put[1]) > 0)
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_storm_leaves_everything_free_and_usable(seed):
    source = textwrap.dedent(STORM).replace("SEED", str(seed)).replace("STEPS", "150").replace("ROUNDS", "2")
    assert output_of(source) == "quiet True True"


def test_a_fork_in_the_middle_leaves_the_child_locks_that_work():
    """The child's one thread uses the locks that threads of the parent wait for and hold."""
    source = """
        import os, threading, roamlet
        from roamlet import sync

        lock, event, condition, items = sync.Lock(), sync.Event(), sync.Condition(), sync.Queue()
        semaphore, simple = sync.Semaphore(0), sync.SimpleQueue()
        held, stop, ready = sync.Lock(), sync.Event(), sync.Semaphore(0)

        def waits(call):
            ready.release()
            call()

        def holds():
            with held:
                ready.release()
                stop.wait()

        def waits_in_condition():
            with condition:
                ready.release()
                condition.wait()

        lock.acquire()
        calls = [lock.acquire, event.wait, items.get, semaphore.acquire, simple.get]
        threads = [threading.Thread(target=waits, args=(call,)) for call in calls]
        threads += [threading.Thread(target=holds), threading.Thread(target=waits_in_condition)]
        for thread in threads:
            thread.start()
        for _ in threads:
            ready.acquire()
        roamlet.sleep(0.05)  # most of them wait by now; it does not matter who does not yet
        pid = os.fork()
        if pid == 0:
            log = []
            lock.release()
            log.append(lock.acquire(blocking=False))  # nobody is there to take it
            items.put(1)
            simple.put(2)
            log += [items.get(timeout=1), simple.get(timeout=1)]
            semaphore.release()
            log.append(semaphore.acquire(timeout=1))
            event.set()
            log.append(held.acquire(timeout=0.01))
            held._at_fork_reinit()
            log.append(held.acquire(timeout=0.01))
            with condition:
                condition.notify_all()
                roamlet.tasklet(lambda: condition.__enter__() and (condition.notify(), condition.release()))()
                log.append(condition.wait(1))
            print(log, flush=True)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        event.set()
        lock.release()
        items.put(1)
        simple.put(1)
        semaphore.release()
        with condition:
            condition.notify_all()
        for thread in threads:
            thread.join()
        print("parent", lock.locked(), held.locked(), condition, flush=True)
    """
    # From 3.15 on the warning of a fork beside other threads is raised where it is an error.
    printed = output_of(source, "-W", "ignore:This process:DeprecationWarning").splitlines()
    assert printed[0] == "[True, 1, 2, True, False, True, True]"
    assert printed[1].startswith("parent True False <Condition(<unlocked") and printed[1].endswith(", 0)>")


def test_locks_work_until_the_interpreter_ends():
    """In what is called at exit and after it, in daemon threads, and in objects that go with their modules."""
    source = """
        import atexit, threading, roamlet
        from roamlet import sync

        lock, items = sync.RLock(), sync.Queue()

        class Late:
            def __del__(self):
                with lock:
                    items.put("late")
                print("late", items.qsize())

        late = Late()
        late.itself = [late]
        atexit.register(lambda: print("exit", lock.acquire(), lock.release()))
        for call in (items.get, sync.Event().wait, lambda: roamlet.channel().receive()):
            threading.Thread(target=call, daemon=True).start()
        print("end")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == ["end", "exit True None"]
