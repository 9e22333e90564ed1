"""The area `libraries`: what is done to a module as soon as it is imported."""

import _thread
import importlib
import importlib.util
import socket
import sys

import pytest

import roamlet
from roamlet.patch._after_import import after_import
from roamlet.patch.areas import libraries
from tests.programs import printed


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Write modules that can be imported in the test and are forgotten after it."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(name, source):
        path = tmp_path / (name.replace(".", "/") + ".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        importlib.invalidate_caches()

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_hook_runs_at_the_import_and_the_module_is_what_it_would_be(in_place, modules):
    modules("hooked_one", "value = 1\n")
    seen, changes = [], in_place()
    after_import(changes, "hooked_one", lambda module: seen.append(module.value))
    assert seen == []
    module = importlib.import_module("hooked_one")
    assert seen == [1]
    assert type(module.__loader__).__name__ == "SourceFileLoader" and "exec_module" not in vars(module.__loader__)
    assert importlib.util.find_spec("hooked_one").origin == module.__file__
    after_import(changes, "hooked_one", lambda module: seen.append("at once"))
    assert seen == [1, "at once"]
    importlib.reload(module)
    assert seen == [1, "at once", 1]
    changes.undo()
    assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("roamlet.patch")]


def test_a_hook_for_a_module_that_is_not_there_and_one_that_was_undone(in_place, modules):
    modules("hooked_two", "")
    seen, changes = [], in_place()
    after_import(changes, "hooked_none", seen.append)
    after_import(changes, "hooked_two", seen.append)
    with pytest.raises(ModuleNotFoundError, match="hooked_none"):
        importlib.import_module("hooked_none")
    changes.undo()
    importlib.import_module("hooked_two")
    assert seen == []


def test_a_library_that_waits_in_c_is_named(in_place, modules):
    modules("pyodbc", "")
    in_place(libraries)
    with pytest.warns(
        libraries.BlockingLibraryWarning, match=r"pyodbc waits in C: each query .* roamlet.io.call_async"
    ) as caught:
        importlib.import_module("pyodbc")
    assert caught[0].filename == __file__
    assert [each.module for each in libraries.blocking_libraries()] == ["pyodbc"]


@pytest.mark.parametrize("order", [(1, 3), (3, 1)])
def test_the_warning_is_for_the_line_that_imports_it_or_installs(python, program, order):
    program("", "pyodbc.py")
    lines = {order[0]: "import pyodbc", 2: "# in between", order[1]: "roamlet.patch.install()"}
    program("import roamlet.patch\n" + "\n".join(lines[each] for each in sorted(lines)))
    done = python("program.py")
    assert "program.py:4: BlockingLibraryWarning: pyodbc waits in C" in done.stderr
    assert done.returncode == 0


ZMQ = """
class Socket:
    def recv(self): ...
class Context:
    _socket_class = Socket
    def socket(self, socket_type):
        return self._socket_class()
"""
ZMQ_ASYNCIO = """
import zmq
class Socket(zmq.Socket):
    async def recv(self): ...
class Context(zmq.Context):
    _socket_class = Socket
"""


def test_zmq_is_named_at_its_first_socket_that_blocks(in_place, modules, monkeypatch):
    modules("zmq.__init__", ZMQ)
    modules("zmq.asyncio", ZMQ_ASYNCIO)
    monkeypatch.setattr(libraries, "_begun", set())
    changes = in_place(libraries)
    zmq, with_asyncio = importlib.import_module("zmq"), importlib.import_module("zmq.asyncio")
    original = zmq.Context.socket.__wrapped__
    with_asyncio.Context().socket(1)  # a warning would be an error here
    assert libraries.blocking_libraries() == ()
    with pytest.warns(libraries.BlockingLibraryWarning, match=r"zmq waits in C: .* Use zmq\.asyncio") as caught:
        assert type(zmq.Context().socket(1)) is zmq.Socket
    assert caught[0].filename == __file__
    zmq.Context().socket(1)  # said once
    assert [each.module for each in libraries.blocking_libraries()] == ["zmq"]
    changes.undo()
    assert zmq.Context.socket is original


def test_grpc_is_named_at_its_first_channel_that_blocks(in_place, modules, monkeypatch):
    modules(
        "grpc.__init__", "def insecure_channel(target): return target\ndef secure_channel(target, credentials): ...\n"
    )
    modules("grpc.aio", "def insecure_channel(target): ...\n")
    monkeypatch.setattr(libraries, "_begun", set())
    in_place(libraries)
    grpc = importlib.import_module("grpc")
    importlib.import_module("grpc.aio").insecure_channel("a:1")
    assert libraries.blocking_libraries() == ()
    with pytest.warns(libraries.BlockingLibraryWarning, match=r"grpc waits in C: .* Use grpc\.aio") as caught:
        assert grpc.insecure_channel("a:1") == "a:1"
    assert caught[0].filename == __file__
    assert [each.module for each in libraries.blocking_libraries()] == ["grpc"]


PSYCOPG = """
WAIT_R, WAIT_W, WAIT_RW = 1, 2, 3
def wait_select(gen, fileno, {parameter}=None, timeout=None): ...
wait = wait_select
"""


