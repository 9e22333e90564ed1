"""What happens when main waits and nothing that roamlet knows of can wake it: the modes, and which threads count."""

import ctypes
import sys
import threading
from _thread import start_new_thread

import pytest

import roamlet
from roamlet import core
from roamlet.sync import SimpleQueue
from tests.core._scripts import output_of, run_script

pytestmark = pytest.mark.once(reason="which threads count does not depend on how tasklets switch")

AUTO = {"ROAMLET_DEADLOCK": "auto"}

# Threads of C's, which have no thread state until they call Python, if they ever do.
CALLS_IN = """
import ctypes, threading, roamlet
libc = ctypes.CDLL(None)
Callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

def begin(function, argument=None):
    thread = ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(thread), None, function, argument) == 0
    return thread

def sleeps(milliseconds):
    return begin(ctypes.cast(libc.usleep, ctypes.c_void_p), ctypes.c_void_p(milliseconds * 1000))
"""


@pytest.fixture
def mode():
    """Sets a mode until the test ends."""
    before = core.set_deadlock_mode("raise")
    yield core.set_deadlock_mode
    core.set_deadlock_mode(before)


def test_a_thread_that_has_not_begun_yet_is_waited_for():
    """From 3.12 on its thread state has no ident until it begins."""

    def put(queue):
        queue.put("value")

    for _ in range(200):
        queue = SimpleQueue()
        start_new_thread(put, (queue,))
        assert queue.get() == "value"


def test_all_threads_that_are_listed_have_an_id():
    begun = threading.Semaphore(0)
    seen = []
    for _ in range(50):
        start_new_thread(begun.release, ())
        seen += core.threads()
    for _ in range(50):
        begun.acquire()
    assert 0 not in seen
    with pytest.raises(RuntimeError, match="Thread id not found"):
        core.get_thread_info(0)


def test_a_thread_that_has_not_begun_yet_is_not_taken_for_the_one_that_starts_it():
    """Until it begins its thread state has the other's ident on 3.11, and none later."""
    before, begun, me = sys.getswitchinterval(), threading.Semaphore(0), threading.get_ident()
    for _ in range(50):
        sys.setswitchinterval(100)  # it begins when this thread blocks
        start_new_thread(begun.release, ())
        seen, main = core.threads(), core.get_thread_info(me)[0]
        sys.setswitchinterval(before)
        begun.acquire()
        assert main is roamlet.getmain()
        assert len(seen) == len(set(seen))


def test_a_mode_is_set_and_the_one_before_returned(mode):
    assert mode("warn") == "raise"
    assert mode("off") == "warn"
    assert roamlet.set_deadlock_mode("auto") == "off"
    for wrong in ("never", "", None, 1):
        with pytest.raises(ValueError, match="the modes are 'auto', 'raise', 'warn' and 'off'"):
            mode(wrong)
    assert mode("raise") == "auto"


def test_it_is_auto_by_default():
    assert (
        output_of("import roamlet; print(roamlet.set_deadlock_mode('raise'))", env={"ROAMLET_DEADLOCK": ""}) == "auto"
    )


def test_the_environment_sets_it():
    source = "import roamlet; print(roamlet.set_deadlock_mode('raise'))"
    assert output_of(source, env={"ROAMLET_DEADLOCK": "warn"}) == "warn"
    done = run_script(source, env={"ROAMLET_DEADLOCK": "maybe"})
    assert "ImportError: ROAMLET_DEADLOCK='maybe' is no mode: use one of auto, raise, warn, off" in done.stderr


def test_auto_raises_in_a_process_without_other_threads():
    printed = output_of("""
        import roamlet
        try:
            roamlet.channel().receive()
        except roamlet.Deadlock as error:
            print(str(error).partition(":")[0])
        """, env=AUTO)  # fmt: skip
    assert printed == "Deadlock"


def test_auto_raises_beside_service_threads_and_the_watchdog():
    printed = output_of("""
        import roamlet
        assert roamlet.call_async(lambda: 1) == 1
        roamlet.tasklet(sum)(range(1000))
        roamlet.run(slice=0.001)
        try:
            roamlet.channel().receive()
        except roamlet.Deadlock as error:
            print("Deadlock")
        """, env=AUTO)  # fmt: skip
    assert printed == "Deadlock"


def test_auto_waits_for_a_thread_that_python_has_not_seen():
    printed = output_of(CALLS_IN + """
channel, go = roamlet.channel(), threading.Event()

@Callback
def calls_in(argument):
    channel.send("called in")

begin(ctypes.cast(calls_in, ctypes.c_void_p))
print(channel.receive())
sleeps(20)
try:
    channel.receive()
except roamlet.Deadlock:
    print("Deadlock when it has ended")
""", env=AUTO)  # fmt: skip
    assert printed.splitlines() == ["called in", "Deadlock when it has ended"]


def test_raise_does_not_wait_for_it():
    printed = output_of(CALLS_IN + """
sleeps(60_000)
try:
    roamlet.channel().receive()
except roamlet.Deadlock:
    print("Deadlock")
import os, sys
sys.stdout.flush()
os._exit(0)
""")  # fmt: skip
    assert printed == "Deadlock"


LOGS = (
    CALLS_IN
    + """
import logging, sys
channel = roamlet.channel()

class Wakes(logging.Handler):
    def emit(self, record):
        print(record.name, record.levelname, record.getMessage())
        roamlet.tasklet(channel.send)("woken by the handler")

logging.getLogger("roamlet").addHandler(Wakes())
logging.getLogger("roamlet").propagate = False
"""
)


