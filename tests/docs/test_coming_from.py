"""docs/howto/from-gevent.md and from-eventlet.md: each row is tried, and no row is without a trial."""

import importlib
import os
import re
import signal
import ssl
import struct
import subprocess
import sys
from contextlib import suppress
from socket import AF_INET, SO_LINGER, SOCK_DGRAM, SOL_SOCKET

import pytest

import roamlet
from roamlet import io
from roamlet.io import tls as io_tls
from roamlet.io.executor import WorkerExecutor
from roamlet.sync import futures
from tests.docs.blocks import ROOT

PAGES = {name: ROOT / f"docs/howto/from-{name}.md" for name in ("gevent", "eventlet")}


def rows(name):
    """First cell: second cell, of all tables of a page."""
    lines = [line.split(" | ") for line in PAGES[name].read_text().splitlines() if line.startswith("| ")]
    return {cells[0].removeprefix("| "): cells[1] for cells in lines if cells[0] not in (f"| {name}", "| ---")}


def double(x):
    return 2 * x


def fail():
    raise LookupError("of the tasklet")


def blocked():
    roamlet.channel().receive()


def queues():
    for kind in (roamlet.sync.PriorityQueue, roamlet.sync.LifoQueue):
        made = kind(1)
        made.put(1)
        with pytest.raises(roamlet.sync.Full):
            made.put_nowait(2)
        assert made.get() == 1
        with pytest.raises(roamlet.sync.Empty):
            made.get_nowait()


# ---- starting and ending ----


def spawn():
    assert roamlet.spawn(double, (21,)).join(1) == 42
    with pytest.raises(LookupError):
        roamlet.spawn(fail).join()
    kept = roamlet.spawn(fail)
    roamlet.run()  # a join() may still take its error
    with pytest.raises(LookupError):
        kept.join()
    roamlet.spawn(fail)  # no join() can take its error
    with pytest.raises(LookupError):
        roamlet.run()
    with pytest.raises(TypeError, match="as a tuple"):
        roamlet.spawn(double, 21)


def spawn_raw():
    seen = []
    roamlet.tasklet(seen.append)(1)
    roamlet.run()
    assert seen == [1]
    roamlet.tasklet(fail)()
    with pytest.raises(LookupError):
        roamlet.run()


def wait_for_all():
    seen = []
    roamlet.spawn(lambda: (roamlet.sleep(0.001), seen.append(1)))
    roamlet.run()
    assert seen == [1]
    waiting = roamlet.spawn(roamlet.sleep, (60,))
    with pytest.raises(TimeoutError), roamlet.timeout(0.001):
        roamlet.run()
    waiting.kill()


def wait_for_one():
    let_go = roamlet.sync.Event()
    with futures.TaskletExecutor(2) as pool:
        quick, slow = pool.submit(double, 2), pool.submit(let_go.wait)
        assert futures.wait([quick, slow], return_when=futures.FIRST_COMPLETED) == ({quick}, {slow})
        let_go.set()


def errors_that_no_code_catches():
    """What set_error_handler is not called for."""
    seen = []
    before = roamlet.set_error_handler(lambda kind, error, trace: seen.append(error))
    try:
        kept = roamlet.spawn(fail)
        with pytest.raises(ExceptionGroup), roamlet.scope() as s:
            s.spawn(fail)
        with futures.TaskletExecutor(1) as executor:
            assert isinstance(executor.submit(fail).exception(), LookupError)
        with io.create_server(("127.0.0.1", 0)) as listener:
            server = roamlet.spawn(io.serve, (listener, lambda connection, address: fail()))
            with io.create_connection(listener.getsockname()), pytest.raises(ExceptionGroup):
                server.join(10)
        assert kept.done and not seen
        del kept
        roamlet.run()
        assert len(seen) == 1
    finally:
        roamlet.set_error_handler(before)


def spawn_later():
    later = roamlet.spawn(lambda: (roamlet.sleep(0.001), double(2))[1])
    assert later.join() == 4


def get():
    with pytest.raises(TimeoutError):
        (waiting := roamlet.spawn(blocked)).join(0.001)
    waiting.kill()
    with pytest.raises(roamlet.TaskletKilled):
        waiting.join()


def wait():
    t = roamlet.spawn(fail)
    assert t.wait(1) is True
    with pytest.raises(LookupError):
        t.join()
    waiting = roamlet.spawn(blocked)
    assert waiting.wait(0.001) is False
    waiting.kill()
    assert waiting.wait() is True


