"""The native backend: where the memory for its C stacks comes from and that it goes back; what happens when tasklets share them."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

import roamlet
from roamlet import core
from tests.core._scripts import output_of, run_script

pytestmark = pytest.mark.backends("native", reason="greenlet keeps C stacks in its own way")

MANY = 700  # tasklets at once: more than a thread has stacks

# Sizes in MB, of a process of its own: the address space, what is resident, and how many mappings there are.
SIZES = """
import gc, os, sys, threading, roamlet
from roamlet import core

def field(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name + ":")) / 1000

def mappings():
    with open("/proc/self/maps") as maps:
        return sum(1 for _ in maps)

def nested(depth, function):
    return function() if depth == 0 else next(map(lambda _: nested(depth - 1, function), (1,)))

def block(count):
    channel = roamlet.channel()
    for _ in range(count):
        roamlet.tasklet(channel.receive)()
    roamlet.run()
    return channel

def release(channel):
    while channel.balance < 0:
        channel.send(None)
    roamlet.run()
"""


def nested(depth, function):
    return function() if depth == 0 else next(map(lambda _: nested(depth - 1, function), (1,)))


def test_many_tasklets_are_few_mappings_and_little_memory():
    printed = output_of(
        SIZES
        + """
resident, count = field("VmRSS"), mappings()
channel = block(20_000)
print(field("VmRSS") - resident < 20_000 * 0.003, mappings() - count < 600)
release(channel)
"""
    )
    assert printed == "True True"


def test_what_no_tasklet_uses_goes_back_with_trim():
    printed = output_of(
        SIZES
        + """
block(1).send(None)
core.trim()
size = field("VmSize")
channel = block(500)
full = field("VmSize")
release(channel)
core.trim()
print(full - size > 1000, field("VmSize") - size < 100)
"""
    )
    assert printed == "True True"


def test_a_thread_that_ends_gives_back_its_stacks():
    printed = output_of(
        SIZES
        + """
def body():
    release(block(300))
    block(300)  # ended with the thread
    sizes.append(field("VmSize"))
sizes = []
for _ in range(4):
    before = field("VmSize")
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    print(sizes.pop() - before > 500, field("VmSize") - before < 100)
"""
    )
    assert printed == "\n".join(["True True"] * 4)


def test_a_stack_that_was_deep_does_not_keep_its_pages():
    printed = output_of(
        SIZES
        + """
def deep():
    nested(400, roamlet.schedule)
    channel.receive()  # so that each ends among others that have started, and its stack is free
channel = roamlet.channel()
roamlet.tasklet(roamlet.schedule)()
roamlet.run()
before = field("VmRSS")
for _ in range(100):
    roamlet.tasklet(deep)()
roamlet.run()
full = field("VmRSS")
release(channel)
print(full - before > 100 * 0.15, field("VmRSS") - before < (full - before) * 0.75)
"""
    )
    assert printed == "True True"


@pytest.mark.parametrize("spare", [40, 100, 700])
def test_without_address_space_tasklets_share_what_there_is(spare):
    printed = output_of(
        SIZES
        + f"""
import resource
roamlet.getcurrent()
limit = int((field("VmSize") + {spare}) * 1e6)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
def body():
    nested(20, roamlet.schedule)
    channel.receive()
    log.append(1)
channel, log = roamlet.channel(), []
for _ in range(300):
    roamlet.tasklet(body)()
roamlet.run()
release(channel)
print(len(log))
"""
    )
    assert printed == "300"


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="mounts of a test's own take root and unshare"
)
@pytest.mark.parametrize(("mode", "most"), [("0", 256), ("2", 16)])
def test_where_the_kernel_counts_untouched_memory_a_process_has_few_stacks(tmp_path, mode, most):
    (tmp_path / "mode").write_text(mode + "\n")
    (tmp_path / "script.py").write_text(
        SIZES
        + textwrap.dedent("""
        channel = block(700)
        stacks = 0
        with open("/proc/self/maps") as maps:
            for line in maps:
                low, high = (int(word, 16) for word in line.split()[0].split("-"))
                stacks += line.split()[1:] == ["rw-p", "00000000", "00:00", "0"] and 7_000_000 < high - low < 9_000_000
        print(stacks)
        release(channel)
        """)
    )
    mounts = (
        f"mount --bind {tmp_path}/mode /proc/sys/vm/overcommit_memory && exec {sys.executable} {tmp_path}/script.py"
    )
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", mounts],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert most * 3 // 4 < int(done.stdout) <= most + 10  # mappings of others are as large, too


def test_what_runs_over_the_end_of_a_stack_meets_a_guard():
    script = (
        SIZES
        + """
import ctypes, resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
block(1)
with open("/proc/self/maps") as maps:
    parts = [line.split() for line in maps]
for before, after in zip(parts, parts[1:]):
    low, high = (int(word, 16) for word in after[0].split("-"))
    if before[1:] == ["---p", "00000000", "00:00", "0"] and after[1] == "rw-p" and high - low > 7_000_000:
        break
