"""roamlet.gunicorn.Worker in a real gunicorn on loopback: one arbiter, one worker, raw connections."""

import http.client
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

pytest.importorskip("gunicorn")

APP = """
import os, sys, threading, time, roamlet
from gunicorn.workers.base_async import ALREADY_HANDLED

meeting, own = threading.Barrier(20), threading.local()
print("the application is loaded", file=sys.stderr, flush=True)


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def big():
    while True:
        yield b"x" * 65536


def app(environ, start_response):
    path, body = environ["PATH_INFO"], b""
    if path == "/meet":
        own.query = environ["QUERY_STRING"]
        meeting.wait()
        body = own.query.encode()
    elif path.startswith("/until/"):
        say("waiting for", path)
        while not os.path.exists(path.removeprefix("/until/")):
            time.sleep(0.01)
    elif path == "/sleep":
        time.sleep(3.5)
    elif path == "/nap":
        time.sleep(1.3)
    elif path == "/burn":
        while True:
            pass
    elif path == "/exit":
        sys.exit(3)
    elif path == "/wrong":
        raise ValueError("the application is wrong")
    elif path == "/file":
        start_response("200 OK", [("Content-Length", str(os.stat("file").st_size))])
        return environ["wsgi.file_wrapper"](open("file", "rb"))
    elif path == "/big":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return big()
    elif path == "/echo":
        body = environ["wsgi.input"].read()
    elif path == "/socket":
        taken = environ["gunicorn.socket"]
        taken.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: echo\\r\\n\\r\\n")
        while data := taken.recv(100):
            taken.sendall(data.upper())
        return ALREADY_HANDLED
    elif path == "/spawn":
        roamlet.tasklet(lambda: 1 / 0)()
        roamlet.sleep(0.001)
    elif path == "/pid":
        body = str(os.getpid()).encode()
    else:
        body = b"hello " + path.encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""

HOOKS = """
import sys


def say(*words):
    print("hook:", *words, file=sys.stderr, flush=True)


def post_worker_init(worker):
    say("post_worker_init")


def pre_request(worker, req):
    say("pre_request", req.path)


def post_request(worker, req, environ, resp):
    say("post_request", req.path, resp and resp.status)


def worker_int(worker):
    say("worker_int")


def worker_abort(worker):
    say("worker_abort")


def worker_exit(server, worker):
    say("worker_exit")
"""


class Gunicorn:
    """A gunicorn that runs in `folder`; its log is read line by line, and kept."""

    def __init__(self, folder, *options, before=("-m", "gunicorn"), app="app:app"):
        self.log = []
        self.folder = folder
        binds = [] if any(word in ("-b", "--bind") for word in options) else ["-b", "127.0.0.1:0"]
        words = [*before, "-k", "roamlet.gunicorn.Worker", *binds, *options, app]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self.process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env={**environment, "HOME": str(folder), "ROAMLET_DEADLOCK": "auto"},
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        listening = self.until(r"Listening at: (\S.*) \(\d+\)")[1]
        self.addresses = [
            (match[1], int(match[2])) if (match := re.search(r"://(.*):(\d+)$", url)) else url.removeprefix("unix:")
            for url in listening.split(",")
        ]
        self.worker = int(self.until(r"Booting worker with pid: (\d+)")[1])

    def until(self, pattern):
        """Read the log up to a line that matches; return the match."""
        for line in self.process.stderr:
            self.log.append(line)
            if match := re.search(pattern, line):
                return match
        raise AssertionError(f"no line of the log matches {pattern}:\n{''.join(self.log)}")

    def connect(self, number=0):
        address = self.addresses[number]
        if isinstance(address, tuple):
            return socket.create_connection(address, timeout=30)
        connected = socket.socket(socket.AF_UNIX)
        connected.settimeout(30)
        connected.connect(str(self.folder / address))
        return connected

    def get(self, path, **options):
        with self.connect() as connection:
            return get(connection, path, **options)

    def end(self):
        """Stop it as an operator does; return the rest of its log."""
        if self.process.poll() is None:
            self.process.terminate()
        with self.process:
            self.log += self.process.stderr
        assert self.process.returncode == 0, "".join(self.log)
        return "".join(self.log)


def request(path, *headers, method="GET"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: here", *headers, "", ""]).encode()


def get(connection, path, *headers):
    connection.sendall(request(path, *headers))
    return response(connection)


def response(connection):
    """One response with a Content-Length: (status, body)."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(1)  # and nothing of what follows
        if not chunk:
            raise ConnectionError(f"closed after {data!r}")
        data += chunk
    length = int(re.search(rb"content-length: (\d+)", data, re.IGNORECASE)[1])
    body = b""
    while len(body) < length:
        body += connection.recv(length - len(body))
    return int(data.split()[1]), body