def wait_for_each():
    made = [roamlet.spawn(double, (2,)), roamlet.spawn(fail)]
    for t in made:
        t.wait()
    assert made[0].result == 4
    with pytest.raises(LookupError):
        _ = made[1].result


def kill_each():
    made = [roamlet.spawn(blocked) for _ in range(3)]
    roamlet.schedule()
    for t in made:
        t.kill()
    for t in made:
        t.wait()
    assert all(t.done for t in made)


def throw():
    t = roamlet.spawn(blocked)
    roamlet.schedule()
    t.throw(LookupError)
    with pytest.raises(LookupError):
        t.join()


def threads_names():
    assert roamlet.spawn(roamlet.getcurrentid).join() != roamlet.getcurrentid()
    with roamlet.sync.Lock():
        pass


def status():
    assert roamlet.patch.status()


def reset():
    with io.create_server(("127.0.0.1", 0)) as listener:
        with io.create_connection(listener.getsockname()) as client:
            connection, _ = listener.accept()
            client.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        with connection, pytest.raises(ConnectionError):
            connection.recv(1)


def ready():
    t = roamlet.spawn(double, (1,))
    assert not t.done
    with pytest.raises(RuntimeError):
        _ = t.result
    t.join()
    assert t.done and t.result == 2


def kill():
    seen = []

    def body():
        try:
            blocked()
        except Exception:
            seen.append("caught")
        except roamlet.TaskletExit:
            seen.append("exit")
            roamlet.sleep(0.001)
            seen.append("end")

    t = roamlet.spawn(body)
    roamlet.schedule()
    t.kill()
    assert seen == ["exit"]
    t.join()
    assert seen == ["exit", "end"]
    assert issubclass(roamlet.TaskletExit, SystemExit)


def link():
    seen = []
    for function in (lambda: double(1), fail):
        t = roamlet.spawn(function)
        roamlet.tasklet(lambda t=t: (t.wait(), seen.append(t)))()
        roamlet.run()
        assert seen.pop() is t and t.done
    with pytest.raises(LookupError):
        _ = t.result


def scope():
    waiting = []

    def together():
        with roamlet.scope() as s:
            waiting.append(s.spawn(blocked))
            s.spawn(fail)

    with pytest.raises(ExceptionGroup):
        together()
    assert waiting[0].done


def cancel():
    with roamlet.scope() as s:
        waiting = [s.spawn(blocked) for _ in range(3)]
        roamlet.schedule()
        s.cancel()
    assert all(t.done for t in waiting)


def wait_for_some():
    with futures.TaskletExecutor() as pool:
        made = [pool.submit(double, number) for number in range(3)]
        assert {each.result() for each in futures.as_completed(made)} == {0, 2, 4}
        assert not futures.wait(made).not_done


def getcurrent():
    main = roamlet.getcurrent()
    assert roamlet.spawn(lambda: roamlet.getcurrent() is not main).join()


def sleep():
    assert roamlet.sleep(0.001) is None


def schedule():
    seen = []
    roamlet.tasklet(seen.append)(1)
    roamlet.sleep(0)
    assert seen == [1]

    def endless():
        with roamlet.timeout(0.001):
            while True:
                roamlet.sleep(0)

    with pytest.raises(TimeoutError):
        endless()


# ---- limits of time ----


def timeout():
    times = 0

    def limited():
        nonlocal times
        with roamlet.timeout(0.001):
            for _ in range(2):
                with suppress(roamlet.TaskletExit):
                    blocked()
                times += 1
            blocked()

    with pytest.raises(TimeoutError):
        limited()
    assert times == 2
    caught = []

    def catches():
        with roamlet.timeout(0.001):
            try:
                blocked()
            except Exception:
                caught.append("an Exception")
            except roamlet.Cancelled:
                caught.append("Cancelled")
                raise

    with pytest.raises(TimeoutError):
        catches()
    assert issubclass(TimeoutError, OSError)
    assert caught == ["Cancelled"]


def error_of_a_timeout():
    def limited():
        try:
            with roamlet.timeout(0.001):
                blocked()
        except TimeoutError:
            raise LookupError from None

    with pytest.raises(LookupError):
        limited()