print("here", flush=True)
found = ctypes.string_at(low - {below}, 1)
print("read", found)
"""
    )
    inside = run_script(script.format(below=0))
    assert (inside.returncode, inside.stdout) == (0, "here\nread b'\\x00'\n")
    guard = run_script(script.format(below=1))
    assert (guard.returncode, guard.stdout) == (-11, "here\n")


def test_a_fork_in_a_tasklet_leaves_both_processes_sane():
    printed = output_of(
        SIZES
        + """
def body():
    nested(30, roamlet.schedule)
    child = nested(30, os.fork)
    nested(100, roamlet.schedule)
    log.append(len(log))
    if child:
        assert os.waitpid(child, 0)[1] == 0
def recurse(depth):
    list(map(recurse, (depth + 1,)))
def overflow():
    try:
        recurse(0)
    except RecursionError:
        log.append("recursion")
log = []
before, pid = block(600), os.getpid()
roamlet.tasklet(body)()
roamlet.tasklet(overflow)()
roamlet.run()
release(before)
roamlet.tasklet(overflow)()
roamlet.tasklet(log.append)("after")
roamlet.run()
core.trim()
assert log == ["recursion", 1, "recursion", "after"], log
if os.getpid() == pid:
    print("parent")
else:
    os._exit(0)
"""
    )
    assert printed == "parent"


@pytest.mark.pythons((3, 11), (3, 13), reason="CPython measures the stack: any size will do")
def test_a_tasklet_has_as_much_stack_as_a_thread_with_more_than_usual():
    """Depth that the thread can hold, and 8 MiB cannot: only with the counting of calls set aside."""
    printed = output_of(
        SIZES
        + """
def body():
    before = field("VmSize")
    block(1).send(None)
    sizes.append(field("VmSize") - before)
sizes = []
threading.stack_size(64 << 20)
thread = threading.Thread(target=body)
thread.start()
thread.join()
print(sizes[0] > 8 * 60)
"""
    )
    assert printed == "True"


@pytest.mark.parametrize("single", [False, True])
def test_more_tasklets_than_stacks_keep_what_is_on_them(single):
    """Each at a depth of its own below C calls, with switches on each level."""
    core.set_single_stack(single)

    def recurse(depth, log):
        roamlet.schedule()
        if depth:
            next(map(lambda _: recurse(depth - 1, log), (1,)))
        roamlet.schedule()
        log.append(depth)

    logs = [[] for _ in range(MANY)]
    for number, log in enumerate(logs):
        roamlet.tasklet(recurse)(number % 13, log)
    roamlet.run()
    del recurse
    assert all(log == list(range(number % 13 + 1)) for number, log in enumerate(logs))


def test_tasklets_begin_where_others_idle_and_both_go_on():
    """Those that begin late share the stacks of those that have waited for long."""
    channel, late, got = roamlet.channel(), roamlet.channel(), []

    def waits(which):
        got.append(nested(5, which.receive))

    for _ in range(MANY):
        roamlet.tasklet(waits)(channel)
    roamlet.run()
    roamlet.sleep(0.02)
    for _ in range(MANY):
        roamlet.tasklet(waits)(late)
    roamlet.run()
    for which in (late, channel, late, channel) * MANY:
        if which.balance < 0:
            which.send(len(got))
    roamlet.run()
    assert sorted(got) == list(range(2 * MANY))


def test_frames_of_tasklets_that_were_copied_away_lead_to_their_first():
    """Their links pass by entry frames on the C stack, where another tasklet's data is by now."""
    channel = roamlet.channel()

    def inner():
        channel.receive()

    def outer():
        next(map(lambda _: inner(), (1,)))

    tasklets = [roamlet.tasklet(outer)() for _ in range(MANY)]
    roamlet.run()
    for tasklet in tasklets:
        names, frame = [], tasklet.frame
        while frame is not None:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        assert names == ["inner", "<lambda>", "outer"]
        del frame
    while channel.balance < 0:
        channel.send(None)
    roamlet.run()


def test_a_greenlet_is_resumed_in_another_tasklet_where_greenlet_was_imported_before():
    pytest.importorskip("greenlet")
    printed = output_of(
        SIZES
        + """
import greenlet
def begins():
    kept.append(greenlet.greenlet(lambda: (greenlet.getcurrent().parent.switch(), log.append("goes on"))))
    kept[0].switch()
    roamlet.schedule()
def resumes():
    nested(5, kept[0].switch)
    log.append(kept[0].dead)
kept, log = [], []
roamlet.tasklet(begins)()
roamlet.tasklet(resumes)()
roamlet.run()
print(log, core.set_single_stack(True))
"""
    )
    assert printed == "['goes on', True] True"


def test_tasklets_have_several_stacks_where_greenlet_cannot_be_imported():
    printed = output_of(
        """
import sys
from importlib.machinery import ModuleSpec
from roamlet import core
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "greenlet":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
core.set_single_stack(False)
try:
    import greenlet
except ModuleNotFoundError:
    print(core.set_single_stack(False))
class Found:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name == "greenlet" else None
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        pass
sys.meta_path[0] = Found()
import greenlet
print(core.set_single_stack(False))
"""
    )
    assert printed.split() == ["False", "True"]