def is_closed(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def gunicorn(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "hooks.py").write_text(HOOKS)
    (tmp_path / "file").write_bytes(b"0123456789" * 100_000)
    running = []

    def start(*options, **more):
        running.append(Gunicorn(tmp_path, *options, **more))
        return running[-1]

    yield start
    for each in running:
        if each.process.returncode is None:
            each.process.kill()
            with each.process:
                pass


def test_requests_that_wait_for_each_other_are_served_by_one_worker_with_locals_of_their_own(gunicorn):
    server = gunicorn()
    connections = [server.connect() for _ in range(20)]
    for number, connection in enumerate(connections):
        connection.sendall(request(f"/meet?{number}"))
    for number, connection in enumerate(connections):
        assert response(connection) == (200, str(number).encode())
        connection.close()
    assert "Traceback" not in server.end()


def test_what_a_connection_can_do(gunicorn):
    server = gunicorn("--access-logfile", "-", "--access-logformat", "%(r)s %(s)s %(B)s", "-c", "hooks.py")
    with server.connect() as connection:
        assert get(connection, "/one") == (200, b"hello /one")
        connection.sendall(request("/two") + request("/three"))
        assert [response(connection), response(connection)] == [(200, b"hello /two"), (200, b"hello /three")]
        assert get(connection, "/file")[1] == b"0123456789" * 100_000
        connection.sendall(request("/echo", "Content-Length: 4", "Expect: 100-continue", method="POST"))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"body")
        assert response(connection) == (200, b"body")
        assert get(connection, "/last", "Connection: close") == (200, b"hello /last")
        assert is_closed(connection)
    with server.connect() as connection:
        assert get(connection, "/wrong")[0] == 500
        assert is_closed(connection)
    assert server.get("/exit")[0] == 500
    with server.connect() as connection:
        connection.sendall(b"no HTTP at all\r\n\r\n")
        assert response(connection)[0] == 400
    with server.connect() as connection:
        connection.sendall(request("/socket", "Connection: Upgrade", "Upgrade: echo"))
        assert connection.recv(1000).startswith(b"HTTP/1.1 101 ")
        connection.sendall(b"abc")
        assert connection.recv(100) == b"ABC"
        connection.shutdown(socket.SHUT_WR)
        assert is_closed(connection)
    server.process.terminate()
    access = server.process.stdout.read().splitlines()
    log = server.end()
    assert "GET /one HTTP/1.1 200 10" in access and "POST /echo HTTP/1.1 200 4" in access
    assert "ValueError: the application is wrong" in log
    hooks = [line.removeprefix("hook: ").strip() for line in server.log if line.startswith("hook: ")]
    assert hooks[:3] == ["post_worker_init", "pre_request /one", "post_request /one 200 OK"]
    assert hooks[-1] == "worker_exit"


def test_a_client_that_goes_away_in_the_middle_ends_its_own_request_alone(gunicorn):
    server = gunicorn()
    with server.connect() as connection:
        connection.sendall(request("/big"))
        connection.recv(1000)
    with server.connect() as connection:
        connection.sendall(request("/echo", "Content-Length: 100", method="POST") + b"half")
    with server.connect() as connection:
        connection.sendall(b"GET / HT")
    assert server.get("/pid") == (200, str(server.worker).encode())
    assert "Traceback" not in server.end()


