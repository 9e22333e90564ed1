"""Streams: what one tasklet waits for blocks no other, bytes arrive complete, and ends and resets are told."""

import os
import socket as standard
import struct
import threading
from io import BytesIO

import pytest

import roamlet
from roamlet import io
from roamlet.testing import run_until_blocked
from tests.io._sockets import LOCALHOST, fill, receive_all
from tests.io.test_descriptors import attempt


def test_others_run_while_one_receives(pair):
    log = []

    def reader():
        log.append(pair[0].recv(100))

    def writer():
        for number in range(3):
            log.append(number)
            roamlet.schedule()
        pair[1].send(b"data")

    roamlet.tasklet(reader)()
    roamlet.tasklet(writer)()
    roamlet.run()
    assert log == [0, 1, 2, b"data"]


def test_an_echo_server_with_many_connections(listener):
    log = []

    def serve(count):
        for _ in range(count):
            connection, _ = listener.accept()
            roamlet.tasklet(echo)(connection)

    def echo(connection):
        with connection:
            while data := connection.recv(1000):
                connection.sendall(data)

    def client(number):
        with io.create_connection(listener.getsockname()) as connection:
            message = b"%d " % number * 20_000
            roamlet.tasklet(connection.sendall)(message)
            received = b""
            while len(received) < len(message):
                received += connection.recv(777)
            log.append(received == message)

    roamlet.tasklet(serve)(20)
    for number in range(20):
        roamlet.tasklet(client)(number)
    roamlet.run()
    assert log == [True] * 20


def test_a_large_sendall_arrives_complete(pair):
    data = bytes(range(256)) * 20_000
    got = []

    def reader():
        got.append(receive_all(pair[0]))

    roamlet.tasklet(reader)()
    pair[1].sendall(memoryview(data))
    pair[1].shutdown(standard.SHUT_WR)
    roamlet.run()
    assert got == [data]


def test_send_and_recv_take_a_limited_part_of_a_stream_at_once(pair):
    assert 0 < pair[0].send(b"x" * 10_000_000) <= 1 << 18
    assert 0 < len(pair[1].recv(10_000_000)) <= 1 << 16


def test_half_a_close_lets_the_other_direction_go_on(pair):
    pair[0].sendall(b"question")
    pair[0].shutdown(standard.SHUT_WR)
    assert receive_all(pair[1]) == b"question"
    pair[1].sendall(b"answer")
    pair[1].close()
    assert receive_all(pair[0]) == b"answer"
    assert pair[0].recv(10) == b""


def test_data_and_the_end_that_come_together_are_both_seen(pair):
    """Less than was asked for does not say that nothing more will come."""
    log = []

    def reader():
        while data := pair[0].recv(100):
            log.append(data)
        log.append("end")

    roamlet.tasklet(reader)()
    run_until_blocked()
    pair[1].send(b"last")
    pair[1].close()
    roamlet.run()
    assert log == [b"last", "end"]


def test_data_that_comes_between_two_receives_is_not_missed(pair):
    log = []

    def reader():
        for _ in range(3):
            log.append(pair[0].recv(100))

    roamlet.tasklet(reader)()
    for number in range(3):
        run_until_blocked()
        pair[1].send(b"%d" % number)
        while len(log) <= number:
            roamlet.sleep(0.0001)
    assert log == [b"0", b"1", b"2"]


