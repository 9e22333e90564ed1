"""`make check-native`: the tests of the core where mistakes in C cannot hide.

Each step builds the core in its own way, in build/native, and runs the tests of core, io, sync and snapshot on it,
on every switching backend. All of them run, whatever fails; the status is 1 if any did. Names as arguments run those steps alone:
    python -m tools.check_native debug leaks

    debug    an interpreter built --with-pydebug (Debian's python3-dbg), C asserts on
    asan     AddressSanitizer and UndefinedBehaviorSanitizer in the core, AddressSanitizer in the interpreter too, which
             is built for that from Debian's sources, with no pool that would hide a use after free
    tsan     ThreadSanitizer in roamlet's C, which finds what two threads touch without an order between them: tests of what threads
             share, in Python as it is, native backend
    leaks    every test that starts no program several times in one process, its references counted (tools/reference_leaks.py)
    forced   rare paths taken each time (docs/design/core.md, "What a build can force")
    stress   many thousands of random programs against the model of the scheduler, and networks of processes whose results
             must not depend on threads and interrupts

What is missing is installed when this runs as root on Debian; otherwise the one line to type is printed.

    ROAMLET_DEBUG_PYTHON=/path/to/python   this debug build instead of Debian's
    ROAMLET_ASAN_PYTHON=/path/to/python    this build with AddressSanitizer instead of one made here
    JOBS=2                              how many test runs at once; the number of cores by default
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tools.commands import ROOT, Failed, call, say

WORK = ROOT / "build/native"
LOGS = WORK / "logs"
TESTS = ["tests/core", "tests/io", "tests/sync", "tests/snapshot"]

# Where CPython's sources come from: the newest version that the native backend knows and Debian has.
SOURCE_SUITE = "trixie"
SOURCE_PACKAGE = "python3.13"

# An interpreter that is built without these headers lacks modules that the tests import.
BUILD_PACKAGES = ["gcc", "g++", "make", "libc6-dev", "libffi-dev", "zlib1g-dev", "libssl-dev"]

# Tests that say nothing under AddressSanitizer.
NOT_UNDER_ASAN = [
    # Its frames in C are several times as large: deep recursion overflows the stack that CPython takes for granted.
    "tests/core/test_deep_recursion.py",
    "tests/core/test_native.py::test_a_stack_that_was_deep_does_not_keep_its_pages",
    # It keeps what was freed for a while, to see who still uses it, and notes on all that there is: resident memory grows.
    "tests/core/test_leaks.py::test_resident_memory_does_not_grow",
    "tests/core/test_leaks.py::test_stacks_and_chunks_of_many_tasklets_are_given_back",
    "tests/core/test_preempt.py::test_functions_that_ran_and_were_interrupted_give_their_memory_back",
    "tests/core/test_slices.py::test_functions_that_ran_were_preempted_and_dropped_give_their_memory_back",
    "tests/core/test_native.py::test_many_tasklets_are_few_mappings_and_little_memory",
    "tests/snapshot/test_leaks.py",
    # It needs address space itself, and ends the process when it gets none; so it does for the signal of a guard.
    "tests/core/test_native.py::test_without_address_space_tasklets_share_what_there_is",
    "tests/core/test_native.py::test_what_runs_over_the_end_of_a_stack_meets_a_guard",
    "tests/snapshot/test_images.py",
    # CPython 3.13 itself reads the freed thread state of a daemon thread, or one of C code, that is still there after the exit.
    "tests/core/test_deadlock_modes.py::test_a_timer_of_c_that_runs_its_function_in_a_thread_may_wake_main",
    "tests/core/test_threads.py::test_daemon_threads_with_tasklets_do_not_disturb_the_exit",
    "tests/core/test_slices.py::test_a_daemon_thread_in_slices_does_not_disturb_the_exit",
    "tests/io/test_responsive.py::test_a_forked_child_starts_with_the_usual_interval",
    "tests/io/test_workers.py::test_the_interpreter_exits_while_jobs_run",
    "tests/io/test_workers.py::test_a_job_may_fork_and_its_child_may_use_roamlet",
    "tests/sync/test_storm.py::test_locks_work_until_the_interpreter_ends",
]

# They need packages whose compiled parts a debug build does not load.
NEIGHBOURS = ["--ignore", "tests/core/test_neighbours.py"]

# A debug build of CPython 3.12 or later aborts where a suspended frame goes on after tracing was switched on or off: of the
# frames that were begun before, it prepares those alone that a thread has on its stack. Release builds do not mind.
TRACED_WHILE_SUSPENDED = [
    "tests/core/test_debuggers.py",
    "tests/snapshot/test_tracing.py",
    "tests/core/test_preempt_others.py::test_a_trace_function_sees_what_it_would_see_without",
    "tests/core/test_preempt_others.py::test_a_trace_function_that_asks_for_opcodes_gets_them",
    "tests/core/test_preempt_others.py::test_a_profile_function_sees_what_it_would_see_without",
    "tests/core/test_settings.py::test_a_tasklet_follows_its_threads_trace_function_until_it_is_given_its_own",
]

# A debug build of CPython 3.11 aborts where a frame that shows in no traceback returns under a trace function, by which opcodes are
# counted there. Release builds do not mind.
HIDDEN_AND_TRACED = [
    "tests/snapshot/test_tracing.py",
    "tests/snapshot/test_fuzz.py",
    *(
        f"tests/snapshot/{test}"
        for test in (
            "test_stackless_pickles.py::test_alive_paused_scheduled_and_deep_are_what_they_were",
            "test_stackless_pickles.py::test_one_that_was_interrupted_is_run_by_all_three_kinds_of_run",
            "test_states.py::test_a_preempted_one_goes_on_between_its_instructions",
            "test_states.py::test_a_preempted_one_can_be_thrown_at",
            "test_states.py::test_one_interrupted_with_nothing_in_its_frame_is_refused_and_saved_a_little_later",
        )
    ),
]

# Tests that expect the hub to be looked at only when no tasklet can run.
POLLED_LESS = [
    f"tests/core/test_hub.py::{test}"
    for test in (
        "test_poll_is_called_without_a_limit_when_nobody_can_run",
        "test_poll_gets_the_time_that_is_left_to_the_next_timer",
        "test_the_hub_is_not_asked_while_it_has_nothing_to_keep_and_run_returns",
        "test_another_thread_that_wakes_somebody_while_poll_sleeps_writes_to_the_descriptor_once",
    )
]

# Tests of how many switches pass between two looks at the timers, and how many timers of one look go before others.
PACED = [
    f"tests/core/test_timers.py::{test}"
    for test in (
        "test_timers_that_are_due_at_one_look_run_in_the_order_of_their_times",
        "test_a_new_clock_knows_nothing_of_the_pace_of_the_one_before",
    )
]

# Tests in which main switches inside a collection that it makes: it may where its stack stays in its place.
MAIN_STAYS = [
    f"tests/core/test_collecting.py::{test}"
    for test in (
        "test_another_tasklet_may_wait_while_main_is_inside_a_collection",
        "test_an_exception_on_its_way_passes_the_callback_that_is_put_back",
    )
]

# What threads share: tests that have several, most with tasklets in each. In Python as it is, so that it is roamlet's C alone
# whose accesses are seen; what orders them (the GIL, CPython's locks) are functions of the C library, which the sanitizer sees
# everywhere.
TSAN_TESTS = [
    "tests/core/test_atomic.py",
    "tests/core/test_buffer.py",
    "tests/core/test_channel.py",
    "tests/core/test_gil.py",
    "tests/core/test_networks.py",
    "tests/core/test_storm.py",
    "tests/core/test_threads.py",
    "tests/core/test_transit.py",
    "tests/sync",
    "tests/threads",
    "tests/io/test_executor.py",
    "tests/io/test_responsive.py",
    "tests/io/test_socket_storm.py",
    "tests/io/test_socket_waiters.py",
    "tests/io/test_storm.py",
    "tests/io/test_workers.py",
]
TSAN_FLAGS = "-fsanitize=thread -fno-omit-frame-pointer -g -Wno-tsan"

# Functions of others whose accesses ThreadSanitizer cannot see ordered, or that are not.
NOT_OURS = {
    "watcher_is": "CPython has no function that locks its list of thread states; a thread of C may make one without the GIL",
    "thread_find": "the same",
    "_dl_deallocate_tls": "the C library frees variables of a thread that has been joined",
    "sock_close": "a test that closes a socket by which another thread receives",
}

# Tests that say nothing under ThreadSanitizer.
NOT_UNDER_TSAN = [
    # It does not know threads that end inside a tasklet, as CPython has them do at the end of the process.
    "tests/core/test_threads.py::test_daemon_threads_with_tasklets_do_not_disturb_the_exit",
    "tests/sync/test_storm.py::test_locks_work_until_the_interpreter_ends",
    # It names the folder of the sources.
    "tests/threads/test_runner.py::test_help_and_the_folder",
]

ASAN_FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g"

NO_POOLS = "TASKLET_POOL=0 CHUNK_POOL=0 LARGE_POOL=0 GREENLET_POOL=1 SLICE_NEVER_KEPT"
FORCED = {
    "no-pools": NO_POOLS,
    "tiny-chunks": "CHUNK_SIZES={48,48,48,48,48,48}",
    "every-tick": "BASE_GAP=0 TICKS=1 TICK_NS=0",
    "frames-seen": "FRAMES_ALWAYS_SEEN STACKS_MOST=3",
    "one-stack": "STACKS_MOST=0",
}

# Tests of how much memory and address space the usual number of stacks takes: with another number they measure that one.
USUAL_STACKS = [
    f"tests/core/test_native.py::{test}"
    for test in (
        "test_what_no_tasklet_uses_goes_back_with_trim",
        "test_a_thread_that_ends_gives_back_its_stacks",
        "test_a_stack_that_was_deep_does_not_keep_its_pages",
        "test_a_tasklet_has_as_much_stack_as_a_thread_with_more_than_usual",
        "test_where_the_kernel_counts_untouched_memory_a_process_has_few_stacks",
    )
]


@dataclass
class Job:
    """One run of pytest."""

    name: str
    command: list[str]
    environment: dict[str, str]
    passed: bool = False
    summary: str = ""
    seconds: float = 0.0
    reports: list[Path] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"


# ---- what must be installed ----


def need_packages(names: list[str]) -> None:
    """Install Debian packages that are missing, as root; otherwise say what to type."""
    if not shutil.which("dpkg-query"):
        return
    missing = []
    for name in names:
        asked = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Status}", name], capture_output=True, text=True, check=False
        )
        if not asked.stdout.endswith(" installed"):
            missing.append(name)
    if not missing:
        return
    if os.geteuid() != 0:
        raise Failed(
            "Missing. Type this, then the same command again:\n"
            f"sudo apt-get update && sudo apt-get install -y {' '.join(missing)}"
        )
    say(f"Missing: {' '.join(missing)}. Installing")
    call(["apt-get", "update", "-qq"])
    call(
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing],
        DEBIAN_FRONTEND="noninteractive",
    )


def environment_of(python: str, name: str) -> Path:
    """The interpreter of a virtual environment of `python`, with what the tests need; made when it is not there."""
    folder = WORK / f"venv-{name}"
    inside = folder / "bin/python"
    stamp = folder / ".complete"
    if not stamp.exists():
        say(f"Making {folder.relative_to(ROOT)}")
        shutil.rmtree(folder, ignore_errors=True)
        quiet = {"ASAN_OPTIONS": "detect_leaks=0"}
        call([python, "-m", "venv", "--without-pip", folder], **quiet)
        install = [sys.executable, "-W", "ignore", "-m", "pip", "--python", inside, "install", "-q"]
        install += ["--disable-pip-version-check"]
        call([*install, "setuptools>=77", "pytest>=9.0", "pytest-timeout>=2.3"], **quiet)
        # Built here, so that its references are counted and its memory is watched. Its own asserts stay off, as in its
        # wheels: they take a greenlet without a Python frame, as roamlet's pool holds them, for a running one.
        call(
            [*install, "--no-cache-dir", "--no-binary", "greenlet", "greenlet>=3.0"],
            **quiet,
            CFLAGS="-DNDEBUG",
            CXXFLAGS="-DNDEBUG",
        )
        stamp.touch()
    return inside


def debug_python() -> Path:
    """A debug build of CPython, with what the tests need."""
    named = os.environ.get("ROAMLET_DEBUG_PYTHON")
    if not named:
        need_packages(["gcc", "g++", "libc6-dev", "python3-dbg", "python3-venv", "python3-dev"])
    python = named or shutil.which("python3-dbg")
    if not python:
        raise Failed("no debug build of CPython here: name one with ROAMLET_DEBUG_PYTHON=/path/to/python")
    return environment_of(python, "debug")


def cpython_source() -> Path:
    """The archive of CPython's sources, as Debian has it: fetched once, its signature checked by apt."""
    folder = WORK / "source"
    found = sorted(folder.glob("*.orig.tar.xz"))
    if found:
        return found[0]
    if not shutil.which("apt-get"):
        raise Failed("CPython's sources come from Debian: name a build with ROAMLET_ASAN_PYTHON=/path/to/python")
    say(f"Fetching the sources of {SOURCE_PACKAGE} of Debian {SOURCE_SUITE}")
    targets = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    mirrors = [line for line in call(targets).splitlines() if "security" not in line]
    if not mirrors:
        raise Failed("apt knows no mirror of Debian: apt-get update first")
    for name in ("apt/state/lists/partial", "apt/cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (folder / "sources.list").write_text(f"deb-src [signed-by={keys}] {mirrors[0]} {SOURCE_SUITE} main\n")
    options = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State": folder / "apt/state",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": folder / "apt/cache",
    }
    apt = ["apt-get", "-qq", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    call([*apt, "update"])
    done = subprocess.run(
        [*apt, "source", "--download-only", SOURCE_PACKAGE], cwd=folder, capture_output=True, text=True, check=False
    )
    found = sorted(folder.glob("*.orig.tar.xz"))
    if done.returncode or not found:
        raise Failed(f"apt-get source {SOURCE_PACKAGE}: {done.stderr[-2000:]}")
    return found[0]


def asan_python() -> Path:
    """CPython as a debug build with AddressSanitizer, made once (a few minutes), with what the tests need.

    Without marks on its stack: greenlet copies stacks and does not tell. What is of the core has them.
    """
    if named := os.environ.get("ROAMLET_ASAN_PYTHON"):
        return environment_of(named, "asan")
    need_packages(BUILD_PACKAGES)
    place = WORK / "python-asan"
    if not (place / ".complete").exists():
        archive = cpython_source()
        sources = WORK / "python-asan-build"
        shutil.rmtree(sources, ignore_errors=True)
        say(f"Building {SOURCE_PACKAGE} with AddressSanitizer, once; this takes a few minutes")
        with tarfile.open(archive) as opened:
            opened.extractall(sources, filter="data") if hasattr(tarfile, "data_filter") else opened.extractall(sources)
        (folder,) = sources.iterdir()
        build = "./configure -q --with-pydebug --with-address-sanitizer --without-ensurepip --disable-test-modules"
        script = (
            f"cd '{folder}' && {build} --prefix='{place}' CFLAGS='--param asan-stack=0'"
            f" && make -s -j{jobs()} && make -s altinstall"
        )
        call(["sh", "-c", script], ASAN_OPTIONS="detect_leaks=0")
        shutil.rmtree(sources)
        (place / ".complete").touch()
    (python,) = [path for path in (place / "bin").glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name)]
    return environment_of(str(python), "asan")