def test_connections_beyond_the_limit_wait_and_those_that_send_nothing_are_closed(gunicorn):
    server = gunicorn("--worker-connections", "3", "--keep-alive", "1")
    silent = [server.connect() for _ in range(6)]
    silent[0].sendall(b"GET / HT")
    assert server.get("/served") == (200, b"hello /served")
    for each in silent:
        with each:
            assert is_closed(each)
    server.end()


def test_without_keep_alive_a_silent_client_has_opening_seconds(gunicorn, tmp_path):
    (tmp_path / "quick.py").write_text(
        "import roamlet.gunicorn\n\n\nclass Worker(roamlet.gunicorn.Worker):\n    opening_seconds = 1.0\n"
    )
    server = gunicorn("--keep-alive", "0", "--worker-connections", "1", "-k", "quick.Worker")
    with server.connect() as silent:
        assert is_closed(silent)
    with server.connect() as connection:
        assert get(connection, "/nap") == (200, b"")  # longer than that
        assert is_closed(connection)
    assert "Traceback" not in server.end()


def test_an_http2_connection_may_last_longer_than_its_opening(gunicorn, tmp_path):
    (tmp_path / "quick.py").write_text("""\
import time, roamlet.gunicorn
from gunicorn.workers.base_async import AsyncWorker

def answer(self, listener, client, addr, *more):
    time.sleep(1.0)
    client.sendall(b"late")

AsyncWorker.handle = lambda self, *connection: self.handle_http2(*connection)
AsyncWorker.handle_http2 = answer

class Worker(roamlet.gunicorn.Worker):
    opening_seconds = 0.3
""")
    server = gunicorn("-k", "quick.Worker")
    with server.connect() as connection:
        assert connection.recv(10) == b"late"
    server.end()


def test_a_stop_lets_requests_end_and_closes_idle_connections(gunicorn, tmp_path):
    server = gunicorn("--keep-alive", "100")
    with server.connect() as idle, server.connect() as busy:
        assert get(idle, "/idle")[0] == 200
        busy.sendall(request("/until/now"))
        server.until("waiting for /until/now")
        os.kill(server.worker, signal.SIGTERM)
        assert is_closed(idle)
        (tmp_path / "now").touch()
        assert response(busy) == (200, b"")
        assert is_closed(busy)
        server.until("Worker exiting")
    assert "graceful timeout" not in server.end()


def test_requests_that_do_not_end_within_the_graceful_timeout_are_killed(gunicorn):
    server = gunicorn("--graceful-timeout", "1", "--timeout", "20")
    with server.connect() as busy:
        busy.sendall(request("/until/never"))
        server.until("waiting for /until/never")
        os.kill(server.worker, signal.SIGTERM)
        server.until("Worker graceful timeout")
        assert is_closed(busy)
        server.until("Worker exiting")
    server.end()


def test_sigquit_ends_the_worker_at_once_after_its_hook(gunicorn):
    server = gunicorn("-c", "hooks.py")
    with server.connect() as busy:
        busy.sendall(request("/until/never"))
        server.until("waiting for /until/never")
        os.kill(server.worker, signal.SIGQUIT)
        server.until("hook: worker_int")
        server.until("hook: worker_exit")
        assert is_closed(busy)
    server.end()


def test_a_reload_serves_new_requests_in_a_new_worker_while_old_ones_end(gunicorn, tmp_path):
    server = gunicorn()
    with server.connect() as busy:
        busy.sendall(request("/until/now"))
        server.until("waiting for /until/now")
        server.process.send_signal(signal.SIGHUP)
        new = server.until(r"Booting worker with pid: (\d+)")[1].encode()
        server.until("the application is loaded")
        while (pid := server.get("/pid")[1]) != new:
            assert pid == str(server.worker).encode()
        (tmp_path / "now").touch()
        assert response(busy) == (200, b"")
    log = server.end()
    assert "Traceback" not in log and "graceful timeout" not in log


