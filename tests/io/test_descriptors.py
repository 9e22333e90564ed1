"""Waiting for descriptors, reading, writing and closing them, one tasklet at a time blocked and no other."""

import errno
import os
import re
import socket
import threading
import time

import pytest

import roamlet
from roamlet import io
from roamlet.testing import run_until_blocked


def attempt(log, name, function, *args, **kwargs):
    """Call `function`, and note what came of it as plain data."""
    try:
        log.append((name, function(*args, **kwargs)))
    except roamlet.TaskletExit:
        log.append((name, "killed"))
        raise
    except Exception as error:
        log.append((name, type(error).__name__))


def test_wait_readable_wakes_when_data_comes(pipe):
    log = []
    tasklet = roamlet.tasklet(attempt)(log, "read", io.wait_readable, pipe[0])
    run_until_blocked()
    assert (log, tasklet.blocked) == ([], True)
    os.write(pipe[1], b"x")
    roamlet.run()
    assert log == [("read", None)]


def test_wait_readable_returns_at_once_when_data_is_there(pipe):
    os.write(pipe[1], b"x")
    assert io.wait_readable(pipe[0]) is None


def test_wait_readable_wakes_at_the_end(pipe):
    log = []
    roamlet.tasklet(attempt)(log, "read", io.read, pipe[0], 10)
    run_until_blocked()
    os.close(pipe[1])
    roamlet.run()
    assert log == [("read", b"")]


def test_wait_writable_wakes_when_there_is_room(pipe):
    log = []
    while True:
        try:
            os.write(pipe[1], b"x" * 65536)
        except BlockingIOError:
            break
    roamlet.tasklet(attempt)(log, "write", io.wait_writable, pipe[1])
    run_until_blocked()
    roamlet.sleep(0)
    assert log == []
    os.read(pipe[0], 1 << 20)
    roamlet.run()
    assert log == [("write", None)]


def test_wait_writable_wakes_when_nobody_reads_any_more(pipe):
    log = []
    while True:
        try:
            os.write(pipe[1], b"x" * 65536)
        except BlockingIOError:
            break
    roamlet.tasklet(attempt)(log, "write", io.write, pipe[1], b"y")
    run_until_blocked()
    os.close(pipe[0])
    roamlet.run()
    assert log == [("write", "BrokenPipeError")]


def test_other_tasklets_run_while_one_reads(pipe):
    log = []

    def reader():
        log.append(io.read(pipe[0], 100))

    def writer():
        for number in range(3):
            log.append(number)
            roamlet.schedule()
        os.write(pipe[1], b"data")

    roamlet.tasklet(reader)()
    roamlet.tasklet(writer)()
    roamlet.run()
    assert log == [0, 1, 2, b"data"]


def test_main_can_wait_too(pipe):
    roamlet.tasklet(os.write)(pipe[1], b"for main")
    assert io.read(pipe[0], 100) == b"for main"


def test_read_gives_what_is_there_up_to_the_size(pipe):
    os.write(pipe[1], b"abcdef")
    assert [io.read(pipe[0], 4), io.read(pipe[0], 4)] == [b"abcd", b"ef"]


@pytest.mark.parametrize("blocking", [False, True])
def test_a_large_write_arrives_complete(pipe, blocking):
    for fd in pipe:
        os.set_blocking(fd, blocking)
    data = bytes(range(256)) * 4096
    received = bytearray()

    def reader():
        while len(received) < len(data):
            received.extend(io.read(pipe[0], 30_000))

    roamlet.tasklet(reader)()
    assert io.write(pipe[1], data) == len(data)
    roamlet.run()
    assert received == data


@pytest.mark.parametrize("data", [bytearray(b"abc"), memoryview(b"xabcx")[1:4], memoryview(b"abc").cast("c")])
def test_write_takes_what_has_bytes(pipe, data):
    assert io.write(pipe[1], data) == 3
    assert os.read(pipe[0], 10) == b"abc"


