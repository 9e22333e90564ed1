"""install(threads="tasklets"): what starts a thread starts a tasklet, with all that threading knows of threads."""

import textwrap

import pytest

import roamlet.patch
from tests.programs import printed

START = """\
import roamlet.patch
roamlet.patch.install(threads="tasklets")
import _thread, os, sys, threading, time
import roamlet
from roamlet.core import os_threads
"""


@pytest.fixture
def ran(python, program):
    """Run a program that begins with install(); return what it has printed."""

    def run(source):
        program(START + textwrap.dedent(source))
        return printed(python("program.py"))

    return run


def test_a_thread_is_a_tasklet_of_the_main_thread(ran):
    assert (
        ran("""\
        def work(mine):
            mine.append((threading.current_thread().name, threading.get_ident(), os_threads.get_ident()))
            assert threading.current_thread() is thread and threading.current_thread() in threading.enumerate()
            assert threading.get_ident() == _thread.get_ident() == thread.ident == id(roamlet.getcurrent())
            time.sleep(0.001)
        mine = []
        thread = threading.Thread(target=work, args=(mine,), name="worker")
        assert not thread.is_alive() and thread.ident is None
        thread.start()
        assert thread.is_alive() and not thread.daemon and threading.active_count() == 2
        assert thread.native_id == threading.get_native_id()
        thread.join()
        thread.join()
        assert not thread.is_alive() and threading.enumerate() == [threading.main_thread()] == [threading.current_thread()]
        name, ident, of_os = mine.pop()
        print(name, ident != of_os, of_os == threading.main_thread().ident == threading.get_ident())
        try:
            thread.start()
        except RuntimeError as error:
            print(error)
        """)
        == "worker True True\nthreads can only be started once\n"
    )


def test_a_join_with_a_time_out_and_one_that_is_killed_leave_the_thread_alive(ran):
    assert (
        ran("""\
        end = threading.Event()
        thread = threading.Thread(target=end.wait)
        thread.start()
        thread.join(0)
        thread.join(0.001)
        joining = roamlet.tasklet(thread.join)()
        roamlet.schedule()
        joining.kill()
        try:
            with roamlet.timeout(0.001):
                thread.join()
        except TimeoutError:
            print(thread.is_alive(), joining.alive)
        end.set()
        thread.join()
        print(thread.is_alive())
        """)
        == "True False\nFalse\n"
    )


def test_the_program_ends_when_its_threads_have_and_daemons_are_ended(ran):
    assert ran("""\
        def work(name):
            try:
                time.sleep(0.01)
                print(name, "is done", threading.main_thread().is_alive())
                if name == "first":
                    threading.Thread(target=work, args=("second",)).start()
            finally:
                print(name, "ends")
        threading.Thread(target=work, args=("first",)).start()
        def serve():
            try:
                threading.Event().wait()
            finally:
                print("the daemon ends")
        threading.Thread(target=serve, daemon=True).start()
        print("end of main")
        """).splitlines() == [
        "end of main",
        "first is done False",
        "first ends",
        "second is done False",
        "second ends",
        "the daemon ends",
    ]


def test_what_a_thread_raises_goes_to_excepthook(python, program):
    program(
        START
        + textwrap.dedent("""\
        def fails():
            raise LookupError("no")
        def start(target):
            thread = threading.Thread(target=target, name="failing")
            thread.start()
            thread.join()
        start(sys.exit)
        start(fails)
        threading.excepthook = lambda told: print(told.exc_type.__name__, told.exc_value, told.thread.name)
        start(fails)
        sys.unraisablehook = lambda told: print(told.exc_type.__name__, told.err_msg, told.object is fails)
        _thread.start_new_thread(fails, ())
        _thread.start_new_thread(_thread.exit, ())
        time.sleep(0.001)
        """)
    )
    done = python("program.py")
    assert (done.returncode, done.stdout) == (
        0,
        "LookupError no failing\nLookupError Exception ignored in thread started by True\n",
    )
    assert done.stderr.startswith("Exception in thread failing:\nTraceback") and done.stderr.endswith(
        "LookupError: no\n"
    )
    assert done.stderr.count("Traceback") == 1


def test_ctrl_c_is_raised_in_the_main_program(ran):
    assert (
        ran("""\
        import signal
        def computes():
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                time.monotonic()
        thread = threading.Thread(target=computes)
        try:
            thread.start()
            thread.join()
        except KeyboardInterrupt:
            thread.join()
            print("interrupted")
        """)
        == "interrupted\n"
    )


