"""Contexts that are forked off, each in a program of its own: pytest's process has threads and files that are not the test's."""

import os
import select
import signal
import subprocess
import sys

import pytest

from tests.programs import printed


@pytest.fixture
def run(python, program):
    """Run this source as a script, warnings being errors; what it printed."""

    def run(source, **environment):
        return printed(python("-W", "error", program(source), **environment))

    return run


def test_the_child_goes_on_in_the_memory_of_its_parent_and_nothing_travels(run):
    said = run("""
        import os
        import roamlet
        from roamlet import remote

        STATE = {"asked": 0}

        def count(more):
            STATE["asked"] += more
            return STATE["asked"]

        def through_tasklets(value):
            channel = roamlet.channel()
            roamlet.tasklet(channel.send)(value)
            return channel.receive()

        def is_the_same_module():
            import sys
            return sys.modules["__main__"].STATE is STATE, os.getppid()

        if __name__ == "__main__":
            STATE["asked"] = 7
            with remote.fork() as context:
                print(context.call(count, (1,)), STATE["asked"])
                print(context.call(count, (1,)), STATE["asked"])
                print(context.call(through_tasklets, ("tasklets",)))
                same, parent = context.call(is_the_same_module)
                print(same, parent == os.getpid(), context.stats.modules, context.stats.round_trips, context.name)
            with remote.fork() as again:
                print(again.call(count, (1,)))
        """)
    assert said.splitlines() == ["8 7", "9 7", "tasklets", "True True 0 0 fork", "8"]


def test_a_fork_in_atomic_code_lets_roamlets_threads_come_to_a_rest(run):
    said = run("""
        import threading
        import roamlet
        from roamlet import remote
        from roamlet.remote.base import threads as _threads

        def wants_atomic():
            begun.set()
            with roamlet.atomic():
                pass

        if __name__ == "__main__":
            begun, threads = threading.Event(), _threads.acquire()
            with roamlet.atomic():
                threads.callbacks.post(wants_atomic)
                begun.wait()
                with remote.fork() as context:
                    print(context.call(max, (1, 2)))
            _threads.release(threads)
        """)
    assert said == "2\n"


def test_the_parents_descriptors_buffers_and_handlers_are_not_the_childs(run, tmp_path):
    said = run("""
        import atexit, logging, os, signal, socket, sys
        from roamlet import remote

        ours, theirs = socket.socketpair()
        file = open("file", "w")
        file.write("once ")

        def own_connection():
            return os.readlink(f"/proc/self/fd/{ours.fileno()}")

        def touch_everything():
            file.flush()
            logging.getLogger("app").error("logged")
            os.kill(os.getpid(), signal.SIGUSR1)

        def password():
            return os.environ.get("ROAMLET_SUDO_PASSWORD")

        if __name__ == "__main__":
            atexit.register(print, "the end of", os.getpid())
            signal.signal(signal.SIGTERM, lambda number, stack: print("handled"))
            logging.basicConfig(format="%(message)s", stream=sys.stdout)
            print("a line in the buffer", end="; ")
            with remote.fork() as context:
                print(context.call(own_connection), context.call(password))
                ours.close()
                print(theirs.recv(1))
                with remote.fork() as second:
                    try:
                        second.call(touch_everything)
                    except remote.ContextDied as error:
                        killed = error.signal == signal.SIGUSR1
                print(killed)
                context.call(print, ("from the child",))
            file.close()
            theirs.close()
            with open("file") as file:
                print(file.read())
            atexit.unregister(print)
            atexit.register(print, "the end")
        """, ROAMLET_SUDO_PASSWORD="xyzzy")  # fmt: skip
    assert said.splitlines() == [
        "a line in the buffer; /dev/null None",
        "b''",
        "logged",
        "True",
        "from the child",
        "once ",
        "the end",
    ]


def test_a_fork_beside_other_threads_is_refused_unless_the_caller_answers_for_them(run):
    said = run("""
        import os, threading
        from roamlet import remote

        if __name__ == "__main__":
            wait = threading.Event()
            thread = threading.Thread(target=wait.wait, name="the-other-one")
            thread.start()
            try:
                remote.fork()
            except remote.UnsafeFork as error:
                print(error)
            with remote.fork(beside_threads=True) as context:
                print(context.call(os.getppid) == os.getpid(), context.call(threading.active_count) < 6)
                wait.set()
                thread.join()
                with remote.local() as other, remote.fork() as inner:  # roamlet's own threads are no obstacle
                    print(inner.call(os.getppid) == os.getpid(), other.call(os.getppid) == os.getpid())
        """)
    first, second, *rest = said.splitlines()
    assert first == "this process was not forked, because it has other threads: the-other-one."
    assert "remote.local()" in second and "remote.fork(beside_threads=True)" in second
    assert rest == ["True True", "True True"]


def test_a_fork_while_a_callback_blocks_roamlet_s_own_thread_is_refused(run):
    said = run("""
        import threading
        from roamlet import remote
        from roamlet.remote.transports import fork_child as _fork

        _fork.PATIENCE = 0.2
        blocked, go_on = threading.Event(), threading.Event()

        def output(context, stream, line):
            blocked.set()
            go_on.wait()

        if __name__ == "__main__":
            with remote.local(output=output) as context:
                context.call(print, ("x",))
                blocked.wait()
                try:
                    remote.fork()
                except remote.UnsafeFork as error:
                    print(error)
                go_on.set()
                with remote.fork() as forked:
                    print(forked.call(len, ("abc",)))
        """)
    assert "its thread roamlet-callbacks did not come to a rest within 0.2 seconds" in said
    assert said.endswith("3\n")


def test_a_forked_child_ends_with_its_parent_and_its_siblings_do_not_keep_it(program, tmp_path):
    path = program("""
        import os
        from roamlet import remote

        if __name__ == "__main__":
            with remote.fork() as first, remote.fork() as second:
                print(first.facts.pid, second.facts.pid, flush=True)
                input()
        """)
    parent = subprocess.Popen([sys.executable, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with parent:
        children = [os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split()]
        assert len(children) == 2
        parent.send_signal(signal.SIGKILL)
        for child in children:
            assert select.select([child], [], [], 20)[0]
            os.close(child)


def test_an_unknown_argument_is_refused():
    from roamlet import remote

    with pytest.raises(TypeError, match=r"remote.fork\(\) takes no argument 'python'; beside its own: name, timeout"):
        remote.fork(python="python3")


def test_a_value_that_is_not_plain_harms_no_context_of_a_forked_one(run):
    said = run("""
        import datetime
        import logging
        import roamlet
        from roamlet import remote

        def take(channel):
            try:
                return str(channel.receive())
            except TypeError as error:
                return str(error)

        def through_a_context_of_its_own():
            logging.disable()
            channel = roamlet.channel()
            with remote.local() as behind:
                said = []
                for value in (datetime.date(2020, 1, 1), "plain"):
                    roamlet.tasklet(channel.send)(value)
                    said.append(behind.call(take, (channel,)))
                return said

        if __name__ == "__main__":
            with remote.fork() as context:
                print(*context.call(through_a_context_of_its_own), sep="\\n")
        """)
    first, second = said.splitlines()
    assert first.startswith(
        "a value was sent to 'local' that cannot travel: the value cannot travel: it is a datetime.date"
    )
    assert second == "plain"