def test_write_of_nothing_returns_zero(pipe):
    assert io.write(pipe[1], b"") == 0


def test_both_directions_of_a_socket_are_waited_for_separately(sockets):
    first, second = sockets
    log = []
    while True:
        try:
            first.send(b"x" * 65536)
        except BlockingIOError:
            break
    roamlet.tasklet(attempt)(log, "write", io.wait_writable, first.fileno())
    roamlet.tasklet(attempt)(log, "read", io.wait_readable, first.fileno())
    run_until_blocked()
    roamlet.sleep(0)
    assert log == []
    second.send(b"back")
    while not log:
        roamlet.sleep(0.001)
    assert log == [("read", None)]
    while True:
        try:
            second.recv(1 << 20)
        except BlockingIOError:
            break
    roamlet.run()
    assert log == [("read", None), ("write", None)]


def test_echo_over_a_listening_socket():
    log = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)

        def serve(count):
            for _ in range(count):
                io.wait_readable(server.fileno())
                connection, _ = server.accept()
                connection.setblocking(False)
                roamlet.tasklet(echo)(connection)

        def echo(connection):
            with connection:
                while data := io.read(connection.fileno(), 1000):
                    io.write(connection.fileno(), data)

        def client(number):
            with socket.socket() as connection:
                connection.setblocking(False)
                connection.connect_ex(server.getsockname())
                io.wait_writable(connection.fileno())
                assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
                message = b"%d" % number * 1000
                io.write(connection.fileno(), message)
                connection.shutdown(socket.SHUT_WR)
                received = b""
                while data := io.read(connection.fileno(), 777):
                    received += data
                log.append(received == message)

        roamlet.tasklet(serve)(20)
        for number in range(20):
            roamlet.tasklet(client)(number)
        roamlet.run()
    assert log == [True] * 20


def test_a_refused_connection_wakes_the_writer():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = unused.getsockname()
        with socket.socket() as connection:
            connection.setblocking(False)
            connection.connect_ex(address)
            io.wait_writable(connection.fileno(), timeout=10)
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED


def test_a_regular_file_is_always_ready(tmp_path):
    path = tmp_path / "file"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        assert io.write(fd, b"content") == 7
        os.lseek(fd, 0, os.SEEK_SET)
        assert io.wait_readable(fd) is None
        assert io.wait_writable(fd, timeout=0) is None
        assert [io.read(fd, 100), io.read(fd, 100)] == [b"content", b""]
    finally:
        os.close(fd)


# ---- several who wait for one descriptor ----


def test_several_readers_of_one_descriptor_each_get_their_part(pipe):
    log = []
    for name in "abc":
        roamlet.tasklet(attempt)(log, name, io.read, pipe[0], 1)
    run_until_blocked()
    for part in (b"1", b"2", b"3"):
        os.write(pipe[1], part)
        roamlet.sleep(0.001)
    roamlet.run()
    names, parts = zip(*log, strict=True)
    assert (sorted(names), sorted(parts)) == (["a", "b", "c"], [b"1", b"2", b"3"])


def test_several_readers_of_a_blocking_descriptor_do_not_block_the_thread(pipe):
    os.set_blocking(pipe[0], True)
    log = []
    tasklets = [roamlet.tasklet(attempt)(log, name, io.read, pipe[0], 10) for name in "ab"]
    run_until_blocked()
    os.write(pipe[1], b"for one")
    # A second reader that believed it had been woken for data would now block everything: break that off from outside.
    rescue = threading.Timer(5, os.write, (pipe[1], b"rescue"))
    rescue.start()
    while not log:
        roamlet.sleep(0.001)
    roamlet.sleep(0.01)
    rescue.cancel()
    rescue.join()
    assert [data for _, data in log] == [b"for one"]
    os.write(pipe[1], b"for two")
    roamlet.run()
    assert [data for _, data in log] == [b"for one", b"for two"]  # who comes first is not promised
    assert sorted(name for name, _ in log) == ["a", "b"]
    assert not any(tasklet.alive for tasklet in tasklets)


