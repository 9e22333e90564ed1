"""`python -m roamlet.threads`: a program that has threads runs unchanged with roamlet's locks and queues."""

import os

import pytest

from roamlet.threads.__main__ import FOLDER
from tests.programs import printed

HERE = ("-m", "roamlet.threads")
SHOW = "import queue, sys, threading; print(threading.Lock.__module__, queue.Queue.__module__, sys.argv[1:])\n"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("program.py", "a", "-b"), id="a script"),
        pytest.param(("-c", SHOW, "a", "-b"), id="code"),
        pytest.param(("-m", "program", "a", "-b"), id="a module"),
        pytest.param(("-", "a", "-b"), id="standard input"),
        pytest.param(("-W", "error", "-Bu", "-X", "dev", "program.py", "a", "-b"), id="options of Python"),
    ],
)
def test_the_program_finds_our_classes_however_it_is_given(python, program, words):
    program(SHOW)
    assert printed(python(*HERE, *words, stdin=SHOW)) == "roamlet.sync roamlet.sync ['a', '-b']\n"


def test_the_program_is_what_it_is_under_python_itself(python, program):
    program("""\
        import sys, __main__
        names = sorted(name for name in vars(__main__) if name.startswith("__"))
        print(__name__, __file__, __spec__, names, sys.argv, sys.path[0], sys._getframe().f_back)
        sys.exit("why it ended")
        """)
    ours, plain = python(*HERE, "program.py", "one"), python("program.py", "one")
    assert (ours.stdout, ours.stderr, ours.returncode) == (plain.stdout, plain.stderr, plain.returncode)
    assert plain.returncode == 1


def test_the_sitecustomize_that_was_there_is_imported_too_and_other_folders_are_kept(python, program, tmp_path):
    program("import threading; print('other', threading.Lock.__module__)", "folder/sitecustomize.py")
    folder = str(tmp_path / "folder")
    done = python(*HERE, "-c", "import sitecustomize, os; print(sitecustomize.__file__)", PYTHONPATH=folder)
    assert printed(done) == f"other roamlet.sync\n{folder}{os.sep}sitecustomize.py\n"


def test_an_error_in_that_sitecustomize_is_reported_as_ever(python, program, tmp_path):
    program("raise LookupError('of the other')", "folder/sitecustomize.py")
    done = python(*HERE, "-c", SHOW, PYTHONPATH=str(tmp_path / "folder"))
    assert done.stdout == "roamlet.sync roamlet.sync []\n"
    assert "LookupError: of the other" in done.stderr


def test_python_processes_that_it_starts_have_our_classes_and_others_their_own(python, program):
    program(f"""\
        import os, subprocess, sys, roamlet
        subprocess.run([sys.executable, "-c", {SHOW!r}], check=True)
        hidden = {{**os.environ, "PYTHONPATH": os.environ["PYTHONPATH"]}}
        subprocess.run([sys.executable, "-S", "-c", {SHOW!r}], check=True, env=hidden)
        """)
    assert printed(python(*HERE, "program.py")) == "roamlet.sync roamlet.sync []\n_thread queue []\n"