def cancel_a_timeout():
    with roamlet.timeout(0.001) as t:
        t.reschedule(None)
        roamlet.sleep(0.005)
    assert not t.expired
    with pytest.raises(TimeoutError), roamlet.timeout(0.001) as t:
        blocked()
    assert t.expired
    with pytest.raises(TimeoutError), roamlet.timeout(60) as t:
        raise TimeoutError  # a socket's
    assert not t.expired


def quiet_timeout():
    with suppress(TimeoutError), roamlet.timeout(0.001):
        blocked()


def with_timeout():
    def limited(f):
        try:
            with roamlet.timeout(0.01):
                return f()
        except TimeoutError:
            return None

    assert (limited(lambda: 1), limited(blocked)) == (1, None)


# ---- pools, queues, locks ----


def pool():
    running = most = 0

    def work(x):
        nonlocal running, most
        running += 1
        most = max(most, running)
        roamlet.sleep(0.001)
        running -= 1
        return x

    with futures.TaskletExecutor(10) as executor:
        made = [executor.submit(work, x) for x in range(30)]
        assert [each.result() for each in made] == list(range(30))
    assert most == 10


def pool_map():
    with futures.TaskletExecutor(2) as executor:
        assert list(executor.map(double, range(5))) == [0, 2, 4, 6, 8]


def more(executor, made, number):
    roamlet.sleep(0.001)
    if number:
        made.append(executor.submit(more, executor, made, number - 1))


def pool_join():
    executor, made = futures.TaskletExecutor(2), []
    made.append(executor.submit(more, executor, made, 5))
    made.append(executor.submit(fail))
    errors = [each.exception() for each in made]
    assert [type(error) for error in errors] == [type(None), LookupError, *[type(None)] * 5]
    made.pop(1)
    assert len(made) == 6
    last = executor.submit(more, executor, made, 1)
    executor.shutdown()
    assert last.done() and len(made) == 6  # what it submits is refused
    with pytest.raises(RuntimeError, match="after shutdown"):
        last.result()


def queue():
    taken, made = [], roamlet.sync.Queue(5)
    t = roamlet.spawn(lambda: [(taken.append(made.get()), made.task_done()) for _ in range(7)])
    for number in range(7):
        made.put(number)
    made.join()
    t.join()
    assert taken == list(range(7)) and roamlet.sync.Queue(0).maxsize == 0
    meeting = roamlet.channel()
    roamlet.tasklet(meeting.send)(1)
    assert meeting.receive() == 1
    roamlet.run()


def queue_that_ends():
    taken, made = [], roamlet.sync.Queue()

    def consume():
        while (item := made.get()) is not None:
            taken.append(item)

    t = roamlet.spawn(consume)
    for item in (1, 2, None):
        made.put(item)
    t.join(10)
    assert taken == [1, 2]


def running():
    gate = roamlet.channel()
    with futures.TaskletExecutor(1) as executor:
        made = [executor.submit(gate.receive) for _ in range(2)]
        roamlet.schedule()
        assert sum(not each.done() for each in made) == 2
        gate.send_sequence([1, 2])
    assert sum(not each.done() for each in made) == 0


def pool_of_items():
    made = roamlet.sync.Queue()
    made.put(object())

    def use():
        item = made.get()
        try:
            roamlet.sleep(0.001)
            return item
        finally:
            made.put(item)

    first, second = roamlet.spawn(use), roamlet.spawn(use)
    assert first.join() is second.join() is made.get()


def event():
    made = roamlet.sync.Event()
    roamlet.tasklet(made.set)()
    assert made.wait(10)
    made.clear()
    waiting = [roamlet.spawn(made.wait, (10,)) for _ in range(3)]
    roamlet.schedule()
    made.set()
    made.clear()
    assert [t.join() for t in waiting] == [True, True, True]


def async_result():
    made = futures.Future()
    roamlet.tasklet(made.set_result)(7)
    assert made.result(10) == 7
    with pytest.raises(futures.InvalidStateError):
        made.set_result(8)
    called = []
    made.add_done_callback(called.append)
    assert made.done() and called == [made]
    failed = futures.Future()
    failed.set_exception(LookupError())
    with pytest.raises(LookupError):
        failed.result()


def locks():
    made = roamlet.sync.Semaphore(2)
    assert [made.acquire(blocking=False) for _ in range(3)] == [True, True, False]
    assert roamlet.sync.BoundedSemaphore(1).acquire() and roamlet.sync.RLock().acquire()