def test_several_writers_of_a_blocking_descriptor_do_not_block_the_thread(pipe):
    os.set_blocking(pipe[1], False)
    while True:
        try:
            os.write(pipe[1], b"x" * 4096)
        except BlockingIOError:
            break
    os.set_blocking(pipe[1], True)
    log = []
    for name in "ab":
        roamlet.tasklet(attempt)(log, name, io.write, pipe[1], name.encode() * 4096)
    run_until_blocked()
    rescue = threading.Timer(5, os.read, (pipe[0], 1 << 20))
    rescue.start()
    os.read(pipe[0], 4096)
    while not log:
        roamlet.sleep(0.001)
    roamlet.sleep(0.01)
    rescued = not rescue.is_alive()
    rescue.cancel()
    rescue.join()
    assert ([size for _, size in log], rescued) == ([4096], False)
    os.read(pipe[0], 1 << 20)
    roamlet.run()
    assert sorted(log) == [("a", 4096), ("b", 4096)]


def test_a_killed_waiter_leaves_the_others(pipe):
    log = []
    tasklets = {name: roamlet.tasklet(attempt)(log, name, io.wait_readable, pipe[0]) for name in "abc"}
    run_until_blocked()
    tasklets["b"].kill()
    os.write(pipe[1], b"x")
    roamlet.run()
    assert sorted(log) == [("a", None), ("b", "killed"), ("c", None)]


def test_the_same_descriptor_can_be_waited_for_again_and_again(pipe):
    for number in range(200):
        os.write(pipe[1], b"%d" % number)
        assert io.read(pipe[0], 10) == b"%d" % number


# ---- time-outs ----


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_wait_times_out_and_can_be_tried_again(pipe, timeout):
    for _ in range(2):
        with pytest.raises(TimeoutError):
            io.wait_readable(pipe[0], timeout=timeout)
    os.write(pipe[1], b"x")
    io.wait_readable(pipe[0], timeout=timeout + 5)
    assert os.read(pipe[0], 10) == b"x"


def test_read_and_write_take_a_time_out(pipe):
    with pytest.raises(TimeoutError):
        io.read(pipe[0], 10, timeout=0.01)
    with pytest.raises(TimeoutError):
        io.write(pipe[1], b"x" * 10_000_000, timeout=0.01)


def test_one_of_several_waiters_may_time_out(pipe):
    log = []
    roamlet.tasklet(attempt)(log, "limited", io.wait_readable, pipe[0], timeout=0.01)
    roamlet.tasklet(attempt)(log, "patient", io.wait_readable, pipe[0])
    while not log:
        roamlet.sleep(0.001)
    os.write(pipe[1], b"x")
    roamlet.run()
    assert log == [("limited", "TimeoutError"), ("patient", None)]


# ---- closing ----


@pytest.mark.parametrize("end", [0, 1])
def test_close_wakes_who_waits_with_an_error(pipe, end):
    log = []
    wait = (io.wait_readable, io.wait_writable)[end]
    if end == 1:
        with pytest.raises(TimeoutError):
            io.write(pipe[1], b"x" * 10_000_000, timeout=0)
    for name in "ab":
        roamlet.tasklet(attempt)(log, name, wait, pipe[end])
    run_until_blocked()
    io.close(pipe[end])
    roamlet.run()
    assert sorted(log) == [("a", "OSError"), ("b", "OSError")]


def test_the_error_of_close_names_the_descriptor(pipe):
    texts = []

    def reader():
        try:
            io.wait_readable(pipe[0])
        except OSError as error:
            texts.append((error.errno, str(error)))

    roamlet.tasklet(reader)()
    run_until_blocked()
    io.close(pipe[0])
    roamlet.run()
    assert texts[0][0] == errno.EBADF
    assert f"descriptor {pipe[0]} was closed while a tasklet waited for it" in texts[0][1]