def test_auto_logs_once_that_it_waits_and_for_whom():
    printed = output_of(LOGS + """
sleeps(60_000)
print(channel.receive())

import signal
from roamlet import core
signal.signal(signal.SIGALRM, lambda *_: channel.send("woken by a signal"))
core.mark_service_signal(signal.SIGALRM)  # else nothing would be said, as it may wake somebody
signal.setitimer(signal.ITIMER_REAL, 1.5)
print(channel.receive())
sys.stdout.flush()
import os
os._exit(0)
""", env=AUTO)  # fmt: skip
    lines = printed.splitlines()
    assert lines[0].startswith(
        "roamlet WARNING The main tasklet waits, and nothing that roamlet knows of can wake any of these"
    )
    assert (
        "The process has 1 more thread, which C code has started and which may call in; so the wait goes on" in lines[0]
    )
    assert "main, blocked in receive" in lines[1]
    assert lines[2:] == ["woken by the handler", "woken by a signal"]


def test_warn_logs_each_time_and_waits():
    printed = output_of(LOGS + """
print(channel.receive())
print(channel.receive())
""", env={"ROAMLET_DEADLOCK": "warn"})  # fmt: skip
    assert [line.partition(",")[0] for line in printed.splitlines() if "blocked" not in line] == [
        "roamlet WARNING The main tasklet waits",
        "woken by the handler",
    ] * 2
    assert "The process has no other thread" in printed


def test_a_logger_that_fails_is_reported_and_ends_nothing():
    done = run_script(
        """
        import logging, signal, roamlet
        from roamlet import core
        def interrupted(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupted)
        core.mark_service_signal(signal.SIGALRM)
        class Fails(logging.Handler):
            def handle(self, record):
                signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)  # again, if the first comes before the wait
                raise LookupError("no log")
        logging.getLogger("roamlet").addHandler(Fails())
        try:
            roamlet.channel().receive()
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            print("ended by a signal")
        """,
        env={"ROAMLET_DEADLOCK": "warn"},
    )
    assert done.stdout == "ended by a signal\n"
    assert "LookupError: no log" in done.stderr


def test_an_interrupt_in_the_logger_is_raised_in_main():
    printed = output_of("""
        import logging, roamlet
        class Interrupted(logging.Handler):
            def handle(self, record):
                raise KeyboardInterrupt
        logging.getLogger("roamlet").addHandler(Interrupted())
        try:
            roamlet.channel().receive()
        except KeyboardInterrupt:
            print("interrupted")
        """, env={"ROAMLET_DEADLOCK": "warn"}, timeout=30)  # fmt: skip
    assert printed == "interrupted"


def test_without_logging_the_wait_goes_on():
    done = run_script(
        """
        import signal, sys, roamlet
        from roamlet import core
        def interrupted(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupted)
        core.mark_service_signal(signal.SIGALRM)
        signal.setitimer(signal.ITIMER_REAL, 1.5)
        sys.modules["logging"] = None
        class Named(roamlet.tasklet):
            def __repr__(self):
                return "<named>"
        Named(roamlet.channel().receive)()
        roamlet.schedule()
        try:
            roamlet.channel().receive()
        except KeyboardInterrupt:
            print("ended by a signal")
        """,
        env={"ROAMLET_DEADLOCK": "warn"},
    )
    assert done.stdout == "ended by a signal\n"
    assert "ModuleNotFoundError: " in done.stderr and "logging" in done.stderr.partition("ModuleNotFoundError: ")[2]


def test_off_waits_and_says_nothing():
    """Until a timer's signal ends it; marked as one that wakes no tasklet, it hides no deadlock by itself."""
    printed = output_of("""
        import signal, roamlet
        from roamlet import core
        def interrupted(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupted)
        core.mark_service_signal(signal.SIGALRM)
        signal.setitimer(signal.ITIMER_REAL, 1)
        try:
            roamlet.channel().receive()
        except KeyboardInterrupt:
            print("ended by a signal")
        """, env={"ROAMLET_DEADLOCK": "off"})  # fmt: skip
    assert printed == "ended by a signal"


def test_whatever_the_mode_the_end_of_the_program_waits_for_nothing():
    """Main would wait, in what it calls while it ends its tasklets."""
    printed = output_of("""
        import sys, roamlet
        def hook(report):
            try:
                roamlet.channel().receive()
            except roamlet.Deadlock:
                print(report.exc_type.__name__, "and Deadlock")
        def fails():
            try:
                roamlet.channel().receive()
            finally:
                raise LookupError
        sys.unraisablehook = hook
        roamlet.tasklet(fails)()
        roamlet.schedule()
        """, env={"ROAMLET_DEADLOCK": "off"}, timeout=30)  # fmt: skip
    assert printed == "LookupError and Deadlock"


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "timer_create"), reason="needs glibc's timers"
)
def test_a_timer_of_c_that_runs_its_function_in_a_thread_may_wake_main():
    printed = output_of("""
        import ctypes, roamlet
        libc = ctypes.CDLL(None)
        channel = roamlet.channel()

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def fires(value):
            channel.send("fired")

        class Event(ctypes.Structure):
            _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int),
                        ("function", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("pad", ctypes.c_char * 64)]

        event = Event(notify=2, function=ctypes.cast(fires, ctypes.c_void_p))
        timer = ctypes.c_void_p()
        assert libc.timer_create(1, ctypes.byref(event), ctypes.byref(timer)) == 0
        when = (ctypes.c_long * 4)(0, 0, 0, 100_000_000)
        assert libc.timer_settime(timer, 0, when, None) == 0
        print(channel.receive())
        """, env=AUTO)  # fmt: skip
    assert printed == "fired"
