"""Sockets that are closed while somebody waits, waiters that are killed, and several who wait for one socket."""

import errno
import os
import socket as standard
import threading

import pytest

import roamlet
from roamlet import io
from roamlet.testing import run_until_blocked
from tests.io._sockets import fill
from tests.io.test_descriptors import attempt


@pytest.mark.parametrize("call", ["recv", "recv_into", "recvfrom", "recvmsg", "sendall", "accept", "connect"])
def test_closing_wakes_who_waits_with_an_error(call, listener, tmp_path):
    log, first, second = [], *io.socketpair()
    fill(first)
    sock, arguments = first, (10,)
    if call == "sendall":
        arguments = (b"x",)
    elif call == "recv_into":
        arguments = (bytearray(5),)
    elif call == "accept":
        sock, arguments = listener, ()
    elif call == "connect":
        path = str(tmp_path / "socket")
        full = io.create_server(path, family=standard.AF_UNIX, backlog=0)
        others = [io.socket(standard.AF_UNIX) for _ in range(1)]
        for other in others:
            other.connect(path)
        sock, arguments = io.socket(standard.AF_UNIX), (path,)
    for name in "ab":
        roamlet.tasklet(attempt)(log, name, getattr(sock, call), *arguments)
    run_until_blocked()
    assert log == []
    sock.close()
    roamlet.run()
    assert sorted(log) == [("a", "OSError"), ("b", "OSError")]
    first.close()
    second.close()
    if call == "connect":
        for other in (*others, full):
            other.close()


def test_the_error_of_closing_names_the_descriptor(pair):
    caught = []

    def reader():
        try:
            pair[0].recv(10)
        except OSError as error:
            caught.append((error.errno, str(error)))

    roamlet.tasklet(reader)()
    run_until_blocked()
    fd = pair[0].fileno()
    pair[0].close()
    roamlet.run()
    assert caught == [(errno.EBADF, f"[Errno 9] descriptor {fd} was closed while a tasklet waited for it")]