# ---- building and running ----


def jobs() -> int:
    return int(os.environ.get("JOBS") or os.cpu_count() or 1)


def build(python: Path, name: str, *, defines: str = "", flags: str = "") -> Path:
    """Build the core with asserts into a folder of its own; the folder goes into PYTHONPATH."""
    folder = WORK / f"core-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    say(f"Building the core: {name}")
    call(
        [python, "setup.py", "-q", "build", "--build-base", folder / "base", "--build-lib", folder / "lib"],
        ROAMLET_ASSERTS="1",
        ROAMLET_DEFINES=defines,
        CFLAGS=flags,
        LDFLAGS=" ".join(flag for flag in flags.split() if flag.startswith("-fsanitize")),
        ASAN_OPTIONS="detect_leaks=0",
    )
    return folder / "lib"


def backends(library: Path) -> list[str]:
    """Those that were built there, by what the modules are called."""
    names = {path.name.split(".")[0][1:] for path in (library / "roamlet/core").glob("_*.so")}
    if not names:
        raise Failed(f"no backend was built in {library}")
    return sorted(names)


def pytest(python: Path, library: Path, name: str, backend: str, *words: str, **environment: str) -> Job:
    command = [str(python), "-m", "pytest", "--color=no", "-q", "-p", "no:cacheprovider", *words]
    # What is built here is slower, and the machine may be busy: a time-out means that something hangs.
    command += ["-o", "timeout=900", "-o", "faulthandler_timeout=1200"]
    return Job(f"{name}-{backend}", command, {"PYTHONPATH": str(library), "ROAMLET_SWITCH": backend, **environment})