def local():
    made = roamlet.sync.local()
    made.x = 1
    assert roamlet.spawn(lambda: hasattr(made, "x")).join() is False


# ---- the world outside ----


def python(*words):
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


PATCHED = """
import socket, threading, roamlet
ran = []
thread = threading.Thread(target=lambda: ran.append(threading.get_native_id() == threading.main_thread().native_id))
thread.start()
thread.join()
print(issubclass(socket.socket, roamlet.io.socket), threading.local, *ran)
"""


def patch():
    for words in ('threads="tasklets"', "local=True"):
        source = f"import roamlet.patch; roamlet.patch.install({words})\n{PATCHED}"
        assert python("-c", source) == f"True <class 'roamlet.sync.local'> {words[0] == 't'}\n"


def patch_a_program():
    words = ("-m", "roamlet.patch", "--threads=tasklets", "-c", PATCHED)
    assert python(*words) == "True <class 'roamlet.sync.local'> True\n"


def handle(connection, address):
    connection.sendall(connection.recv(100).upper())


def serve():
    with io.create_server(("127.0.0.1", 0)) as listener, roamlet.scope() as s:
        s.service(io.serve, (listener, handle))
        with io.create_connection(listener.getsockname()) as client:
            client.sendall(b"abc")
            assert client.recv(100) == b"ABC"


def tls(certificates):
    ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=certificates / "ca.pem")
    ours.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    a, b = io.socketpair()
    server = roamlet.spawn(lambda: io_tls.wrap(a, ours, server_side=True))
    with io_tls.wrap(b, theirs, server_hostname="roamlet.test") as client, server.join() as connection:
        roamlet.tasklet(connection.sendall)(b"x")
        assert client.recv(1) == b"x"


def wait_readable():
    a, b = io.socketpair()
    with a, b:
        roamlet.tasklet(a.sendall)(b"x")
        io.wait_readable(b.fileno(), 10)
        io.wait_writable(b.fileno(), 10)


def wait_for_children():
    with io.subprocess.Popen([sys.executable, "-c", "input()"], stdin=io.subprocess.PIPE) as popen:
        with suppress(TimeoutError), roamlet.timeout(0.001):
            popen.wait()
        assert popen.poll() is None
        popen.communicate(b"x\n")
    assert popen.returncode == 0


def stop_a_server():
    listener, meeting = io.create_server(("127.0.0.1", 0)), roamlet.channel()
    t = roamlet.spawn(io.serve, (listener, lambda connection, address: meeting.send(connection.recv(1))))
    with io.create_connection(listener.getsockname()) as client:
        client.sendall(b"x")
        assert meeting.receive() == b"x"
    with io.create_connection(address := listener.getsockname()) as client:
        roamlet.sleep(0.01)
        listener.close()
        with pytest.raises(TimeoutError):
            t.join(0.001)
        t.kill()
        with pytest.raises(roamlet.TaskletKilled):
            t.join()
        assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        io.create_connection(address)


def datagrams():
    with io.socket(AF_INET, SOCK_DGRAM) as server, io.socket(AF_INET, SOCK_DGRAM) as client:
        server.bind(("127.0.0.1", 0))
        client.sendto(b"x", server.getsockname())
        data, address = server.recvfrom(10)
        server.sendto(data.upper(), address)
        assert client.recv(10) == b"X"


def thread_pool():
    pool = WorkerExecutor(3)
    made = pool.submit(double, 2)
    pool.shutdown()
    assert made.done() and made.result() == 4


def read():
    reader, writer = os.pipe()
    try:
        t = roamlet.spawn(io.read, (reader, 100))
        roamlet.schedule()
        io.write(writer, b"x")
        assert t.join(10) == b"x"
    finally:
        io.close(reader)
        io.close(writer)


def children():
    done = io.subprocess.run([sys.executable, "-c", "print(1)"], stdout=io.subprocess.PIPE)
    assert done.stdout == b"1\n"


def files():
    with io.open(__file__) as file:
        assert file.readline().startswith('"""docs/howto/from-gevent.md')


def gunicorn():
    assert importlib.import_module("roamlet.gunicorn").Worker  # tests/test_gunicorn.py runs it


def call_async():
    assert roamlet.call_async(lambda: double(2)) == 4


