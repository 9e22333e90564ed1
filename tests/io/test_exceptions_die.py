"""No path of an exception through io keeps it, and workers that rest hold nothing of what failed in them."""

import logging
import socket as standard
import ssl
import sys
import threading

import pytest

import roamlet
from roamlet import io
from roamlet.io import executor, tls, workers
from roamlet.io._workers.serial import Serial
from tests.io._sockets import LOCALHOST
from tests.io._workers import Gate, all_rest, started, wait_until
from tests.witnesses import Witnesses

pytestmark = pytest.mark.usefixtures("workers_at_first")
PATHS = {}


def path(function):
    PATHS[function.__name__] = function
    return function


@pytest.fixture
def witnesses():
    return Witnesses()


@path
def call_async(witnesses):
    def calls():
        local = witnesses("the frame that called")
        roamlet.call_async(lambda: witnesses.fails(local))

    witnesses.handles(calls)


@path
def call_async_that_ends_a_program(witnesses):
    witnesses.handles(lambda: roamlet.call_async(lambda: witnesses.fails(kind=SystemExit)), SystemExit)


@path
def call_async_whose_caller_was_killed(witnesses):
    gate, told = Gate(), []

    def job():
        gate()
        witnesses.fails()

    workers.configure(on_abandoned=lambda function, result, error: told.append(type(error)))
    waiting = started(lambda: roamlet.call_async(job))
    gate.wait_for()
    waiting.kill()
    gate.open()
    wait_until(all_rest)
    assert told == [ValueError]
    assert not waiting.alive


@path
def call_async_whose_handler_of_abandoned_jobs_fails(witnesses):
    gate = Gate()

    def job():
        gate()
        witnesses.fails()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "excepthook", lambda *_: None)
        workers.configure(on_abandoned=lambda function, result, error: witnesses.fails(function, error))
        waiting = started(lambda: roamlet.call_async(job))
        gate.wait_for()
        waiting.kill()
        gate.open()
        wait_until(all_rest)
    assert len(witnesses.seen) == 2


@path
def call_async_whose_abandoned_error_is_logged(witnesses):
    gate, seen = Gate(), []

    def job():
        gate()
        witnesses.fails()

    class Handler(logging.Handler):
        def emit(self, record):
            seen.append(self.format(record))

    logger, handler = logging.getLogger("roamlet.io.workers"), Handler()
    logger.addHandler(handler)
    logger.propagate = False
    try:
        waiting = started(lambda: roamlet.call_async(job))
        gate.wait_for()
        waiting.kill()
        gate.open()
        wait_until(all_rest)
    finally:
        logger.propagate = True
        logger.removeHandler(handler)
    assert "raised below a witness" in seen[0]


@path
def call_async_without_a_thread(witnesses):
    def refuses(*_):
        witnesses.fails(kind=RuntimeError)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        witnesses.handles(lambda: roamlet.call_async(witnesses.fails), RuntimeError)


@path
def iterate_async(witnesses):
    def items():
        yield 1
        witnesses.fails()

    witnesses.handles(lambda: list(io.iterate_async(items())))


@path
def calls_one_after_the_other(witnesses):
    serial = Serial()
    witnesses.handles(lambda: serial.call(witnesses.fails))
    wait_until(all_rest)
    witnesses.judge()
    serial.start(lambda: None)


@path
def an_executor(witnesses):
    with executor.WorkerExecutor(1) as pool:
        witnesses.handles(pool.submit(witnesses.fails, witnesses("an argument")).result)
        wait_until(all_rest)
        witnesses.judge()


@path
def an_executor_that_maps(witnesses):
    with executor.WorkerExecutor(2) as pool:
        witnesses.handles(lambda: list(pool.map(witnesses.fails, range(4))))
        wait_until(all_rest)
        witnesses.judge()


@path
def a_handler_of_a_server(witnesses):
    def handler(connection, address):
        local = witnesses("the handler's frame")
        if connection.recv(10) == b"wrong":
            witnesses.fails(local)
        witnesses.fails(local, kind=ConnectionError)

    with io.create_server(LOCALHOST) as listener:
        serving = roamlet.spawn(io.serve, (listener, handler))
        with io.create_connection(listener.getsockname()) as client:
            client.sendall(b"lost")
            assert client.recv(10) == b""
        roamlet.schedule()
        witnesses.judge()
        assert not serving.done
        with io.create_connection(listener.getsockname()) as client:
            client.sendall(b"wrong")
            witnesses.handles(serving.join, ExceptionGroup)


@path
def connections_that_are_refused(witnesses):
    with standard.socket() as closed:
        closed.bind((LOCALHOST[0], 0))
        address = closed.getsockname()
        witnesses.handles(lambda: io.create_connection(address), ConnectionError)
        witnesses.handles(lambda: io.create_connection(address, all_errors=True), ExceptionGroup)