def without(tests: list[str]) -> list[str]:
    """The words that leave these out."""
    return [word for test in tests for word in ("--deselect", test)]


def debug() -> Iterator[Job]:
    python = debug_python()
    recent = call([python, "-c", "import sys; print(sys.version_info >= (3, 12))"]).strip() == "True"
    traced = without(TRACED_WHILE_SUSPENDED if recent else HIDDEN_AND_TRACED)
    library = build(python, "debug")
    for backend in backends(library):
        yield pytest(python, library, "debug", backend, *TESTS, *NEIGHBOURS, *traced)


def asan() -> Iterator[Job]:
    python = asan_python()
    runtimes = [call(["gcc", f"-print-file-name={name}"]).strip() for name in ("libasan.so", "libstdc++.so.6")]
    words = [*TESTS, *NEIGHBOURS, *without(NOT_UNDER_ASAN + TRACED_WHILE_SUSPENDED)]
    marked = build(python, "asan", defines=NO_POOLS, flags=ASAN_FLAGS)
    # greenlet moves slices of stack about without a word to the sanitizer: there only the heap is watched.
    unmarked = build(python, "asan-heap", defines=NO_POOLS, flags=f"{ASAN_FLAGS} --param asan-stack=0")
    for backend in backends(marked):
        reports = LOGS / f"asan-report-{backend}"
        options = f"detect_leaks=0:detect_stack_use_after_return=0:log_path={reports}"
        job = pytest(
            python,
            unmarked if backend == "greenlet" else marked,
            "asan",
            backend,
            *words,
            ASAN_OPTIONS=options,
            UBSAN_OPTIONS=f"print_stacktrace=1:log_path={reports}",
            LD_PRELOAD=":".join(runtimes),  # the second because greenlet throws C++ exceptions
        )
        job.reports = [reports]
        yield job