def test_a_reset_is_an_error_for_who_receives(listener):
    log = []
    with io.create_connection(listener.getsockname()) as client:
        accepted, _ = listener.accept()
        roamlet.tasklet(attempt)(log, "recv", client.recv, 10)
        run_until_blocked()
        accepted.setsockopt(standard.SOL_SOCKET, standard.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        roamlet.run()
        assert log == [("recv", "ConnectionResetError")]


def test_who_waits_for_room_learns_that_nobody_reads_any_more(pair):
    log = []
    fill(pair[0])
    roamlet.tasklet(attempt)(log, "send", pair[0].sendall, b"more")
    run_until_blocked()
    pair[1].close()
    roamlet.run()
    assert log == [("send", "BrokenPipeError")]


def test_a_full_buffer_blocks_the_sender_until_it_is_read(pair):
    log = []
    filled = fill(pair[0])
    roamlet.tasklet(attempt)(log, "send", pair[0].sendall, b"more")
    run_until_blocked()
    roamlet.sleep(0)
    assert log == []
    data = b""
    while len(data) < filled + 4:
        data += pair[1].recv(1 << 20)
    roamlet.run()
    assert (log, data[-4:]) == ([("send", None)], b"more")


def test_waiting_for_all_of_a_size(pair):
    roamlet.tasklet(lambda: [(pair[1].send(b"x" * 70_000), roamlet.schedule()) for _ in range(3)])()
    assert pair[0].recv(200_000, standard.MSG_WAITALL) == b"x" * 200_000
    assert pair[0].recv(50_000) == b"x" * 10_000
    pair[1].send(b"rest")
    pair[1].close()
    assert pair[0].recv(100, standard.MSG_WAITALL) == b"rest"


def test_peeking_takes_nothing(pair):
    pair[1].send(b"data")
    assert [pair[0].recv(2, standard.MSG_PEEK), pair[0].recv(9, standard.MSG_PEEK), pair[0].recv(9)] == [
        b"da",
        b"data",
        b"data",
    ]


def test_urgent_data_does_not_hide_what_follows(listener):
    with io.create_connection(listener.getsockname()) as client:
        accepted, _ = listener.accept()
        with accepted:
            log = []

            def reader():
                while data := accepted.recv(100):
                    log.append(data)

            tasklet = roamlet.tasklet(reader)()
            roamlet.schedule()
            client.send(b"one")
            client.send(b"!", standard.MSG_OOB)
            client.send(b"two")
            client.shutdown(standard.SHUT_WR)
            while tasklet.alive:
                roamlet.sleep(0.001)
            assert b"".join(log) == b"onetwo"


def test_receiving_into_a_buffer(pair):
    buffer = bytearray(10)
    pair[1].send(b"abcdef")
    assert pair[0].recv_into(buffer, 2) == 2
    assert pair[0].recv_into(memoryview(buffer)[2:]) == 4
    assert buffer[:6] == b"abcdef"
    with pytest.raises(ValueError, match="nbytes is greater than the length of the buffer"):
        pair[0].recv_into(buffer, 11)
    with pytest.raises(TypeError):
        pair[0].recv_into(b"constant")


def test_files_on_a_socket(pair):
    log = []

    def reader():
        with pair[0].makefile("rb") as file:
            log.extend(file)

    roamlet.tasklet(reader)()
    with pair[1].makefile("w") as file:
        file.write("first\nsecond\n")
        file.flush()
        roamlet.schedule()
        file.write("third\n")
    pair[1].close()
    roamlet.run()
    assert log == [b"first\n", b"second\n", b"third\n"]


def test_sendfile_sends_a_file_and_what_is_no_file(pair, tmp_path):
    content = bytes(range(256)) * 10_000
    path = tmp_path / "file"
    path.write_bytes(content)
    got = []
    roamlet.tasklet(lambda: got.append(receive_all(pair[0])))()
    with open(path, "rb") as file:
        assert pair[1].sendfile(file, offset=10, count=2_000_000) == 2_000_000
        assert file.tell() == 2_000_010
        assert pair[1].sendfile(file, offset=2_000_010) == len(content) - 2_000_010
    assert pair[1].sendfile(BytesIO(b"from memory")) == 11
    pair[1].close()
    roamlet.run()
    assert got == [content[10:] + b"from memory"]


def test_messages_with_descriptors(pair):
    log = []
    roamlet.tasklet(lambda: log.append(standard.recv_fds(pair[0], 10, 1)))()
    run_until_blocked()
    read_end, write_end = os.pipe()
    standard.send_fds(pair[1], [b"here"], [write_end])
    roamlet.run()
    (data, fds, _, _) = log[0]
    os.write(fds[0], b"through")
    assert (data, os.read(read_end, 10)) == (b"here", b"through")
    for fd in (*fds, read_end, write_end):
        os.close(fd)


@pytest.mark.parametrize("call", ["recv", "send", "read", "wait_readable"])
def test_who_always_finds_something_to_do_starves_nobody(pair, call):
    seen, calls = [], 0

    def other():
        while len(seen) < 3:
            seen.append(calls)
            roamlet.schedule()

    roamlet.tasklet(other)()
    pair[1].send(b"x")
    with io.socket(standard.AF_INET, standard.SOCK_DGRAM) as sink, io.socket(sink.family, sink.type) as source:
        sink.bind(LOCALHOST)
        source.connect(sink.getsockname())
        once = {
            "recv": lambda: pair[0].recv(10, standard.MSG_PEEK),
            "send": lambda: source.send(b"x"),
            "read": lambda: (pair[1].send(b"x"), io.read(pair[0].fileno(), 1)),
            "wait_readable": lambda: io.wait_readable(pair[0].fileno()),
        }[call]
        while len(seen) < 3:
            calls += 1
            once()
    roamlet.run()
    assert seen[0] < seen[1] < seen[2] == calls  # the other one ran in between, again and again


def test_run_waits_for_sockets(pair):
    log = []
    roamlet.tasklet(attempt)(log, "recv", pair[0].recv, 10)
    threading.Timer(0.02, standard.socket.send, (pair[1], b"x")).start()
    roamlet.run()
    assert log == [("recv", b"x")]
