"""The applications of docs/howto/serve-wsgi-on-tasklets.md, served as that page says."""

import json
import signal
import sqlite3
from http.client import HTTPResponse

import pytest

from tests.docs.blocks import ROOT, scripts
from tests.test_gunicorn import Gunicorn, request

PAGE = ROOT / "docs/howto/serve-wsgi-on-tasklets.md"


@pytest.fixture
def served(tmp_path):
    """The names of the page's applications, in a folder where each is a module; a server for one of them."""
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE product (number, name)")
        database.execute("INSERT INTO product VALUES (7, 'a spoon')")
    database.close()
    for script in scripts(PAGE):
        name = script.text.splitlines()[0].removeprefix("# ")
        (tmp_path / name).write_text(script.text)
    running = []

    def start(app, *options):
        running.append(Gunicorn(tmp_path, *options, app=app))
        return running[-1]

    yield start
    for each in running:
        if each.process.returncode is None:
            each.process.kill()
            with each.process:
                pass


@pytest.mark.parametrize(
    ("app", "answer"), [("app:app", {"name": "a spoon"}), ("site_in_a_file:app", {"name": "a spoon"})]
)
def test_an_application_of_the_page_is_served(served, app, answer):
    server = served(app)
    connections = [server.connect() for _ in range(10)]
    for connection in connections:
        connection.sendall(request("/product/7"))
    for connection in connections:
        with connection, HTTPResponse(connection) as response:
            response.begin()
            assert (response.status, json.loads(response.read())) == (200, answer)
    assert "Traceback" not in server.end()


def test_the_connection_that_the_page_takes_over(served):
    server = served("upper:app")
    with server.connect() as connection:
        connection.sendall(request("/", "Connection: Upgrade", "Upgrade: upper"))
        assert connection.recv(1000).startswith(b"HTTP/1.1 101 ")
        connection.sendall(b"abc")
        assert connection.recv(100) == b"ABC"
    assert "Traceback" not in server.end()


def test_the_websockets_of_the_page(served):
    simple_websocket = pytest.importorskip("simple_websocket")
    server = served("chat:app", "-k", "worker.Worker")
    url = "ws://{}:{}/".format(*server.addresses[0])
    clients = [simple_websocket.Client(url) for _ in range(3)]
    for number in range(2):
        clients[0].send(f"hello {number}")
        assert [client.receive(timeout=30) for client in clients] == [f"hello {number}"] * 3
    clients[0].close()
    clients[1].send("hello again")
    assert [client.receive(timeout=30) for client in clients[1:]] == ["hello again"] * 2
    server.process.send_signal(signal.SIGINT)  # while two are open
    server.process.wait(30)
    assert "Traceback" not in server.end()
    for client in clients[1:]:
        with pytest.raises(simple_websocket.ConnectionClosed):
            client.receive(timeout=30)
    for client in clients:
        client.thread.join()


def test_the_server_inside_a_program(python):
    (script,) = [each for each in scripts(PAGE) if each.text.startswith("# inside.py")]
    done = python("-W", "error", "-c", script.text)
    assert (done.returncode, done.stdout) == (0, script.prints)
    assert "Traceback" not in done.stderr


def test_each_tasklet_has_a_database_connection_of_djangos_for_itself(python):
    source = """
from roamlet import patch
patch.install(local=True)
import roamlet
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
from django.db import connections
def own():
    with connections["default"].cursor():
        roamlet.sleep(0.001)
        return connections["default"], connections["default"]
(a, b), (c, d) = [each.join() for each in [roamlet.spawn(own), roamlet.spawn(own)]]
print(a is b, c is d, a is not c)
for each in a, c:
    each.close()
"""
    done = python("-W", "error", "-c", source)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True True\n", "")
