"""Importing the core: which backend is loaded, once more, and where it is refused."""

import sys

import pytest

import roamlet
from roamlet import core
from tests.core._scripts import ROOT, output_of


@pytest.mark.parametrize("value", ["nonsense", "NATIVE", " "])
def test_a_backend_that_does_not_exist_is_refused_by_name(value):
    printed = output_of(
        """
        try:
            import roamlet
        except ImportError as error:
            print(error)
        """,
        env={"ROAMLET_SWITCH": value},
    )
    assert printed == f"ROAMLET_SWITCH={value!r} names no switching backend: use native or greenlet, or unset it"


@pytest.mark.parametrize("name", ["sliced", "stacks"])
def test_a_backend_of_earlier_versions_is_refused_with_what_to_use(name):
    printed = output_of(
        """
        try:
            import roamlet
        except ImportError as error:
            print(error)
        """,
        env={"ROAMLET_SWITCH": name},
    )
    assert printed == (
        f"ROAMLET_SWITCH={name} names a switching backend that roamlet has no more: `native` does the work of both `sliced` "
        "and `stacks`. Unset it, or set ROAMLET_SWITCH=native"
    )


def test_windows_is_refused_by_name_with_what_to_do_before_anything_is_imported_that_it_lacks():
    printed = output_of(
        """
        import sys
        before = set(sys.modules)
        sys.platform = "win32"
        for name in ("fcntl", "termios", "pwd", "grp", "resource", "_posixsubprocess"):
            sys.modules[name] = None  # as there: it cannot be imported
        try:
            import roamlet
        except ImportError as error:
            print(error)
        try:
            from roamlet import remote
        except ImportError as error:
            print(error)
        print([name for name in sys.modules if name.startswith("roamlet.core._")])
        """
    )
    said = (
        "roamlet does not run on Windows (sys.platform is 'win32'): it needs Linux on x86-64 or aarch64, or macOS. On this "
        "machine, run it in the Linux of WSL (`wsl --install`, then install roamlet in there), or in a container"
    )
    assert printed.split("\n") == [said, said, "[]"]


def test_the_backend_in_use_is_named_and_its_types_do_not_tell_it():
    assert core.backend in ("native", "greenlet")
    assert roamlet.tasklet.__module__ == "roamlet" and roamlet.channel.__module__ == "roamlet"


def test_the_environment_chooses_the_backend():
    for name in ("native", "greenlet"):
        assert output_of("from roamlet import core; print(core.backend)", env={"ROAMLET_SWITCH": name}) == name


def test_greenlet_is_chosen_where_the_native_backend_cannot_be_loaded():
    source = """
        import sys
        for name in {missing}:
            sys.modules["roamlet.core._" + name] = None
        try:
            from roamlet import core
            print(core.backend)
        except ImportError as error:
            print(error)
        """
    unset = {"ROAMLET_SWITCH": ""}
    assert output_of(source.format(missing=[]), env=unset) == "native"
    assert output_of(source.format(missing=["native"]), env=unset) == "greenlet"
    printed = output_of(source.format(missing=["native", "greenlet"]), env=unset)
    assert printed.startswith("roamlet's C core cannot be loaded (native: ") and "; greenlet: " in printed


def test_imported_once_more_it_has_the_same_types_and_goes_on():
    printed = output_of("""
        import sys, roamlet
        from roamlet import core
        before = [getattr(core, name) for name in core.__all__ if isinstance(getattr(core, name), type)]
        tasklet = roamlet.tasklet(roamlet.schedule_remove)()
        roamlet.run()
        for name in [name for name in sys.modules if name.split(".")[0] == "roamlet"]:
            del sys.modules[name]
        import roamlet
        from roamlet import core
        after = [getattr(core, name) for name in core.__all__ if isinstance(getattr(core, name), type)]
        tasklet.kill()
        print(before == after, tasklet.alive, len(before) > 6)
    """)
    assert printed == "True False True"


def test_imported_once_more_locks_and_queues_have_the_same_types_and_go_on():
    printed = output_of("""
        import sys, roamlet
        from roamlet import sync
        def types():
            return [getattr(sync, name) for name in dir(sync) if isinstance(getattr(sync, name), type)]
        before = types()
        old, got = sync.Condition(), []
        class Waiting(sync.Semaphore):
            pass
        def wait():
            with old:
                got.append(old.wait(5))
        waits = roamlet.tasklet(wait)()
        roamlet.schedule()
        for _ in range(3):
            for name in [name for name in sys.modules if name.split(".")[0] == "roamlet"]:
                del sys.modules[name]
            import roamlet
            from roamlet import sync
        native = [each for each in types() if each.__module__ == "roamlet.sync" and each in before and each is not sync.ShutDown]
        with old:
            old.notify()
        roamlet.run()
        print(got, sorted(each.__name__ for each in native), issubclass(Waiting, sync.Semaphore), type(old) is sync.Condition)
    """)
    assert printed == (
        "[True] ['BoundedSemaphore', 'Condition', 'Event', 'LifoQueue', 'Lock', 'PriorityQueue', 'Queue', 'RLock', 'Semaphore',"
        " 'SimpleQueue', 'local'] True True"
    )


# What gives an interpreter its own GIL, and what lets it share the main one's. 3.11 knows the latter only.
KINDS = ["legacy", "isolated"] if sys.version_info >= (3, 12) else ["legacy"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [True, False])
def test_a_subinterpreter_is_refused_whether_or_not_the_main_one_has_it(kind, first):
    printed = output_of(f"""
        import sys
        if {first}:
            import roamlet
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
            other = interpreters.create({kind!r})
        else:
            import _xxsubinterpreters as interpreters
            other = interpreters.create(isolated={kind!r} == "isolated")
        interpreters.run_string(other, '''if True:
            for _ in range(2):
                try:
                    import roamlet
                except ImportError as error:
                    print("refused:", error)
        ''')
        interpreters.destroy(other)
        import roamlet
        roamlet.tasklet(print)("the main one works")
        roamlet.run()
    """)
    refused = (
        "refused: roamlet works in the main interpreter only: "
        "its schedulers belong to OS threads, which subinterpreters share"
    )
    assert printed.splitlines() == [refused, refused, "the main one works"]


def test_a_free_threaded_build_is_refused_and_told_what_to_use_instead():
    printed = output_of("""
        import sys
        sys.abiflags = "t"
        try:
            import roamlet
        except ImportError as error:
            print(error)
    """)
    assert printed.startswith(
        f"roamlet does not run on a free-threaded build of CPython ({sys.executable}), not even with"
    )
    assert f"mostly called python{sys.version_info[0]}.{sys.version_info[1]}. What would have" in printed
    assert printed.endswith("docs/design/free-threading.md of roamlet's sources")


def test_a_free_threaded_build_is_refused_at_installation_too():
    printed = output_of(f"""
        import runpy
        import sys
        sys.abiflags = "t"
        try:
            runpy.run_path({str(ROOT / "setup.py")!r})
        except SystemExit as error:
            print(error)
    """)
    assert "for a free-threaded build" in printed
    assert (ROOT / printed.split()[-1]).is_file()