def tsan() -> Iterator[Job]:
    python = Path(sys.executable)
    library = build(python, "tsan", flags=TSAN_FLAGS)
    suppressed = library.parent / "not-ours"
    suppressed.write_text("".join(f"race:{name}\n" for name in NOT_OURS))
    reports = LOGS / "tsan-report"
    runtimes = [call(["gcc", f"-print-file-name={name}"]).strip() for name in ("libtsan.so", "libstdc++.so.6")]
    options = f"log_path={reports}:suppressions={suppressed}:die_after_fork=0:exitcode=0"
    # In a forked child of a process with threads, or with tasklets, which it takes for threads, it sees no order any more.
    words = [*TSAN_TESTS, "-k", "not fork and not child", *without(NOT_UNDER_TSAN)]
    job = pytest(python, library, "tsan", "native", *words, TSAN_OPTIONS=options, LD_PRELOAD=":".join(runtimes))
    job.reports = [reports]
    yield job


def leaks() -> Iterator[Job]:
    python = debug_python()
    library = build(python, "leaks")
    for backend in backends(library):
        yield pytest(
            python, library, "leaks", backend, "-p", "tools.reference_leaks", "tests/core", "tests/sync", *NEIGHBOURS
        )


def forced() -> Iterator[Job]:
    python = Path(sys.executable)
    for name, defines in FORCED.items():
        library = build(python, name, defines=defines)
        left_out = [
            *(POLLED_LESS + PACED if "TICKS" in defines else []),
            *(MAIN_STAYS if "BASE_GAP" in defines else []),
            *(USUAL_STACKS if "STACKS_MOST" in defines else []),
        ]
        words = ["tests/core", *without(left_out)]
        for backend in backends(library):
            yield pytest(python, library, f"forced-{name}", backend, *words, PYTHONMALLOC="debug")


