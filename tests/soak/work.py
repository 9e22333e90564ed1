"""What the crews of a load do: each step uses one thing in ways that succeed, fail, time out and are killed, and checks it."""

import socket
import struct
import threading
import time
from collections.abc import Callable

import roamlet
from roamlet import io, sync
from roamlet.core import CancelScope
from roamlet.sync import futures
from tests.soak.load import Crew

LINGER_NOT = struct.pack("ii", 1, 0)  # close() resets the connection

LIMIT = 5.0  # for what must happen soon: long enough for a busy machine


class Shared:
    """What the crews of all threads use together, and what is true of it whatever happens."""

    def __init__(self, threads: int) -> None:
        self.lock, self.inside = sync.Lock(), 0
        self.fair, self.fair_inside = sync.Lock(fair=True), 0
        self.rlock, self.owner = sync.RLock(), None
        self.semaphore, self.passing = sync.Semaphore(3), [False] * 3
        self.condition, self.slots = sync.Condition(), 0
        self.event = sync.Event()
        self.queue: sync.Queue = sync.Queue(20)
        self.simple: sync.SimpleQueue = sync.SimpleQueue()
        self.channel: roamlet.channel = roamlet.channel()
        self.addresses: list[object] = []
        self.everybody_serves = threading.Barrier(threads)

    def check(self, totals: dict[str, int]) -> None:
        """When all is over: nobody is inside, and what was put was taken or is still there."""
        assert (self.inside, self.fair_inside, self.owner, self.passing) == (0, 0, None, [False] * 3)
        assert not self.lock.locked()
        assert not self.fair.locked()
        for _ in range(3):
            assert self.semaphore.acquire(blocking=False)
        assert not self.semaphore.acquire(blocking=False)
        assert totals["put"] == totals["got"] + self.queue.qsize()
        assert totals["simply put"] == totals["simply got"] + self.simple.qsize()
        assert totals["slots filled"] == totals["slots emptied"] + self.slots


def work_of(shared: Shared) -> Callable[[Crew], dict[str, Callable[[], None]]]:
    """make_work for Load.run."""

    def make_work(crew: Crew) -> dict[str, Callable[[], None]]:
        work = {**locking(shared, crew), **queueing(shared, crew), **waiting(shared, crew), **connecting(shared, crew)}
        shared.everybody_serves.wait(LIMIT)
        return work

    return make_work


def doze(crew: Crew) -> None:
    """Let others run, for a moment or for some."""
    if crew.random.random() < 0.5:
        roamlet.schedule()
    else:
        roamlet.sleep(crew.random.uniform(0, 0.003))


def nest(crew: Crew, depth: int) -> None:
    """So many scopes in one another, which may run out of time."""
    with CancelScope(crew.random.choice([None, 0.005])):
        if depth:
            nest(crew, depth - 1)
        doze(crew)


def locking(shared: Shared, crew: Crew) -> dict[str, Callable[[], None]]:
    """Who holds a lock is alone inside, in all threads."""
    pick = crew.random

    def lock() -> None:
        if shared.lock.acquire(timeout=pick.choice([-1, 0, 0.001, 0.05])):
            try:
                shared.inside += 1
                assert shared.inside == 1
                doze(crew)
                assert shared.inside == 1
            finally:
                shared.inside -= 1
                shared.lock.release()

    def fair() -> None:
        with shared.fair:
            try:
                shared.fair_inside += 1
                assert shared.fair_inside == 1
                doze(crew)
            finally:
                shared.fair_inside -= 1

    def rlock() -> None:
        with CancelScope(pick.choice([None, 0.001, 0.02])), shared.rlock:
            before, shared.owner = shared.owner, crew
            assert before is None
            try:
                with shared.rlock:
                    doze(crew)
                    assert shared.owner is crew
            finally:
                shared.owner = None

    def semaphore() -> None:
        if shared.semaphore.acquire(timeout=pick.choice([None, 0, 0.002])):
            place = None
            try:
                place = shared.passing.index(False)
                shared.passing[place] = True
                doze(crew)
            finally:
                if place is not None:
                    shared.passing[place] = False
                shared.semaphore.release()

    return {"lock": lock, "fair": fair, "rlock": rlock, "semaphore": semaphore}


def queueing(shared: Shared, crew: Crew) -> dict[str, Callable[[], None]]:
    """What was put is taken once; whoever is killed takes nothing along."""
    pick, counts = crew.random, crew.counts

    def put() -> None:
        try:
            shared.queue.put(b"x" * pick.randrange(2000), timeout=pick.choice([0, 0.001, 0.05]))
            counts["put"] += 1
        except sync.Full:
            doze(crew)

    def get() -> None:
        try:
            shared.queue.get(timeout=pick.choice([0, 0.001, 0.05]))
            counts["got"] += 1
        except sync.Empty:
            doze(crew)

    def simple() -> None:
        if shared.simple.qsize() < 100:
            shared.simple.put(object())
            counts["simply put"] += 1
        try:
            with CancelScope(pick.choice([None, 0.01])):
                shared.simple.get(timeout=pick.choice([0.001, 0.02]))
                counts["simply got"] += 1
        except sync.Empty:
            pass
        doze(crew)

    def channel() -> None:
        with CancelScope(pick.choice([0.001, 0.02])):
            if pick.random() < 0.5:
                shared.channel.send(pick.random())
            else:
                assert 0 <= shared.channel.receive() < 1

    return {"producer": put, "consumer": get, "simple queue": simple, "channel": channel}