def test_threads_of_thread_and_its_locks(ran):
    assert ran("""\
        lock, done = _thread.allocate_lock(), []
        lock.acquire()
        def work(one, *, two):
            with lock:
                done.append((one, two))
        ident = _thread.start_new_thread(work, (1,), {"two": 2})
        time.sleep(0)
        assert done == [] and ident != threading.get_ident() and _thread._count() == 1
        lock.release()
        time.sleep(0.001)
        print(done, _thread._count())
        for wrong in ((None, ()), (work, [1]), (work, (), 1)):
            try:
                _thread.start_new_thread(*wrong)
            except TypeError as error:
                print(error)
        """).splitlines() == [
        "[(1, 2)] 0",
        "first arg must be callable",
        "2nd arg must be a tuple",
        "optional 3rd arg must be a dictionary",
    ]


def test_locals_and_context_variables_are_a_threads_own(ran):
    assert (
        ran("""\
        import contextvars
        variable, mine, seen = contextvars.ContextVar("variable", default="unset"), threading.local(), []
        variable.set("main"), setattr(mine, "name", "main")
        def work():
            seen.append((variable.get(), vars(mine).copy()))
            variable.set("thread"), setattr(mine, "name", "thread")
            time.sleep(0.001)
            seen.append((variable.get(), mine.name))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        print(seen, variable.get(), mine.name)
        """)
        == "[('unset', {}), ('thread', 'thread')] main main\n"
    )


def test_executors_timers_and_queues(ran):
    assert ran("""\
        import queue
        from concurrent.futures import ThreadPoolExecutor
        def work(number):
            time.sleep(0.001)
            return number * 2, os_threads.get_ident()
        with ThreadPoolExecutor(3, thread_name_prefix="pool") as pool:
            results = list(pool.map(work, range(10)))
            names = [thread.name for thread in threading.enumerate()][1:]
        print(sum(number for number, _ in results), {ident for _, ident in results} == {os_threads.get_ident()}, names)
        pool = ThreadPoolExecutor(1)
        assert pool.submit(work, 1).result()[0] == pool.submit(work, 1).result()[0] == 2 and len(pool._threads) == 1
        first, *rest = [pool.submit(work, number) for number in range(5)]
        time.sleep(0)
        pool.shutdown(wait=False, cancel_futures=True)
        print(first.result()[0], [each.cancelled() for each in rest])
        through = queue.Queue(1)
        timer = threading.Timer(0.001, through.put, ["timer"])
        timer.start()
        print(through.get())
        timer.join()
        never = threading.Timer(1000, print, ["never"])
        never.start(), never.cancel(), never.join()
        left = ThreadPoolExecutor(1)
        left.submit(work, 1).add_done_callback(lambda future: print("done at exit", future.result()[0]))
        """).splitlines() == [
        "90 True ['pool_0', 'pool_1', 'pool_2']",
        "0 [True, True, True, True]",
        "timer",
        "done at exit 2",
    ]


def test_a_job_that_always_submits_another_one_holds_up_no_thread(ran):
    assert (
        ran("""\
        from concurrent.futures import ThreadPoolExecutor
        def again():
            if going_on:
                pool.submit(again)
        going_on = True
        with ThreadPoolExecutor(1) as pool:
            pool.submit(again)
            time.sleep(0.001)
            going_on = False
        print("done")
        """)
        == "done\n"
    )


def test_run_returns_while_the_workers_of_an_executor_are_idle(ran):
    assert (
        ran("""\
        from concurrent.futures import ThreadPoolExecutor
        pool, results = ThreadPoolExecutor(2), []
        for number in range(4):
            pool.submit(lambda number=number: (time.sleep(0.001), results.append(number)))
        roamlet.run()
        print(sorted(results), len(pool._threads))
        """)
        == "[0, 1, 2, 3] 2\n"
    )


def test_asyncios_executor_has_tasklets(ran):
    assert (
        ran("""\
        import asyncio
        async def main():
            loop = asyncio.get_running_loop()
            idents = await asyncio.gather(*(asyncio.to_thread(work) for _ in range(3)), loop.run_in_executor(None, work))
            print(set(idents) == {os_threads.get_ident()})
            print(len(await loop.getaddrinfo("127.0.0.1", 80)) > 0)
        def work():
            time.sleep(0.001)
            return os_threads.get_ident()
        asyncio.run(main())
        """)
        == "True\nTrue\n"
    )


