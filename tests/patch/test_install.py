"""install(), uninstall(), patched() and status(), in processes of their own: what they change is of the whole process."""

import subprocess
import sys

import pytest

import roamlet.patch
from roamlet.patch import areas
from roamlet.patch.changes import Changes
from tests.programs import printed

NAMES = "socket.socket, time.sleep, select.select, select.epoll, socket.getaddrinfo, threading.Lock"
IMPORTS = "import select, selectors, socket, ssl, subprocess, sys, threading, time\n"


def test_what_was_replaced_is_put_back_by_identity(python, program):
    program(f"""\
        {IMPORTS}
        import roamlet.patch
        from roamlet.patch import _install
        before = [{NAMES}]
        roamlet.patch.install()
        replaced = [replacement for changes in _install._in_place.values() for replacement in changes.replacements]
        print(any(now is then for now, then in zip([{NAMES}], before)), len(replaced) > 30)
        roamlet.patch.uninstall()
        missing = [each for each in replaced if not each.inherited() and vars(each.owner)[each.name] is not each.original]
        missing += [each for each in replaced if each.inherited() and each.name in vars(each.owner)]
        print(missing, all(now is then for now, then in zip([{NAMES}], before)), roamlet.patch.status())
        roamlet.patch.uninstall()
        """)
    nothing = "roamlet.patch: nothing is in place (roamlet.patch.install() does it)"
    assert printed(python("program.py")) == f"False True\n[] True {nothing}\n"


def test_the_second_call_adds_areas_and_nothing_else(python, program):
    program(f"""\
        {IMPORTS}
        import roamlet.patch
        roamlet.patch.install(sockets=False, dns=False, tls=False, locks=False, subprocess=False, signals=False, select=False)
        print(sorted(roamlet.patch.installed()))
        ours = time.sleep
        roamlet.patch.install(sleep=False, locks=False)
        roamlet.patch.install()
        assert time.sleep is ours
        once = len(roamlet.patch.status().replaced)
        roamlet.patch.install()
        print("locks" in roamlet.patch.installed(), len(roamlet.patch.status().replaced) == once)
        """)
    assert printed(python("program.py")) == "['asyncio', 'libraries', 'sleep']\nTrue True\n"


def test_patched_takes_out_what_was_not_in_place_before(python, program):
    program("""\
        import time, socket
        import roamlet.patch
        original, of_sockets = time.sleep, socket.socket
        with roamlet.patch.patched(sockets=False, tls=False):
            ours = time.sleep
            with roamlet.patch.patched():
                print(time.sleep is ours, socket.socket is of_sockets)
            print(time.sleep is ours, socket.socket is of_sockets)
        print(time.sleep is original, sorted(roamlet.patch.installed()))
        """)
    assert printed(python("-W", "ignore", "program.py")) == "True False\nTrue True\nTrue []\n"


def test_a_thread_that_is_not_main_may_install(python, program):
    program("""\
        import threading, time, socket
        import roamlet, roamlet.patch
        thread = threading.Thread(target=roamlet.patch.install)
        thread.start()
        thread.join()
        left, right = socket.socketpair()
        roamlet.tasklet(lambda: (time.sleep(0.01), right.send(b"x")))()
        print(left.recv(1), "locks" in roamlet.patch.installed())
        """)
    assert printed(python("program.py")) == "b'x' True\n"


def test_uninstall_while_tasklets_wait_lets_them_go_on(python, program):
    program("""\
        import select, socket, time
        import roamlet, roamlet.patch
        roamlet.patch.install()
        left, right = socket.socketpair()
        epoll = select.epoll()
        epoll.register(right, select.EPOLLIN)
        said = []
        for wait in (lambda: left.recv(1), lambda: select.select([left], [], [])[1:], lambda: len(epoll.poll())):
            roamlet.tasklet(lambda wait=wait: said.append(wait()))()
        roamlet.tasklet(lambda: (time.sleep(0.01), said.append("slept")))()
        roamlet.schedule()
        roamlet.patch.uninstall()
        print(said)
        right.send(b"xy"), left.send(b"z")
        roamlet.run()
        print(sorted(map(str, said)))
        """)
    assert printed(python("program.py")) == "[]\n[\"([], [])\", '1', \"b'x'\", 'slept']\n".replace(
        '"([], [])"', "'([], [])'"
    )


@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_another_patch_is_refused_by_its_name(python, program, library):
    program(
        """\
        import sys, types
        module = sys.modules["eventlet.patcher"] = types.ModuleType("eventlet.patcher")
        module.already_patched = {"socket": True}
        """
        if library == "eventlet"
        else "import gevent.monkey; gevent.monkey.patch_all()",
        "other.py",
    )
    done = python("-W", "ignore", "-c", "import other, roamlet.patch; roamlet.patch.install()")
    call = "gevent.monkey.patch_all()" if library == "gevent" else "eventlet.monkey_patch()"
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and f"OtherPatch: {call} has replaced " in last and "leave that call out" in last


def test_gevent_that_is_imported_and_has_patched_nothing_is_no_matter(python):
    assert (
        printed(
            python(
                "-c", "import gevent.monkey, roamlet.patch; roamlet.patch.install(); print(1)", PYTHONWARNINGS="ignore"
            )
        )
        == "1\n"
    )


def test_when_an_area_fails_nothing_is_in_place(monkeypatch):
    module = type(sys)("roamlet_area_that_fails")

    def apply(changes: Changes) -> None:
        changes.replace(module, "name", 1)
        raise OSError("no")

    module.apply = apply  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(
        "roamlet.patch._install.AREAS", (areas.BY_NAME["sleep"], areas.Area("fails", module.__name__, ""))
    )
    with pytest.raises(OSError, match="no"):
        roamlet.patch.install()
    assert roamlet.patch.installed() == frozenset() and not hasattr(module, "name")


def test_a_fork_in_the_middle_leaves_both_processes_working(python, program):
    program("""\
        import os, select, socket, time
        import roamlet, roamlet.patch
        roamlet.patch.install()
        def talks():
            left, right = socket.socketpair()
            roamlet.tasklet(lambda: (time.sleep(0.01), right.sendall(b"hello")))()
            select.select([left], [], [])
            return left.recv(5)
        assert talks() == b"hello"
        pid = os.fork()
        assert talks() == b"hello"
        if pid == 0:
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """)
    assert printed(python("program.py", PYTHONWARNINGS="ignore")) == "7\n"


@pytest.mark.parametrize("call", [roamlet.patch.install, lambda **words: roamlet.patch.patched(**words).__enter__()])
def test_an_area_that_there_is_not_is_named_beside_those_that_there_are(call):
    with pytest.raises(
        TypeError, match=r"roamlet.patch has no dsn, socket: there are sockets, dns, .*threads, strict$"
    ):
        call(socket=False, dsn=False, tls=False)


def test_this_process_is_not_patched():
    assert roamlet.patch.installed() == frozenset() and subprocess.Popen.__module__ == "subprocess"