def test_closing_in_another_thread_wakes_who_waits_in_every_thread(pair):
    log, ready = [], threading.Barrier(4)

    def waits(name):
        def inside():
            attempt(log, name, pair[0].recv, 10)

        roamlet.tasklet(inside)()
        roamlet.schedule()
        ready.wait()
        roamlet.run()

    threads = [threading.Thread(target=waits, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    ready.wait()
    pair[0].close()
    for thread in threads:
        thread.join(30)
    assert sorted(log) == [(number, "OSError") for number in range(3)]


def test_a_closed_socket_says_so_in_every_call(pair):
    pair[0].close()
    pair[0].close()
    assert pair[0].fileno() == -1
    for call in (
        lambda: pair[0].recv(1),
        lambda: pair[0].send(b"x"),
        lambda: pair[0].sendall(b"x"),
        lambda: pair[0].recvfrom(1),
        lambda: pair[0].recvmsg(1),
        lambda: pair[0].accept(),
        lambda: pair[0].connect("/nowhere"),
        lambda: pair[0].shutdown(2),
        lambda: pair[0].sendto(b"x", "/nowhere"),
    ):
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
            call()


def test_detach_wakes_who_waits(pair):
    log = []
    roamlet.tasklet(attempt)(log, "recv", pair[0].recv, 10)
    run_until_blocked()
    fd = pair[0].detach()
    roamlet.run()
    assert log == [("recv", "OSError")]
    os.close(fd)


def test_a_number_that_is_used_again_belongs_to_the_new_socket():
    for _ in range(3):
        first, second = io.socketpair()
        with first, second:
            roamlet.tasklet(second.send)(b"data")
            assert first.recv(10) == b"data"


def test_a_number_that_was_closed_behind_our_back_serves_a_new_socket():
    first, second = io.socketpair()
    number = first.fileno()
    roamlet.tasklet(second.send)(b"data")
    assert first.recv(10) == b"data"
    os.close(number)
    others = [io.socketpair() for _ in range(2)]
    reused = [sock for pair in others for sock in pair if sock.fileno() == number]
    assert len(reused) == 1
    partner = next(pair for pair in others if reused[0] in pair)
    partner = partner[0] if partner[1] is reused[0] else partner[1]
    roamlet.tasklet(partner.send)(b"new")
    reused[0].settimeout(10)
    assert reused[0].recv(10) == b"new"
    first.detach()
    for sock in (second, *(sock for pair in others for sock in pair)):
        sock.close()


def test_killed_while_it_waits(pair, listener):
    log = []
    fill(pair[0])
    tasklets = [
        roamlet.tasklet(attempt)(log, "recv", pair[0].recv, 10),
        roamlet.tasklet(attempt)(log, "send", pair[0].sendall, b"x"),
        roamlet.tasklet(attempt)(log, "accept", listener.accept),
    ]
    run_until_blocked()
    for tasklet in tasklets:
        tasklet.kill()
    assert log == [("recv", "killed"), ("send", "killed"), ("accept", "killed")]
    pair[1].send(b"still works")
    assert pair[0].recv(100) == b"still works"


def test_several_receivers_of_one_socket_each_get_a_part(pair):
    log = []
    for name in "abc":
        roamlet.tasklet(attempt)(log, name, pair[0].recv, 1)
    run_until_blocked()
    pair[1].send(b"123")
    roamlet.run()
    assert sorted(data for _, data in log) == [b"1", b"2", b"3"]


def test_several_acceptors_of_one_listener(listener):
    log, clients = [], []

    def acceptor():
        connection, _ = listener.accept()
        log.append(connection.recv(10))
        connection.close()

    for _ in range(5):
        roamlet.tasklet(acceptor)()
    roamlet.schedule()
    for number in range(5):
        clients.append(io.create_connection(listener.getsockname()))
        clients[-1].send(b"%d" % number)
    roamlet.run()
    assert sorted(log) == [b"0", b"1", b"2", b"3", b"4"]
    for client in clients:
        client.close()


def test_a_socket_that_goes_from_thread_to_thread(pair):
    log = []

    def other():
        for _ in range(3):
            data = pair[0].recv(10)
            pair[0].sendall(data.upper())
        roamlet.run()

    def ask(number):
        pair[1].send(b"abc")
        log.append(pair[1].recv(10))

    for number in range(3):
        thread = threading.Thread(target=other)
        thread.start()
        for _ in range(3):
            ask(number)
        thread.join()
        roamlet.tasklet(pair[1].send)(b"here")
        assert pair[0].recv(10) == b"here"
    assert log == [b"ABC"] * 9


def test_tasklets_of_two_threads_wait_for_one_socket_at_once(pair):
    log, waits, go_on = [], threading.Event(), threading.Event()

    def other():
        tasklet = roamlet.tasklet(lambda: log.append(("other", pair[0].recv(1))))()
        roamlet.schedule()
        waits.set()
        roamlet.run()
        assert not tasklet.alive

    mine = roamlet.tasklet(lambda: log.append(("mine", pair[0].recv(1))))()
    run_until_blocked()
    thread = threading.Thread(target=other)
    thread.start()
    waits.wait()
    pair[1].send(b"1")
    while not log:
        roamlet.sleep(0.001)
    pair[1].send(b"2")
    roamlet.run()
    thread.join(30)
    go_on.set()
    assert sorted(name for name, _ in log) == ["mine", "other"]
    assert not mine.alive


def test_a_number_is_waited_for_while_the_socket_is_received_from(pair):
    log = []
    roamlet.tasklet(attempt)(log, "recv", pair[0].recv, 10)
    roamlet.tasklet(attempt)(log, "wait", io.wait_readable, pair[0].fileno())
    roamlet.tasklet(attempt)(log, "writable", io.wait_writable, pair[0].fileno())
    run_until_blocked()
    assert log == [("writable", None)]
    pair[1].send(b"one")
    while len(log) < 2:
        roamlet.sleep(0.001)
    pair[1].send(b"two")
    roamlet.run()
    assert min(log) == ("recv", b"one")