def test_roamlets_own_threads_stay_threads(ran):
    assert (
        ran("""\
        from roamlet import aio, io
        def where():
            return os_threads.get_ident(), threading.current_thread().name, threading.get_ident() == os_threads.get_ident()
        ident, name, same = io.call_async(where)
        print(ident != os_threads.get_ident(), name.startswith("roamlet-service-worker"), same)
        def starts():
            started = []
            thread = threading.Thread(target=lambda: started.append(os_threads.get_ident()))
            thread.start()
            thread.join()
            return started[0]
        print(io.call_async(starts) == os_threads.get_ident())
        async def in_portal():
            import asyncio
            return os_threads.get_ident(), await asyncio.to_thread(os_threads.get_ident)
        with aio.portal() as portal:
            of_portal, of_thread = portal.await_(in_portal())
        print(of_portal != os_threads.get_ident(), of_thread == os_threads.get_ident())
        thread = io.start_thread(lambda: None, "own")
        thread.join()
        print(thread.is_alive(), thread.ident != os_threads.get_ident())
        """)
        == "True True True\nTrue\nTrue True\nFalse True\n"
    )


def test_tasklets_that_are_no_threads_have_dummies_that_go_with_them(ran):
    assert (
        ran("""\
        seen = []
        def plain():
            seen.append(mine := threading.current_thread())
            time.sleep(0)
            assert threading.current_thread() is mine and mine.daemon
        for _ in range(3):
            roamlet.tasklet(plain)()
        roamlet.run()
        print({type(each).__name__ for each in seen}, len(set(seen)), threading.enumerate() == [threading.main_thread()])
        """)
        == "{'_DummyThread'} 3 True\n"
    )


def test_trace_and_profile_functions_are_the_threads_own(ran):
    assert (
        ran("""\
        traced, profiled = set(), set()
        def trace(frame, event, argument):
            traced.add(frame.f_code.co_name)
            return trace
        def profile(frame, event, argument):
            profiled.add(frame.f_code.co_name)
        threading.settrace(trace)
        threading.setprofile(profile)
        def work():
            time.sleep(0.001)
            inside()
        def inside():
            pass
        def outside():
            assert sys.gettrace() is None and sys.getprofile() is None
        thread = threading.Thread(target=work)
        thread.start()
        outside()
        thread.join()
        print({"work", "inside"} <= traced, {"work", "inside"} <= profiled, "outside" in traced | profiled)
        print(threading.gettrace() is trace, sys.gettrace(), sys.getprofile())
        """)
        == "True True False\nTrue None None\n"
    )


def test_what_a_signal_handler_raises_is_raised_in_the_main_program_whichever_thread_runs(ran):
    assert (
        ran("""\
        import signal
        class Late(Exception):
            pass
        def late(number, frame):
            raise Late
        def leave(number, frame):
            sys.exit(5)
        def work(signals):
            for number in signals:
                os.kill(os.getpid(), number)
                print("undisturbed")
        assert signal.signal(signal.SIGUSR1, late) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGUSR1) is late is signal.signal(signal.SIGUSR1, late)
        try:
            threading.Thread(target=work, args=([signal.SIGUSR1],)).start()
            time.sleep(60)
        except Late:
            print("late")
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
        except Late:
            print("late")
        roamlet.patch.uninstall()
        assert signal.getsignal(signal.SIGUSR1) is late
        roamlet.patch.install(threads="tasklets")
        assert signal.getsignal(signal.SIGUSR1) is late
        signal.signal(signal.SIGTERM, leave)
        try:
            threading.Thread(target=work, args=([signal.SIGTERM],)).start()
            threading.Event().wait()
        except SystemExit as end:
            print("ends with", end.code)
        """)
        == "undisturbed\nlate\nlate\nundisturbed\nends with 5\n"
    )


def test_signals_to_a_thread_reach_the_one_it_runs_in(ran):
    assert (
        ran("""\
        import signal
        signal.signal(signal.SIGUSR1, lambda *_: print("signal"))
        end = threading.Event()
        thread = threading.Thread(target=end.wait)
        thread.start()
        signal.pthread_kill(thread.ident, signal.SIGUSR1)
        print(time.pthread_getcpuclockid(thread.ident) == time.pthread_getcpuclockid(threading.get_ident()))
        end.set()
        thread.join()
        try:
            signal.pthread_kill(thread.ident, 0)
        except ProcessLookupError as error:
            print("Thread.ident" in str(error))
        """)
        == "signal\nTrue\nTrue\n"
    )


def test_thousands_of_threads(ran):
    assert (
        ran("""\
        go, results = threading.Event(), []
        def work(number):
            go.wait()
            results.append(number)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(3000)]
        for thread in threads:
            thread.start()
        print(threading.active_count())
        go.set()
        for thread in threads:
            thread.join()
        print(sorted(results) == list(range(3000)), threading.active_count())
        """)
        == "3001\nTrue 1\n"
    )


