"""Signal handlers that interrupt the main thread while it waits: they may use locks and queues, and wait for them."""

from tests.core._scripts import output_of

HANDLER = """
    import os, signal, threading, time, roamlet
    from roamlet import sync

    lock, rlock, items, simple = sync.Lock(), sync.RLock(), sync.Queue(), sync.SimpleQueue()
    semaphore, event, condition = sync.Semaphore(0), sync.Event(), sync.Condition()
    done, begun, log = sync.Event(), sync.Semaphore(0), []

    def other():
        with lock, rlock:
            begun.release()
            handling.wait()
            time.sleep(0.02)
        items.put("item")
        simple.put("simple")
        semaphore.release()
        event.set()
        while "waits" not in log:
            time.sleep(0.001)
        with condition:
            condition.notify()

    handling = threading.Event()

    def handler(*_):
        handling.set()
        with lock, rlock:
            log.append("locked")
        log.append(items.get())
        log.append(simple.get(timeout=10))
        log.append(semaphore.acquire())
        log.append(event.wait(10))
        with condition:
            log.append("waits")
            log.append(condition.wait())
        lock.acquire()
        for late in (lock.acquire, sync.Event().wait, sync.Semaphore(0).acquire):
            log.append(late(timeout=0.01))
        with condition:
            log.append(condition.wait(0.01))
        try:
            items.get(timeout=0.01)
        except sync.Empty:
            log.append("empty")
        lock.release()
        done.set()

    signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=other)
    thread.start()
    begun.acquire()
    TASKLET
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    try:
        done.wait()
    except RuntimeError as error:
        print("refused:", error, flush=True)
        os._exit(0)
    thread.join()
    print(log)
"""


def test_a_handler_waits_as_the_thread_itself():
    printed = output_of(HANDLER.replace("TASKLET", "pass"))
    assert printed == str(["locked", "item", "simple", True, True, "waits", True, False, False, False, False, "empty"])


def test_where_tasklets_would_be_held_up_it_is_refused():
    printed = output_of(HANDLER.replace("TASKLET", "kept = roamlet.channel(); roamlet.tasklet(kept.receive)().run()"))
    assert printed.startswith("refused: this call would block, and it was made where no tasklet runs")