def asks(sock, *states):
    """A generator as psycopg has them: it says what it waits for, and is told what is ready."""
    answers = []
    for state in states:
        ready = yield state
        answers.append(ready)
        if ready == 1:
            answers.append(sock.recv(10))
    return answers


@pytest.fixture
def psycopg(modules, request):
    modules("psycopg.__init__", "")
    modules("psycopg.errors", "class OperationalError(Exception): ...\nclass _WaitTimeout(Exception): ...\n")
    modules("psycopg.waiting", PSYCOPG.format(parameter=getattr(request, "param", "interval")))
    importlib.import_module("psycopg.errors")
    return lambda: importlib.import_module("psycopg.waiting")


def test_psycopg_waits_for_its_tasklet_alone(in_place, psycopg):
    in_place(libraries)
    waiting = psycopg()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        roamlet.tasklet(theirs.send)(b"row")
        assert waiting.wait(asks(ours, 2, 1), ours.fileno(), interval=60) == [2, 1, b"row"]
        roamlet.tasklet(theirs.send)(b"row")
        roamlet.schedule()
        assert waiting.wait(asks(ours, 3), ours.fileno(), interval=60) == [3]
        assert ours.recv(10) == b"row"
        assert waiting.wait(asks(ours, 1), ours.fileno(), interval=0) == [0]
        with pytest.raises(sys.modules["psycopg.errors"]._WaitTimeout):
            waiting.wait((1 for _ in iter(int, 1)), ours.fileno(), interval=0, timeout=0)
        number = ours.fileno()
    with pytest.raises(sys.modules["psycopg.errors"].OperationalError, match="connection socket closed"):
        waiting.wait(asks(ours, 1), number, interval=60)


@pytest.mark.parametrize("psycopg", ["other"], indirect=True)
def test_psycopg_3_1_calls_its_interval_a_time_out(in_place, psycopg):
    in_place(libraries)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        roamlet.tasklet(theirs.send)(b"row")
        assert psycopg().wait(asks(ours, 1), ours.fileno(), timeout=None) == [1, b"row"]


@pytest.mark.parametrize("psycopg", ["interval=0.0, last"], indirect=True)
def test_psycopgs_wait_refuses_an_interval_without_end_where_the_original_does(in_place, psycopg):
    in_place(libraries)
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(ValueError, match="indefinite wait not supported anymore"):
        psycopg().wait(asks(ours, 1), ours.fileno(), interval=None)


def test_the_users_choice_of_psycopgs_wait_function_stays(in_place, psycopg, monkeypatch):
    monkeypatch.setenv("PSYCOPG_WAIT_FUNC", "wait_select")
    in_place(libraries)
    waiting = psycopg()
    assert waiting.wait is waiting.wait_select


def test_psycopg2_gets_a_wait_callback(in_place, modules):
    modules("psycopg2.__init__", "class OperationalError(Exception): ...\n")
    modules(
        "psycopg2.extensions",
        "POLL_OK, POLL_READ, POLL_WRITE, callback = 0, 1, 2, None\n"
        "def set_wait_callback(new):\n    global callback; callback = new\n"
        "def get_wait_callback():\n    return callback\n",
    )
    changes = in_place(libraries)
    extensions = importlib.import_module("psycopg2.extensions")
    ours, theirs = socket.socketpair()

    class Connection:
        states = [2, 1, 0]
        fileno = ours.fileno

        def poll(self):
            return self.states.pop(0)

    with ours, theirs:
        roamlet.tasklet(theirs.send)(b"row")
        extensions.callback(Connection())
        Connection.states = [7]
        with pytest.raises(sys.modules["psycopg2"].OperationalError, match="returned 7"):
            extensions.callback(Connection())
    changes.undo()
    assert extensions.callback is None


def test_sched_imported_before_sleeps_as_a_tasklet(python, program):
    program("""\
        import sched
        original = sched.scheduler.__init__.__defaults__
        import roamlet
        from roamlet.patch.areas import libraries, sleeping
        from roamlet.patch.changes import Changes
        changes = Changes()
        sleeping.apply(changes)
        libraries.apply(changes)
        log = []
        scheduler = sched.scheduler()
        scheduler.enter(0.05, 1, log.append, ("event",))
        roamlet.tasklet(log.append)("tasklet")
        scheduler.run()
        changes.undo()
        print(log, sched.scheduler.__init__.__defaults__ == original)
        """)
    assert printed(python("program.py")) == "['tasklet', 'event'] True\n"


def test_trios_queue_for_other_threads_keeps_the_lock_that_it_insists_on(in_place, modules):
    modules("trio.__init__", "")
    modules("trio._core.__init__", "")
    modules(
        "trio._core._entry_queue",
        "class EntryQueue:\n    def __init__(self, done=False):\n        self.done, self.lock = done, 'the patched one'\n",
    )
    changes = in_place(libraries)
    queues = importlib.import_module("trio._core._entry_queue")
    made = queues.EntryQueue(done=True)
    assert (type(made.lock), made.done) == (_thread.RLock, True)
    changes.undo()
    assert queues.EntryQueue().lock == "the patched one"