def test_waiting_gives_signs_of_life_and_computing_ends_the_worker(gunicorn):
    server = gunicorn("--timeout", "3", "-c", "hooks.py")
    assert server.get("/sleep") == (200, b"")
    with server.connect() as connection, server.connect() as other:
        other.sendall(request("/until/never"))
        server.until("waiting for /until/never")
        connection.sendall(request("/burn"))
        server.until("WORKER TIMEOUT")
        server.until("hook: worker_abort")
        server.until("hook: worker_exit")
        assert is_closed(other)
    assert server.get("/pid")[1] != str(server.worker).encode()
    assert "in app\n    while True:" in server.end()  # where it was


def test_a_tasklet_of_the_application_that_fails_is_logged_and_ends_nothing(gunicorn):
    server = gunicorn()
    assert server.get("/spawn") == (200, b"")
    assert server.get("/pid") == (200, str(server.worker).encode())
    assert "A tasklet of the application has failed" in (log := server.end()) and "ZeroDivisionError" in log


def test_a_worker_without_its_arbiter_lets_requests_end_and_ends(gunicorn, tmp_path):
    server = gunicorn()
    with server.connect() as busy:
        busy.sendall(request("/until/now"))
        server.until("waiting for /until/now")
        server.process.kill()
        server.until("Parent changed, shutting down")
        (tmp_path / "now").touch()
        assert response(busy) == (200, b"")
    with server.process:
        server.until("Worker exiting")
        server.process.stderr.read()  # until the worker has closed it, too


def test_max_requests_ends_the_worker_after_its_requests(gunicorn):
    server = gunicorn("--max-requests", "2")
    assert [server.get("/pid")[1] for _ in range(2)] == [str(server.worker).encode()] * 2
    server.until("Worker exiting")
    assert server.get("/pid")[1] == server.until(r"Booting worker with pid: (\d+)")[1].encode()
    server.end()


def test_log_files_are_opened_anew(gunicorn, tmp_path):
    server = gunicorn("--access-logfile", "access", "--access-logformat", "%(U)s")
    server.get("/one")
    (tmp_path / "access").rename(tmp_path / "access.1")
    os.kill(server.worker, signal.SIGUSR1)
    while not (tmp_path / "access").exists():
        os.sched_yield()
    server.get("/two")
    server.end()
    assert (tmp_path / "access.1").read_text() == "/one\n"
    assert (tmp_path / "access").read_text() == "/two\n"


def test_tls_and_a_client_that_speaks_none(gunicorn, certificates):
    server = gunicorn("--certfile", str(certificates / "server.pem"), "--keyfile", str(certificates / "server.key"))
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    with server.connect() as plain:
        plain.sendall(request("/plain"))
        assert is_closed(plain)
    with server.connect() as silent:  # in the middle of its handshake, as long as it likes
        silent.sendall(b"\x16\x03\x01")
        with context.wrap_socket(server.connect(), server_hostname="roamlet.test") as connection:
            assert get(connection, "/one") == (200, b"hello /one")
            assert get(connection, "/file")[1] == b"0123456789" * 100_000
    assert "Traceback" not in server.end()


def test_a_connection_that_is_opened_as_the_worker_stops_is_served_its_first_request(gunicorn, certificates):
    server = gunicorn("--certfile", str(certificates / "server.pem"), "--keyfile", str(certificates / "server.key"))
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    with server.connect() as late, context.wrap_socket(server.connect(), server_hostname="roamlet.test") as idle:
        assert get(idle, "/one") == (200, b"hello /one")
        os.kill(server.worker, signal.SIGTERM)
        assert is_closed(idle)
        with context.wrap_socket(late, server_hostname="roamlet.test") as connection:
            assert get(connection, "/pid") == (200, str(server.worker).encode())
    assert "Socket error" not in server.end()


def test_hundreds_of_idle_connections_are_closed_at_a_stop(gunicorn):
    server = gunicorn("--keep-alive", "100")
    idle = [server.connect() for _ in range(400)]
    for connection in idle:
        assert get(connection, "/one")[0] == 200
    os.kill(server.worker, signal.SIGTERM)
    for connection in idle:
        with connection:
            assert is_closed(connection)
    server.until("Worker exiting")
    log = server.end()
    assert "Traceback" not in log and "graceful timeout" not in log