def stress() -> Iterator[Job]:
    python = Path(sys.executable)
    library = build(python, "stress")
    for backend in backends(library):
        tests = ["tests/core/test_order_model.py", "tests/core/test_networks.py"]
        yield pytest(python, library, "stress", backend, "-m", "soak", *tests)


STEPS: dict[str, Callable[[], Iterator[Job]]] = {
    "debug": debug,
    "asan": asan,
    "tsan": tsan,
    "leaks": leaks,
    "forced": forced,
    "stress": stress,
}


def run(job: Job) -> Job:
    """Run one job to its end and say how it went."""
    started = time.monotonic()
    for pattern in job.reports:
        for old in LOGS.glob(f"{pattern.name}.*"):
            old.unlink()
    with job.log.open("w") as log:
        environment = {**os.environ, **job.environment}
        done = subprocess.run(
            job.command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
        )
    lines = job.log.read_text(errors="replace").splitlines()
    found = [path for pattern in job.reports for path in sorted(LOGS.glob(f"{pattern.name}.*"))]
    job.passed = done.returncode == 0 and not found
    job.seconds = time.monotonic() - started
    job.summary = next((line.strip("= ") for line in reversed(lines) if line.strip()), "no output")
    if found:
        job.summary += f"; {len(found)} reports of a sanitizer"
        lines += found[0].read_text(errors="replace").splitlines()[:60]
    say(f"{job.name:28} {'ok' if job.passed else 'FAILED':6} {job.summary}")
    if not job.passed:
        say("\n".join(f"    {line}" for line in lines[-80:]))
    return job


def main(names: list[str]) -> int:
    """Run the named steps, or all of them."""
    unknown = set(names) - set(STEPS)
    if unknown:
        print(f"No such step: {', '.join(sorted(unknown))}. There are: {', '.join(STEPS)}", file=sys.stderr)
        return 2
    LOGS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    finished: list[Job] = []
    refused: list[str] = []
    with ThreadPoolExecutor(jobs()) as pool:
        for name in names or STEPS:
            say(f"== {name}")
            try:
                # Built one after the other, then run side by side.
                finished += pool.map(run, list(STEPS[name]()))
            except Failed as error:
                say(str(error))
                refused.append(name)
    say(f"== make check-native, {time.monotonic() - started:.0f} s")
    for job in finished:
        say(f"{job.name:28} {'ok' if job.passed else 'FAILED':6} {job.seconds:5.0f} s  {job.summary}")
    for name in refused:
        say(f"{name:28} could not run; why stands above")
    return 0 if finished and not refused and all(job.passed for job in finished) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