def test_a_server_that_is_flooded_with_half_open_connections_answers_the_others(ran):
    """300 clients say nothing, or half a request: each thread waits for its own alone, and ends with the server's time-out."""
    assert (
        ran("""\
        import http.server, socket, urllib.request
        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 0.3
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"answered")
            def log_message(self, *words):
                pass
        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 500
        with Server(("127.0.0.1", 0), Handler) as server:
            serving = threading.Thread(target=server.serve_forever)
            serving.start()
            flood = [socket.create_connection(server.server_address) for _ in range(300)]
            for each in flood[::2]:
                each.sendall(b"GET / HTTP/1.1\\r\\nHost: 127")
            def handlers():
                return sum("process_request" in each.name for each in threading.enumerate())
            while handlers() < 300:
                time.sleep(0.001)
            address = "http://127.0.0.1:%d/" % server.server_port
            print(urllib.request.urlopen(address).read().decode(), handlers() >= 300)
            print({each.recv(100) for each in flood})
            while handlers():
                time.sleep(0.001)
            print(urllib.request.urlopen(address).read().decode())
            for each in flood:
                each.close()
            server.shutdown()
            serving.join()
        """)
        == "answered True\n{b''}\nanswered\n"
    )


def test_uninstall_while_threads_run_lets_them_end(ran):
    assert (
        ran("""\
        end = threading.Event()
        thread = threading.Thread(target=end.wait)
        thread.start()
        original = _thread.start_new_thread
        roamlet.patch.uninstall()
        assert _thread.start_new_thread is not original and threading.current_thread() is threading.main_thread()
        roamlet.tasklet(end.set)()
        thread.join()
        print(thread.is_alive(), threading.enumerate() == [threading.main_thread()])
        other = threading.Thread(target=lambda: print(threading.get_ident() != threading.main_thread().ident))
        other.start()
        other.join()
        """)
        == "False True\nTrue\n"
    )


def test_the_command_takes_it_and_children_inherit_it(python, program):
    show = "import roamlet.patch; print(sorted({'threads', 'local'} & roamlet.patch.installed()))"
    program(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {show!r}], check=True)\n")
    patch = ("-m", "roamlet.patch")
    assert printed(python(*patch, "--threads=tasklets", "program.py")) == "['local', 'threads']\n"
    assert printed(python(*patch, "--threads", "os", "program.py")) == "[]\n"
    refused = python(*patch, "--threads=both", "program.py")
    assert (refused.returncode, refused.stderr) == (
        2,
        "python -m roamlet.patch: --threads is one of os, tasklets, not 'both'\n",
    )


def test_wrong_values_are_refused():
    with pytest.raises(ValueError, match='threads is "os" or "tasklets", not \'green\''):
        roamlet.patch.install(threads="green")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="leave out locks=False"):
        roamlet.patch.install(threads="tasklets", locks=False)
    assert roamlet.patch.installed() == frozenset()


def test_what_was_taken_too_early_is_named(python, program):
    program(
        "from _thread import allocate_lock, start_new_thread\nfrom threading import get_ident, local\nlock = allocate_lock()\n",
        "holder.py",
    )
    program("""\
        import holder
        import roamlet.patch
        roamlet.patch.install(threads="tasklets")
        print([each.name for each in roamlet.patch.status().early])
        """)
    names = ["allocate_lock", "get_ident", "local", "lock", "start_new_thread"]
    assert printed(python("-W", "ignore", "program.py")) == f"{names}\n"


def test_a_forked_child_begins_with_the_thread_that_forked_alone(ran):
    assert (
        ran("""\
        import warnings
        warnings.simplefilter("ignore")
        parent = os.getpid()
        def other():
            try:
                time.sleep(0.01)
            finally:
                if os.getpid() != parent:
                    print("another one ends in the child", flush=True)
        def forks():
            pid = os.fork()
            if pid == 0:
                time.sleep(0.02)
                print(threading.enumerate() == [threading.current_thread()] == [threading.main_thread()], _thread._count())
                thread = threading.Thread(target=print, args=("a thread of the child",))
                thread.start()
                thread.join()
                return
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        others = [threading.Thread(target=other) for _ in range(3)]
        forking = threading.Thread(target=forks)
        for thread in (*others, forking):
            thread.start()
        for thread in (*others, forking):
            thread.join()
        print("end of main")
        """)
        == "True 1\na thread of the child\n0\nend of main\n"
    )


def test_ctrl_c_in_a_forked_child_is_raised_in_the_thread_that_forked(ran):
    assert (
        ran("""\
        import signal, warnings
        warnings.simplefilter("ignore")
        def interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                time.monotonic()
        def forks():
            if pid := os.fork():
                print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
                return
            thread = threading.Thread(target=interrupts)
            try:
                thread.start()
                thread.join()
            except KeyboardInterrupt:
                thread.join()
                print("interrupted")
        forking = threading.Thread(target=forks)
        try:
            forking.start()
            forking.join()
        finally:
            print("end of main")
        """)
        == "interrupted\n0\nend of main\n"
    )