PATIENT = """
import os
import roamlet.gunicorn

class Worker(roamlet.gunicorn.Worker):
    last_request_seconds = {seconds}

    def handle_exit(self, sig, frame):
        super().handle_exit(sig, frame)
        os.write(2, b"the worker is to end\\n")  # sys.stderr may be in the middle of a write
"""


def test_a_stop_answers_one_more_request_of_an_idle_connection_and_closes_it(gunicorn, tmp_path):
    (tmp_path / "patient.py").write_text(PATIENT.format(seconds=60))
    server = gunicorn("-k", "patient.Worker", "--keep-alive", "100", "--graceful-timeout", "50")
    with server.connect() as idle:
        assert get(idle, "/one") == (200, b"hello /one")
        os.kill(server.worker, signal.SIGTERM)
        server.until("the worker is to end")
        assert get(idle, "/pid") == (200, str(server.worker).encode())
        assert is_closed(idle)
        server.until("Worker exiting")
    assert "Traceback" not in server.end()


def test_an_idle_connection_ends_with_its_keep_alive_after_a_stop(gunicorn, tmp_path):
    (tmp_path / "patient.py").write_text(PATIENT.format(seconds=60))
    server = gunicorn("-k", "patient.Worker", "--keep-alive", "1", "--graceful-timeout", "50")
    with server.connect() as idle:
        assert get(idle, "/one") == (200, b"hello /one")
        os.kill(server.worker, signal.SIGTERM)
        assert is_closed(idle)
    server.end()


def test_reloads_refuse_no_request_of_kept_alive_connections(gunicorn):
    """Clients that send one request after the other, and connect anew where a response says that the connection closes."""
    server, failed, done = gunicorn("--keep-alive", "30"), [], threading.Event()
    counts = [0] * 8

    def ask(number):
        client = http.client.HTTPConnection(*server.addresses[0], timeout=30)
        try:
            while not done.is_set():
                client.request("GET", "/one")
                with client.getresponse() as answer:
                    assert answer.read() == b"hello /one"
                counts[number] += 1
        except (OSError, http.client.HTTPException) as error:
            failed.append(repr(error))
        finally:
            client.close()

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(len(counts))]
    for client in clients:
        client.start()
    for _ in range(3):
        server.process.send_signal(signal.SIGHUP)
        server.until("Worker exiting")
        before = list(counts)
        while not failed and any(new < old + 5 for new, old in zip(counts, before, strict=True)):
            time.sleep(0.01)
    done.set()
    for client in clients:
        client.join()
    assert failed == []
    assert "Traceback" not in server.end()


def test_several_listeners_one_of_them_a_path(gunicorn):
    server = gunicorn("-b", "127.0.0.1:0", "-b", "unix:here", "-b", "127.0.0.1:0", "--worker-connections", "1")
    for number in range(3):
        with closing(server.connect(number)) as connection:
            assert get(connection, "/here", "Connection: close") == (200, b"hello /here")
    server.end()


def test_what_preload_imports_too_early_is_named_and_a_patched_arbiter_has_none(gunicorn, tmp_path):
    (tmp_path / "early.py").write_text("from time import sleep\nfrom app import app\n")
    server = gunicorn("--preload", app="early:app")
    server.until("Leave --preload out")
    server.until(r"early\.py:1: sleep is the original time\.sleep")
    assert server.get("/one") == (200, b"hello /one")
    server.end()
    server = gunicorn("--preload", before=("-m", "roamlet.patch", "--local", "-m", "gunicorn"), app="early:app")
    assert server.get("/one") == (200, b"hello /one")
    assert "--preload" not in server.end()


def test_an_application_that_is_loaded_in_the_worker_is_not_too_early(gunicorn, tmp_path):
    (tmp_path / "early.py").write_text("from time import sleep\nfrom app import app\n")
    server = gunicorn("--threads", "4", app="early:app")
    assert server.get("/one") == (200, b"hello /one")
    log = server.end()
    assert "original" not in log
    assert "--threads 4 is ignored" in log