def test_close_of_what_nobody_waits_for_closes_it(pipe):
    io.close(pipe[0])
    with pytest.raises(BrokenPipeError):
        os.write(pipe[1], b"x")


def test_a_number_used_again_after_close_belongs_to_the_new_file(pipe):
    with pytest.raises(TimeoutError):
        io.wait_readable(pipe[0], timeout=0)
    io.close(pipe[0])
    again, other = os.pipe()
    assert again == pipe[0]
    try:
        os.write(other, b"new")
        assert io.read(again, 10) == b"new"
    finally:
        io.close(again)
        os.close(other)


def test_a_number_used_again_after_a_close_behind_our_back(pipe):
    """os.close() while a tasklet waits: the kernel forgets the descriptor, and the next waiting tasklet must not suffer."""
    log = []
    stuck = roamlet.tasklet(attempt)(log, "stuck", io.wait_readable, pipe[0])
    run_until_blocked()
    os.close(pipe[0])
    again, other = os.pipe()
    assert again == pipe[0]
    try:
        roamlet.tasklet(attempt)(log, "new", io.wait_readable, again)
        run_until_blocked()
        os.write(other, b"x")
        deadline = time.monotonic() + 5
        while ("new", None) not in log and time.monotonic() < deadline:
            roamlet.sleep(0.001)
        assert ("new", None) in log
    finally:
        stuck.kill()
        os.close(again)
        os.close(other)


def test_waiting_again_after_a_duplicate_kept_the_old_file_open(pipe):
    log = []
    stuck = roamlet.tasklet(attempt)(log, "stuck", io.wait_readable, pipe[0])
    run_until_blocked()
    duplicate = os.dup(pipe[0])
    os.close(pipe[0])
    stuck.kill()
    again, other = os.pipe()
    assert again == pipe[0]
    try:
        os.write(other, b"new")
        assert io.read(again, 10, timeout=5) == b"new"
        os.write(pipe[1], b"for the duplicate")
        assert io.read(duplicate, 100, timeout=5) == b"for the duplicate"
    finally:
        for fd in (duplicate, again, other):
            os.close(fd)


# ---- fairness, run, deadlock ----


def test_a_loop_of_schedule_starves_no_descriptor(pipe):
    log = []
    roamlet.tasklet(attempt)(log, "read", io.read, pipe[0], 10)
    run_until_blocked()
    os.write(pipe[1], b"x")
    start = time.monotonic()
    while not log and time.monotonic() - start < 10:
        roamlet.schedule()
    assert log == [("read", b"x")]


def test_ping_pong_over_a_channel_starves_no_descriptor(pipe):
    channel, log = roamlet.channel(), []

    def pong():
        for _ in channel:
            pass

    tasklet = roamlet.tasklet(pong)()
    roamlet.tasklet(attempt)(log, "read", io.read, pipe[0], 10)
    run_until_blocked()
    os.write(pipe[1], b"x")
    start = time.monotonic()
    while not log and time.monotonic() - start < 10:
        channel.send(None)
    tasklet.kill()
    assert log == [("read", b"x")]


def test_run_waits_for_descriptors_but_not_for_daemon_waits(pipe):
    log = []
    daemon = roamlet.tasklet(attempt)(log, "daemon", io.wait_readable, pipe[0], daemon=True)
    roamlet.run()
    assert daemon.blocked
    roamlet.tasklet(attempt)(log, "reader", io.wait_readable, pipe[0])
    run_until_blocked()
    threading.Timer(0.02, os.write, (pipe[1], b"x")).start()
    roamlet.run()
    assert sorted(log) == [("daemon", None), ("reader", None)]


def test_a_daemon_wait_hides_no_deadlock(pipe):
    daemon = roamlet.tasklet(attempt)([], "daemon", io.wait_readable, pipe[0], daemon=True)
    with pytest.raises(roamlet.Deadlock, match="blocked in wait"):
        roamlet.channel().receive()
    daemon.kill()