def waiting(shared: Shared, crew: Crew) -> dict[str, Callable[[], None]]:
    """Conditions, events, scopes, and jobs on worker threads."""
    pick, counts = crew.random, crew.counts

    def condition() -> None:
        with shared.condition:
            if pick.random() < 0.5:
                shared.slots += 1
                counts["slots filled"] += 1
                shared.condition.notify()
            elif shared.condition.wait_for(lambda: shared.slots, pick.choice([0.001, 0.02])):
                shared.slots -= 1
                counts["slots emptied"] += 1
        doze(crew)

    def event() -> None:
        if pick.random() < 0.3:
            shared.event.set()
            doze(crew)
            shared.event.clear()
        else:
            shared.event.wait(pick.choice([0.001, 0.02]))

    def scope() -> None:
        try:
            with roamlet.timeout(pick.choice([0.001, 0.01, 0.1])), roamlet.scope() as inside:
                inside.service(roamlet.sleep, (1000,))
                for _ in range(pick.randrange(5)):
                    inside.spawn(nest, (crew, pick.randrange(4)))
                doze(crew)
                how = pick.random()
                if how < 0.2:
                    inside.cancel()
                elif how < 0.3:
                    inside.spawn(int, ("no number",))
        except TimeoutError:
            counts["time-outs"] += 1
        except ExceptionGroup as group:
            if group.split(ValueError)[1] is not None:
                raise
            counts["failed scopes"] += 1

    def executor() -> None:
        with futures.TaskletExecutor(2) as two:
            made = [two.submit(roamlet.sleep, pick.uniform(0, 0.003)) for _ in range(4)]
            done, rest = futures.wait(
                made, pick.choice([0, 0.002, 1]), pick.choice(["FIRST_COMPLETED", "ALL_COMPLETED"])
            )
            assert done | rest == set(made)
            for future in rest:
                future.cancel()

    def job() -> None:
        seconds, fails = pick.choice([0, 0, 0.001, 0.005]), pick.random() < 0.2

        def work() -> int:
            time.sleep(seconds)
            if fails:
                raise LookupError("as it was told")
            return threading.get_ident()

        try:
            with roamlet.timeout(pick.choice([None, 0.002, 1.0])):
                assert roamlet.call_async(work) != threading.get_ident()
                assert not fails
        except TimeoutError:
            counts["time-outs"] += 1
        except LookupError:
            assert fails

    return {"condition": condition, "event": event, "scope": scope, "futures": executor, "call_async": job}


def connecting(shared: Shared, crew: Crew) -> dict[str, Callable[[], None]]:
    """Clients of the servers of all threads. They hang up in the middle, reset, fall silent, and read what they sent."""
    pick = crew.random
    listening = io.create_server(("127.0.0.1", 0), backlog=512)
    shared.addresses.append(listening.getsockname())

    def accept() -> None:
        while True:
            try:
                connection = listening.accept()[0]
            except OSError:  # closed: the load is over
                return
            crew.help(lambda connection=connection: echo(connection))
            del connection

    def echo(connection: socket.socket) -> None:
        with connection:
            try:
                while received := connection.recv(65536):
                    connection.sendall(received)
            except OSError:  # reset, or gone before it had read all
                pass

    def client() -> None:
        try:
            with io.create_connection(pick.choice(shared.addresses), timeout=LIMIT) as connection:
                for _ in range(pick.randrange(1, 6)):
                    talk(connection)
        except (ConnectionError, TimeoutError):
            crew.counts["broken connections"] += 1

    def talk(connection: socket.socket) -> None:
        data = pick.randbytes(pick.choice([1, 100, 3000, 100_000]))
        how = pick.random()
        if how < 0.1:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
            connection.send(data)
            raise ConnectionError("reset by ourselves")
        if how < 0.2:
            connection.send(data)
            raise ConnectionError("hung up by ourselves")
        if how < 0.3:
            connection.settimeout(0.001)  # nobody has been sent anything: this runs out
            connection.recv(1)
            raise AssertionError("something came that nobody has sent")
        with CancelScope(pick.choice([None, None, 0.001, 0.05])) as scope:
            sender = roamlet.tasklet(connection.sendall)
            scope.adopt(sender)
            sender = sender(data)
            try:
                came = b""
                while len(came) < len(data):
                    part = connection.recv(pick.choice([10, 4096, 65536]) if len(data) < 4000 else 65536)
                    assert part, "the server hung up"
                    came += part
                assert came == data
                return
            finally:
                sender.kill()
        raise ConnectionError("its time was over in the middle")

    def end() -> None:
        listening.close()

    crew.help(accept)
    return {"client": client, "end": end}


def answer_jobs(jobs, results):
    """Answer each job that comes by one channel into another."""
    for job in jobs:
        results.send(job)


def write_and_return(number):
    print(number)
    return number