def signals():
    made = roamlet.sync.Event()
    before = signal.signal(signal.SIGUSR2, lambda *_: made.set())
    try:
        roamlet.tasklet(signal.raise_signal)(signal.SIGUSR2)
        assert made.wait(10)
    finally:
        signal.signal(signal.SIGUSR2, before)


def deadlock():
    with pytest.raises(roamlet.Deadlock):
        blocked()


def a_class():
    class Job:
        def run(self):
            return 7

    assert roamlet.spawn(Job().run).join() == 7


def nothing():
    pass


TRIED = {
    "gevent": {
        "`gevent.spawn(f, x)`": spawn,
        "`gevent.spawn_raw(f, x)`": spawn_raw,
        "`gevent.spawn_later(1, f)`": spawn_later,
        "`g.get(timeout=1)`": get,
        "`g.join(timeout=1)`": wait,
        "`g.kill(MyError)`": throw,
        "`g.ready()`, `g.value`": ready,
        "`g.kill()`": kill,
        "`g.link(callback)`": link,
        "`gevent.GreenletExit`": kill,
        "`gevent.joinall(list)`": wait_for_each,
        "`gevent.joinall(list, raise_error=True)`": scope,
        "`gevent.killall(list)`": kill_each,
        "`gevent.wait(list)`, `gevent.iwait(list)`": wait_for_some,
        "`gevent.wait(list, count=1)`, `Pool.wait_available()`": wait_for_one,
        "`gevent.wait()`": wait_for_all,
        "`gevent.getcurrent()`": getcurrent,
        "`gevent.sleep(1)`": sleep,
        "`gevent.sleep(0)`, `gevent.idle()`": schedule,
        "`gevent.thread.get_ident()`, `allocate_lock()`": threads_names,
        "`with gevent.Timeout(1):`": timeout,
        "`with gevent.Timeout(1, False):`": quiet_timeout,
        "`with gevent.Timeout(1, MyError):`": error_of_a_timeout,
        "`t = gevent.Timeout.start_new(1)`, `t.cancel()`": cancel_a_timeout,
        "`gevent.with_timeout(1, f, timeout_value=None)`": with_timeout,
        "`gevent.pool.Pool(10)`": pool,
        "`Pool.kill()`": cancel,
        "`Pool.map(f, xs)`": pool_map,
        "`Pool.imap_unordered(f, xs)`": wait_for_some,
        "`Pool.join()`": pool_join,
        "`gevent.pool.Group()`": scope,
        "`gevent.queue.Queue(5)`, `JoinableQueue`": queue,
        "`gevent.queue.PriorityQueue`, `LifoQueue`, `Empty`, `Full`": queues,
        "`for item in queue:`, `queue.put(StopIteration)`": queue_that_ends,
        "`gevent.event.Event()`": event,
        "`gevent.event.AsyncResult()`": async_result,
        "`gevent.lock.Semaphore(2)`, `BoundedSemaphore`, `RLock`": locks,
        "`gevent.local.local`": local,
        "`gevent.monkey.patch_all()`": patch,
        "`gevent.monkey.is_module_patched(name)`": status,
        "`python -m gevent.monkey script.py`": patch_a_program,
        "`from gevent import socket`": patch,
        "`gevent.socket.create_connection(a)`": serve,
        "`gevent.socket.wait_read(fd, timeout=1)`, `wait_write`": wait_readable,
        "`gevent.ssl`": tls,
        "`gevent.select.select([fd], [], [])`": wait_readable,
        "`gevent.subprocess.run(words)`, `Popen(words)`": children,
        "`gevent.wait([popen], timeout=2)`": wait_for_children,
        "`gevent.os.nb_read(fd, 100)`, `nb_write`, `tp_read`": read,
        "`gevent.fileobject.FileObject(f)`": files,
        "`gevent.server.StreamServer(address, handle).serve_forever()`": serve,
        "`StreamServer(address, handle, keyfile=k, certfile=c)`": tls,
        "`StreamServer.start()`, `stop(10)`": stop_a_server,
        "`gevent.server.DatagramServer`": datagrams,
        "`gevent.pywsgi.WSGIServer(address, app)`": gunicorn,
        "`gevent.get_hub().threadpool.apply(f)`": call_async,
        "`gevent.threadpool.ThreadPool(3)`, `ThreadPool.join()`": thread_pool,
        "`gevent.signal_handler(number, f)`": signals,
        "`gevent.hub.LoopExit`": deadlock,
        "`gevent.get_hub().loop.timer(1)`": sleep,
        "`gevent.Greenlet` subclasses": a_class,
    },
    "eventlet": {
        "`eventlet.spawn(f, x)`": spawn,
        "`eventlet.spawn_n(f, x)`": spawn_raw,
        "`eventlet.spawn_after(1, f)`": spawn_later,
        "`gt.wait()`": get,
        "`gt.kill()`": kill,
        "`gt.dead`": ready,
        "`gt.link(f, x)`": link,
        "`eventlet.sleep(1)`": schedule,
        "`eventlet.getcurrent()`": getcurrent,
        "`with eventlet.Timeout(1):`": timeout,
        "`t = eventlet.Timeout(1)`, `except eventlet.Timeout`, `t.cancel()`": cancel_a_timeout,
        "`with eventlet.Timeout(1, False):`": quiet_timeout,
        "`eventlet.timeout.with_timeout(1, f)`": with_timeout,
        "`eventlet.GreenPool(10)`": pool,
        "`GreenPool.imap(f, xs)`": pool_map,
        "`GreenPool.waitall()`": pool_join,
        "`eventlet.GreenPile(10)`": pool,
        "`GreenPool.running()`, `free()`, `waiting()`": running,
        "`eventlet.pools.Pool(create=f)`, `pool.item()`": pool_of_items,
        "`eventlet.Queue(5)`, `eventlet.queue.LightQueue`, `Empty`": queue,
        "`eventlet.semaphore.Semaphore(2)`": locks,
        "`eventlet.event.Event()`": async_result,
        "`eventlet.corolocal.local`": local,
        "`eventlet.monkey_patch()`": patch,
        "`eventlet.import_patched(name)`": patch,
        "`from eventlet.green import socket`, `threading`, `subprocess`, `eventlet.green.urllib.request`": patch,
        "`connection.recv()` of a connection that was reset": reset,
        "`eventlet.tpool.execute(f, x)`": call_async,
        "`eventlet.tpool.Proxy(thing)`": call_async,
        "`eventlet.connect(address)`": serve,
        "`eventlet.listen(address)`": serve,
        "`eventlet.serve(listener, handle)`": serve,
        "`eventlet.StopServe`": stop_a_server,
        "`eventlet.wrap_ssl(connection)`, `eventlet.green.ssl`": tls,
        "`eventlet.wsgi.server(listener, app)`": gunicorn,
        "`eventlet.websocket`": gunicorn,
        "`eventlet.hubs.trampoline(fd, read=True)`": wait_readable,
        "`eventlet.hubs.use_hub(name)`": nothing,
        "`eventlet.backdoor`": nothing,
    },
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_has_the_rows_that_are_tried(name):
    assert set(rows(name)) == set(TRIED[name])


@pytest.mark.leaves("threads", reason="worker threads rest for a while")
@pytest.mark.parametrize(
    "trial",
    sorted(
        {errors_that_no_code_catches, *(f for tried in TRIED.values() for f in tried.values())},
        key=lambda f: f.__name__,
    ),
)
def test_a_row_is_right(trial, certificates):
    trial(*[certificates][: trial is tls])


@pytest.mark.parametrize("name", PAGES)
def test_the_names_of_roamlet_exist(name):
    words = re.findall(r"roamlet((?:\.\w+)+)", " ".join(rows(name).values()))
    for word in words:
        *modules, last = word.removeprefix(".").split(".")
        found = roamlet
        for each in modules:
            found = getattr(found, each, None) or importlib.import_module(f"{found.__name__}.{each}")
        assert hasattr(found, last) or importlib.import_module(f"{found.__name__}.{last}"), word


def test_the_names_of_gevent_exist():
    found = re.findall(r"gevent((?:\.\w+)+)", " ".join(rows("gevent")))
    source = "import sys, importlib, operator\nfor word in sys.argv[1:]:\n    *path, name = word.split('.')\n"
    source += "    try:\n        owner = importlib.import_module('.'.join(['gevent', *path]))\n"
    source += "    except ImportError:\n        import gevent; owner = operator.attrgetter('.'.join(path))(gevent)\n"
    source += "    if not hasattr(owner, name): importlib.import_module(f'gevent.{word}')\n"
    python("-W", "ignore", "-c", source, *(word.removeprefix(".") for word in found))