def test_a_descriptor_keeps_main_from_a_deadlock(pipe):
    channel = roamlet.channel()

    def reader():
        channel.send(io.read(pipe[0], 10))

    roamlet.tasklet(reader)()
    threading.Timer(0.02, os.write, (pipe[1], b"x")).start()
    assert channel.receive() == b"x"
    roamlet.run()


def test_another_thread_wakes_a_sleeping_hub(pipe):
    channel, log = roamlet.channel(), []
    waiting = roamlet.tasklet(attempt)(log, "read", io.wait_readable, pipe[0])
    run_until_blocked()
    thread = threading.Timer(0.02, channel.send, ("woken",))
    thread.start()
    assert channel.receive() == "woken"
    thread.join()
    waiting.kill()


def test_each_thread_waits_for_descriptors_of_its_own(pipe):
    log = []

    def other():
        read_end, write_end = os.pipe()
        roamlet.tasklet(os.write)(write_end, b"y")
        log.append(io.read(read_end, 10))
        log.append(io.read(pipe[0], 10))
        os.close(read_end)
        os.close(write_end)

    thread = threading.Thread(target=other)
    thread.start()
    os.write(pipe[1], b"x")
    thread.join()
    assert log == [b"y", b"x"]


def test_a_thread_that_ends_closes_its_hub_and_ends_who_waits_there(pipe):
    log = []

    def other():
        roamlet.tasklet(attempt)(log, "waits", io.wait_readable, pipe[0])
        roamlet.schedule()

    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert log == [("waits", "killed")] * 5
    assert len(os.listdir("/proc/self/fd")) == before


def test_io_in_a_finally_block_at_the_end_of_a_thread(pipe):
    log = []

    def other():
        def function():
            try:
                roamlet.schedule_remove()
            finally:
                os.write(pipe[1], b"bye")
                log.append(io.read(pipe[0], 10))

        kept.append(roamlet.tasklet(function)())
        roamlet.schedule()

    kept = []
    before = len(os.listdir("/proc/self/fd"))
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert log in ([b"bye"], [])
    assert len(os.listdir("/proc/self/fd")) == before


# ---- bad input ----


@pytest.mark.parametrize("bad", ["0", None, 1.5, b"1", object])
def test_what_is_no_number_is_refused(bad):
    for wait in (io.wait_readable, io.wait_writable):
        with pytest.raises(TypeError, match=r"expected a file descriptor's number, not .*: pass its fileno\(\)"):
            wait(bad)


def test_an_object_with_a_fileno_is_refused_with_advice(sockets):
    with pytest.raises(TypeError, match=re.escape("pass its fileno()")):
        io.wait_readable(sockets[0])


def test_the_number_of_a_closed_socket_is_refused():
    closed = socket.socket()
    closed.close()
    for wait in (io.wait_readable, io.wait_writable):
        with pytest.raises(ValueError, match="-1 is no file descriptor: is what it belonged to closed"):
            wait(closed.fileno())


def test_a_number_that_is_not_open_raises_os_error():
    for call in (
        lambda: io.wait_readable(999_999),
        lambda: io.read(999_999, 1),
        lambda: io.write(999_999, b"x"),
        lambda: io.close(999_999),
    ):
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
            call()


@pytest.mark.parametrize("bad", [-1, float("nan")])
def test_a_time_out_below_zero_is_refused_and_leaves_nothing_behind(pipe, bad):
    with pytest.raises(ValueError, match="a number of seconds from 0 on"):
        io.wait_readable(pipe[0], timeout=bad)
    with pytest.raises(TypeError, match="takes a number of seconds"):
        io.wait_readable(pipe[0], timeout="soon")
    os.write(pipe[1], b"x")
    assert io.read(pipe[0], 10) == b"x"


def test_write_refuses_what_has_no_bytes(pipe):
    for bad in ("text", 5, None, ["x"]):
        with pytest.raises(TypeError):
            io.write(pipe[1], bad)


def test_read_of_a_descriptor_for_writing_raises_os_error(pipe):
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        io.read(pipe[1], 10, timeout=1)