@path
def a_connection_that_is_given_up_after_one_was_refused(witnesses):
    def connects(address):
        local = witnesses("the frame that called")
        io.create_connection(("name", 80))
        del local

    with standard.socket() as closed, pytest.MonkeyPatch.context() as patch:
        closed.bind((LOCALHOST[0], 0))
        refused = (standard.AF_INET, standard.SOCK_STREAM, 0, "", closed.getsockname())
        strange = (standard.AF_INET, "no number", 0, "", closed.getsockname())
        patch.setattr("roamlet.io._sockets.getaddrinfo", lambda *_: [refused, strange])
        witnesses.handles(lambda: connects(closed), TypeError)


@path
def sockets_that_fail(witnesses):
    first, second = io.socketpair()
    with first, second:
        first.settimeout(0.0001)
        witnesses.handles(lambda: first.recv(1), TimeoutError)
        first.settimeout(None)
        waiting = started(lambda: witnesses.handles(lambda: first.recv(1)))
        waiting.throw(ValueError, "thrown")
        second.close()
        witnesses.handles(lambda: [first.sendall(b"x" * 1000) for _ in range(9)], ConnectionError)
    witnesses.handles(lambda: first.recv(1), OSError)
    witnesses.judge()


@path
def a_descriptor_that_is_closed_while_it_is_waited_for(witnesses):
    end, pipe = io.pipe()
    with pipe:
        waiting = started(lambda: witnesses.handles(lambda: end.read(1), (OSError, ValueError)))
        end.close()
        roamlet.run()
        witnesses.judge()
        assert not waiting.alive


@path
def names_that_do_not_resolve(witnesses):
    witnesses.handles(lambda: io.getaddrinfo("no such name", 80), standard.gaierror)


@path
def files_that_fail(witnesses):
    witnesses.handles(lambda: io.open("/no/such/file"), FileNotFoundError)
    with io.open("/dev/null") as file:
        witnesses.handles(lambda: file.write("x"), OSError)
        wait_until(all_rest)
        witnesses.judge()


@path
def processes_that_fail(witnesses):
    witnesses.handles(lambda: io.subprocess.run(["/no/such/program"]), FileNotFoundError)
    witnesses.handles(
        lambda: io.subprocess.run(["sleep", "60"], timeout=0.01, capture_output=True), io.subprocess.TimeoutExpired
    )
    witnesses.handles(lambda: io.subprocess.run(["false"], check=True), io.subprocess.CalledProcessError)

    def fails():
        with io.subprocess.Popen(["sleep", "60"]) as process:
            try:
                witnesses.fails(process)
            finally:
                process.kill()

    witnesses.handles(fails)


@path
def a_process_that_reads_nothing_and_is_given_up(witnesses):
    def runs():
        local = witnesses("the frame that waits")
        with io.subprocess.Popen(
            ["sh", "-c", "exec <&-; echo; exec sleep 60"], stdin=io.subprocess.PIPE, stdout=io.subprocess.PIPE
        ) as process:
            process.stdout.readline()
            process.stdin.write(b"nobody reads this")
            witnesses.seen.append(local.name)

    waiting = started(lambda: witnesses.handles(runs))
    while not witnesses.seen:
        roamlet.schedule()
    waiting.throw(ValueError, "thrown")
    roamlet.run()
    witnesses.judge()
    assert not waiting.alive


@path
def a_handshake_that_fails(witnesses):
    first, second = io.socketpair()
    with first, second:
        context = ssl.create_default_context()
        second.sendall(b"this is no TLS\r\n")
        witnesses.handles(lambda: tls.wrap(first, context, server_hostname="localhost"), ssl.SSLError)


@path
def a_body_of_responsive_that_fails(witnesses):
    def fails():
        with roamlet.responsive():
            witnesses.fails()

    witnesses.handles(fails)


@pytest.mark.parametrize("name", PATHS)
def test_a_local_of_the_frame_that_raised_dies_when_the_exception_was_handled(name, witnesses):
    PATHS[name](witnesses)
    wait_until(all_rest)
    witnesses.judge()


@pytest.mark.parametrize("jobs", [1, 5])
def test_workers_that_rest_hold_nothing_of_what_failed_in_them(jobs, witnesses):
    for _ in range(jobs):
        roamlet.tasklet(witnesses.handles)(
            lambda: roamlet.call_async(lambda: witnesses.fails(witnesses("an argument")))
        )
    roamlet.run()
    wait_until(all_rest)
    assert workers.status().threads >= 1
    witnesses.judge()