@pytest.mark.parametrize("words", [("-E", *HERE, "-c", SHOW), (*HERE, "-S", "-c", SHOW), (*HERE, "-bI", "program.py")])
def test_options_that_would_defeat_it_are_refused(python, words):
    done = python(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "which -E, -I and -S\nmake Python ignore" in done.stderr and "roamlet.threads.install()" in done.stderr


def test_help_and_the_folder(python):
    assert printed(python(*HERE, "--help")).startswith("usage: python -m roamlet.threads ")
    assert printed(python(*HERE, "--path")) == FOLDER + "\n"
    assert printed(python("-c", SHOW, PYTHONPATH=FOLDER)) == "roamlet.sync roamlet.sync []\n"


# ---- what stands on threading goes on working ----


def test_concurrent_futures_logging_and_a_queue_listener(python, program):
    program("""\
        import concurrent.futures as futures, logging, logging.handlers, queue, threading
        with futures.ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda value: value * 2, range(200)))
            slow = [pool.submit(pow, 2, number) for number in range(50)]
            done, rest = futures.wait(slow, timeout=60)
            print(sum(results), len(done), len(rest), sum(each.result() for each in futures.as_completed(slow)) == 2**50 - 1)

        class Counting(logging.Handler):
            count = 0
            def emit(self, record):
                self.count += 1

        handler = Counting()
        through = queue.Queue(10)
        listener = logging.handlers.QueueListener(through, handler)
        listener.start()
        logger = logging.getLogger("test")
        logger.propagate = False
        logger.addHandler(logging.handlers.QueueHandler(through))
        logger.handlers[0].enqueue = through.put  # QueueHandler refuses to wait
        threads = [threading.Thread(target=lambda: [logger.warning("x") for _ in range(100)]) for _ in range(4)]
        for each in threads: each.start()
        for each in threads: each.join()
        through.join()  # stop() refuses to wait for room
        listener.stop()
        print(handler.count, type(handler.lock).__module__, type(through).__module__)
        """)
    assert printed(python(*HERE, "program.py")) == "39800 50 0 True\n400 roamlet.sync roamlet.sync\n"


def test_a_threaded_server_of_socketserver(python, program):
    program("""\
        import socketserver, socket, threading
        class Echo(socketserver.StreamRequestHandler):
            def handle(self):
                for line in self.rfile:
                    self.wfile.write(line.upper())
        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
            serving = threading.Thread(target=server.serve_forever, args=(0.01,))
            serving.start()
            def asks(number):
                with socket.create_connection(server.server_address) as client, client.makefile("rwb") as file:
                    for step in range(20):
                        file.write(b"%d of %d\\n" % (step, number)); file.flush()
                        assert file.readline() == b"%d OF %d\\n" % (step, number)
            clients = [threading.Thread(target=asks, args=(number,)) for number in range(8)]
            for each in clients: each.start()
            for each in clients: each.join()
            server.shutdown()
            serving.join()
        print("served")
        """)
    assert printed(python(*HERE, "program.py")) == "served\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing_with_its_queues_locks_pools_and_managers(python, program, method):
    program(f"""\
        import multiprocessing as mp, threading, warnings
        warnings.simplefilter("ignore")

        def works(tasks, results, lock):
            for value in iter(tasks.get, None):
                with lock:
                    results.put((value, value * 2, threading.Event.__module__))

        def doubled(value):
            return 2 * value

        if __name__ == "__main__":
            context = mp.get_context("{method}")
            tasks, results, lock = context.Queue(), context.Queue(), context.Lock()
            workers = [context.Process(target=works, args=(tasks, results, lock)) for _ in range(2)]
            for each in workers: each.start()
            for value in range(20): tasks.put(value)
            for _ in workers: tasks.put(None)
            got = sorted(results.get() for _ in range(20))
            for each in workers: each.join()
            print(got == [(value, value * 2, "roamlet.sync") for value in range(20)])
            with context.Pool(2) as pool:
                print(pool.map(doubled, range(5)), pool.apply_async(doubled, (21,)).get(60))
            with context.Manager() as manager:
                shared = manager.list([1])
                with manager.Lock(): shared.append(2)
                print(list(shared))
        """)
    assert printed(python(*HERE, "program.py")) == "True\n[0, 2, 4, 6, 8] 42\n[1, 2]\n"


def test_a_signal_handler_sets_the_event_that_the_main_thread_waits_for(python, program):
    program("""\
        import os, signal, threading
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        stop.wait()
        print("stopped")
        """)
    assert printed(python(*HERE, "program.py")) == "stopped\n"


def test_daemon_threads_that_wait_do_not_hold_up_the_end(python, program):
    program("""\
        import queue, threading
        for call in (queue.Queue().get, threading.Event().wait, queue.SimpleQueue().get):
            threading.Thread(target=call, daemon=True).start()
        def last():
            threading.main_thread().join()
            print("after main")
        threading.Thread(target=last).start()
        print("end of main")
        """)
    assert printed(python(*HERE, "program.py")).splitlines() == ["end of main", "after main"]


def test_a_forked_child_of_a_thread_can_start_threads_and_log(python, program):
    program("""\
        import logging, os, threading, warnings
        warnings.simplefilter("ignore")
        logging.basicConfig(format="%(message)s", stream=__import__("sys").stdout)
        busy = [threading.Thread(target=threading.Event().wait, daemon=True) for _ in range(3)]
        for each in busy: each.start()
        def forks():
            pid = os.fork()
            if pid == 0:
                done = threading.Event()
                thread = threading.Thread(target=lambda: (logging.warning("in the child"), done.set()))
                thread.start()
                print(done.wait(60), flush=True)
                thread.join()
                os._exit(0)
            print(os.waitpid(pid, 0)[1], flush=True)
        thread = threading.Thread(target=forks)
        thread.start()
        thread.join()
        """)
    assert printed(python(*HERE, "program.py")).splitlines() == ["in the child", "True", "0"]
