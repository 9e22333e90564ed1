"""Extension modules that travel into the memory of a bare interpreter of the same version, and why others do not."""

import contextlib
import importlib
import logging
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import roamlet
from roamlet import core, remote
from roamlet.remote import modules
from tests.remote import interpreters
from tests.remote.inside import calls_of, link_of
from tests.remote.modules.conftest import Make, make  # noqa: F401
from tests.remote.native_modules import SUFFIX, compile_shared, multi, single
from tests.remote.stopping import stop

for large in (
    "numpy",
    "pydantic",
    "PIL._imagingft",
):  # here, as numpy cannot be imported again once a fixture has forgotten it
    with contextlib.suppress(ImportError):
        importlib.import_module(large)

BASE = getattr(sys, "_base_executable", sys.executable)
USES = {
    "uses_numpy": """
        import os
        import numpy

        def solve():
            return numpy.linalg.solve(numpy.array([[3.0, 1], [1, 2]]), numpy.array([9.0, 8])).tolist()

        def where():
            return numpy.__file__, numpy._core._multiarray_umath.__file__, numpy.linalg._umath_linalg.__spec__.origin

        def memory():
            # Of each descriptor of an extension module's file, whether that is loaded: others have come along.
            with open("/proc/self/maps") as file:
                mapped = {int(line.split()[4]) for line in file if "memfd:roamlet-" in line}
            found = [int(one) for one in os.listdir("/proc/self/fd") if os.path.islink("/proc/self/fd/" + one)
                     and "memfd:roamlet-" in os.readlink("/proc/self/fd/" + one)]
            return {one: os.fstat(one).st_ino in mapped for one in found}

        def limits():
            import fcntl, resource
            kept = [one for one, loaded in memory().items() if loaded]
            return resource.getrlimit(resource.RLIMIT_NOFILE), kept, {fcntl.fcntl(one, 1034) & 15 for one in kept}

        def mapped():
            with open("/proc/self/maps") as file:
                return sorted({line.split(None, 5)[5].strip() for line in file if "numpy" in line or "memfd" in line})
    """,
    "uses_pydantic": """
        import pydantic

        class User(pydantic.BaseModel):
            name: str
            age: int

        def validate(**values):
            try:
                return User.model_validate(values).model_dump()
            except pydantic.ValidationError as error:
                return error.errors()[0]["type"]
    """,
    "uses_native": """
        import os, subprocess, threading
        from native import multi, both, twin
        import native, package_in_c

        def answers():
            return [(one.answer(), one.phase, one.__name__, one.__spec__.origin == one.__file__)
                    for one in (multi, both, twin, package_in_c)]

        def kinds():
            from importlib import machinery
            return [type(multi.__loader__).__name__, isinstance(multi.__loader__, machinery.ExtensionFileLoader),
                    multi.__loader__.is_package("native.multi"), package_in_c.__path__, multi.__package__,
                    package_in_c.__loader__.is_package("package_in_c")]

        def below():
            from package_in_c import plain
            return plain.value

        def through_libraries():
            from native import chained
            return chained.answer()

        def through_a_cycle():
            from native import cyclic
            return cyclic.answer()

        def through_the_same_again():
            from native import cyclic, again
            return again.answer()

        def by_a_name_that_is_not_its_own():
            from native import renamed
            return renamed.answer()

        def which_twin():
            from native import doubled
            return doubled.KIND, doubled.__loader__.__class__.__name__, doubled.__file__.rpartition(".")[2]

        def which_fallback():
            from native import unloadable
            return unloadable.KIND, type(unloadable.__loader__).__name__, unloadable.__file__.rpartition(".")[2]

        def missing_library():
            from native import lacking

        def inherited():
            return subprocess.check_output(["ls", "-l", "/proc/self/fd"]).decode()

        def forked():
            child = os.fork()
            if not child:
                try:
                    from native import chained
                    os._exit(chained.answer())
                finally:
                    os._exit(1)
            return os.waitpid(child, 0)[1] >> 8

        def at_once():
            results = []
            def one():
                from native import chained
                results.append(chained.answer())
            threads = [threading.Thread(target=one) for _ in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            return results
    """,
}

DRAWS = """
    from PIL import Image, ImageDraw, ImageFont

    def width():
        font = ImageFont.load_default(20)
        assert isinstance(font, ImageFont.FreeTypeFont)
        image = Image.new("L", (200, 40))
        ImageDraw.Draw(image).text((0, 0), "roamlet", fill=255, font=font)
        return image.getbbox()[2]
"""
USES_FROM = """
    def answer():
        try:
            from from_native import nothing_like_it
        except ImportError:
            from from_native import multi
        return multi.answer()
"""
USES_TWIN = """
    def kind():
        from twin_package import only
        return only.KIND
"""


@pytest.fixture
def uses(make: Make) -> Callable[[str], ModuleType]:  # noqa: F811
    """uses("uses_numpy") imports the module of that name, whose functions a context is to call."""

    def write(name: str) -> ModuleType:
        make({f"{name}.py": USES[name]})
        return importlib.import_module(name)

    return write


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter that this one's environment was made with: the same version without any packages, whatever it has."""
    path = tmp_path_factory.mktemp("bare") / "python"
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(BASE)} -S "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def bare(bare_python: str) -> Iterator[remote.Context]:
    with remote.local(python=bare_python) as context:
        assert {"numpy", "pydantic", "pydantic_core"}.isdisjoint(context.facts.packages)
        yield context


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with extension modules of each kind."""
    folder = tmp_path_factory.mktemp("native")
    native = folder / "native"
    compile_shared(multi("multi"), native / f"multi{SUFFIX}")
    compile_shared(multi("both", "43") + single("twin"), native / f"both{SUFFIX}")
    (native / f"twin{SUFFIX}").hardlink_to(native / f"both{SUFFIX}")
    compile_shared(multi("package_in_c", "44"), folder / "package_in_c" / f"__init__{SUFFIX}")
    (folder / "package_in_c" / "plain.py").write_text("value = 45\n")
    libraries = folder / "native.libs"
    compile_shared(
        "int deep(void) { return 46; }", libraries / "libroamletdeep-1.so", "-Wl,-soname,libroamletdeep-1.so"
    )
    own = ("-Wl,-rpath,$ORIGIN", "-L", str(libraries))
    compile_shared(
        "int deep(void); int middle(void) { return deep() + 1; }",
        libraries / "libroamletmiddle.so",
        "-Wl,-soname,libroamletmiddle.so",
        *own,
        "-l:libroamletdeep-1.so",
    )
    beside = ("-Wl,-rpath,$ORIGIN/../native.libs", "-L", str(libraries), "-l:libroamletmiddle.so")
    compile_shared(multi("chained", "middle()", "int middle(void);"), native / f"chained{SUFFIX}", *beside)
    nowhere = compile_shared(
        "int nowhere(void) { return 1; }", folder / "libroamletnowhere.so", "-Wl,-soname,libroamletnowhere.so"
    )
    compile_shared(multi("lacking", "nowhere()", "int nowhere(void);"), native / f"lacking{SUFFIX}", str(nowhere))
    compile_shared(multi("unloadable", "nowhere()", "int nowhere(void);"), native / f"unloadable{SUFFIX}", str(nowhere))
    (native / "unloadable.py").write_text("KIND = 'python'\n")
    compile_in_a_cycle(libraries)
    cyclic = (*beside[:3], "-l:libroamletping.so")
    declared = "int ping(int n);"
    compile_shared(multi("cyclic", "ping(5)", declared), native / f"cyclic{SUFFIX}", *cyclic)
    compile_shared(multi("again", "ping(3)", declared), native / f"again{SUFFIX}", *cyclic)
    compile_shared("int unnamed(void) { return 51; }", libraries / "libroamletunnamed.so")
    renamed = (*beside[:3], "-l:libroamletunnamed.so")
    compile_shared(multi("renamed", "unnamed()", "int unnamed(void);"), native / f"renamed{SUFFIX}", *renamed)
    compile_shared(with_kind(multi("doubled")), native / f"doubled{SUFFIX}")
    (native / "doubled.py").write_text("KIND = 'python'\ndef answer():\n    return 42\n")
    (native / "__init__.py").write_text("")
    return folder


def compile_in_a_cycle(folder: Path) -> None:
    """ping needs pong, which needs ping and tail, which needs pong."""
    own = ("-Wl,-rpath,$ORIGIN", "-L", str(folder))
    functions = {
        "ping": "int pong(int n); int ping(int n) { return n ? pong(n - 1) + 1 : 0; }",
        "pong": "int tail(int n); int ping(int n); int pong(int n) { return n ? ping(n - 1) + 1 : tail(0); }",
        "tail": "int pong(int n); int tail(int n) { return n ? pong(n - 1) : 100; }",
    }
    needed = {"ping": ("pong",), "pong": ("ping", "tail"), "tail": ("pong",)}
    for with_needed in (False, True):  # the first time there is nothing that could be linked against
        for name, source in functions.items():
            libraries = [f"-l:libroamlet{one}.so" for one in needed[name]] if with_needed else []
            soname = f"-Wl,-soname,libroamlet{name}.so"
            compile_shared(source, folder / f"libroamlet{name}.so", soname, *own, "-Wl,--no-as-needed", *libraries)


def with_kind(source: str) -> str:
    return source.replace('"phase", "multi"', '"KIND", "native"')


@pytest.fixture
def native(compiled: Path, uses: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(compiled))
    return uses("uses_native")


def test_numpy_solves_from_memory(bare: remote.Context, uses: Callable[[str], ModuleType]) -> None:
    pytest.importorskip("numpy")
    module = uses("uses_numpy")
    before = bare.call(os.listdir, ("/proc/self/fd",))
    assert bare.call(module.solve) == [2.0, 3.0]
    assert bare.stats.round_trips == 0
    assert all(path.startswith("roamlet:") and "numpy" in path for path in bare.call(module.where))
    assert all("memfd" in line for line in bare.call(module.mapped))
    waiting = [one for one, loaded in bare.call(module.memory).items() if not loaded]
    low = [one for one in map(int, bare.call(os.listdir, ("/proc/self/fd",))) if one < 100 and one not in waiting]
    assert len(low) == len(before)


def test_pydantic_validates_from_memory(bare: remote.Context, uses: Callable[[str], ModuleType]) -> None:
    pytest.importorskip("pydantic")
    module = uses("uses_pydantic")
    assert bare.call(module.validate, kwargs={"name": "a", "age": "3"}) == {"name": "a", "age": 3}
    assert bare.call(module.validate, kwargs={"name": "a", "age": "x"}) == "int_parsing"
    assert bare.stats.round_trips <= 1  # it looks for plugins in the metadata of all distributions


def test_modules_of_each_kind_are_loaded(bare: remote.Context, native: ModuleType) -> None:
    assert bare.call(native.answers) == [
        (42, "multi", "native.multi", True),
        (43, "multi", "native.both", True),
        (43, "single", "native.twin", True),
        (44, "multi", "package_in_c", True),
    ]
    kind, is_pythons, package, path, parent, is_package = bare.call(native.kinds)
    assert (kind, is_pythons, package, parent, is_package) == ("Loader", True, False, "native", True)
    assert path[0].startswith("roamlet:") and path[0].endswith("package_in_c")
    assert bare.call(native.below) == 45
    assert bare.stats.round_trips == 0
    assert "memfd" not in bare.call(native.inherited)


def test_they_pass_through_another_context(bare: remote.Context, bare_python: str, native: ModuleType) -> None:
    with remote.local(python=bare_python, via=bare, tasklets=core.backend != "greenlet") as behind:
        assert behind.call(native.answers)[0] == (42, "multi", "native.multi", True)
        assert behind.call(native.through_libraries) == 47


def test_libraries_are_loaded_in_the_order_in_which_they_need_each_other(
    bare: remote.Context, native: ModuleType
) -> None:
    assert bare.call(native.through_libraries) == 47
    assert bare.stats.round_trips <= 3  # it is not loaded here, so it goes when it is asked for


def test_libraries_that_need_each_other_are_loaded_together(bare: remote.Context, native: ModuleType) -> None:
    assert bare.call(native.through_a_cycle) == 105
    assert bare.call(native.through_the_same_again) == 103
    assert "memfd" not in bare.call(native.inherited)


def test_a_library_without_a_name_of_its_own_is_found_by_that_of_its_file(
    bare: remote.Context, native: ModuleType
) -> None:
    assert bare.call(native.by_a_name_that_is_not_its_own) == 51


def test_a_pillow_wheel_draws_text_from_memory(bare: remote.Context, make: Make) -> None:  # noqa: F811
    pytest.importorskip("PIL._imagingft")
    make({"draws.py": DRAWS})
    draws = importlib.import_module("draws")
    assert bare.call(draws.width) == draws.width() > 0


def test_an_extension_module_is_sent_although_a_python_file_lies_beside_it(
    bare: remote.Context, native: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    assert bare.call(native.which_twin) == ("native", "Loader", "so")
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_the_python_file_takes_the_place_of_what_cannot_be_loaded_and_a_warning_says_so(
    bare_python: str, native: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    with remote.local(python=bare_python) as context:
        assert context.call(native.which_fallback) == ("python", "Importer", "py")
    (warning,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert warning == (
        f"{context.name} runs native.unloadable uncompiled: the Python file beside it is sent in its place. "
        "The extension module was sent, but could not be loaded there. Install native on the target"
    )


def test_a_package_that_runs_uncompiled_is_named_once_and_each_package_is(caplog: pytest.LogCaptureFixture) -> None:
    with remote.local() as context:
        for names in (["one.a", "one.b", "two.c"], ["one.d"], ["two.e", "three.f"]):
            calls_of(context).shipping._warn([modules.Missing(name, "Why.") for name in names])
        context.call(os.getpid)
    said = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert sorted(line.partition(" runs ")[2].partition(" ")[0] for line in said) == ["one.a", "three.f", "two.c"]
    assert any(", and those of one.b in theirs. Why." in line for line in said)


@pytest.mark.parametrize("version", [name for name in interpreters.others() if name in ("2.7", "3.13", "3.8")])
def test_the_python_file_goes_where_the_extension_module_cannot_run_and_a_warning_says_so(
    native: ModuleType,
    compiled: Path,
    make: Make,  # noqa: F811
    version: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    make({"twin_package/__init__.py": "", "twin_package/only.py": "KIND = 'python'", "uses_twin.py": USES_TWIN})
    (Path(importlib.import_module("twin_package").__file__ or "").parent / f"only{SUFFIX}").hardlink_to(
        compiled / "native" / f"doubled{SUFFIX}"
    )
    uses_twin = importlib.import_module("uses_twin")
    with remote.local(python=interpreters.found()[version]) as context:
        assert context.call(uses_twin.kind) == "python"
    (warning,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert warning.startswith(
        f"{context.name} runs twin_package.only uncompiled: the Python file beside it is sent in its place. "
        f"twin_package.only is an extension module (only{SUFFIX}), which cannot be sent: it is built for cpython "
    )
    assert f"and the target is cpython {version}" in warning


@pytest.mark.parametrize("version", [name for name in interpreters.others() if name in ("3.13", "3.8")])
def test_an_import_of_a_name_says_again_why_the_extension_module_is_not_there(
    compiled: Path,
    native: ModuleType,
    make: Make,  # noqa: F811
    version: str,
) -> None:
    make({"from_native/__init__.py": "", "uses_from.py": USES_FROM})
    folder = Path(importlib.import_module("from_native").__file__ or "").parent
    (folder / f"multi{SUFFIX}").hardlink_to(compiled / "native" / f"multi{SUFFIX}")
    uses_from = importlib.import_module("uses_from")
    with remote.local(python=interpreters.found()[version]) as context:
        notes = failure_notes(context, uses_from.answer)
    assert (
        f"from_native.multi is an extension module (multi{SUFFIX}), which cannot be sent: it is built for" in notes[-1]
    )
    assert notes[-1].endswith("Install from_native on the target.")


def failure_notes(context: remote.Context, function: Callable[[], object]) -> list[str]:
    try:
        context.call(function)
    except ImportError as error:
        return list(error.__notes__)
    pytest.fail("no ImportError was raised")


def test_threads_that_import_the_same_at_once_share_what_comes(bare: remote.Context, native: ModuleType) -> None:
    assert bare.call(native.at_once) == [47] * 8
    assert bare.call(native.forked) == 47


def test_a_library_that_the_target_lacks_is_named(bare: remote.Context, native: ModuleType) -> None:
    with pytest.raises(
        ImportError,
        match=r"native.lacking came from the parent, but cannot be loaded here: libroamletnowhere.so: cannot open .*"
        "Install native over there, or the library that is missing",
    ):
        bare.call(native.missing_library)


@pytest.mark.parametrize("version", [name for name in interpreters.others() if name in ("2.7", "3.13", "3.8")])
def test_another_python_is_refused_before_anything_is_sent(native: ModuleType, version: str) -> None:
    here = f"cpython {sys.version_info[0]}.{sys.version_info[1]}"
    with remote.local(python=interpreters.found()[version]) as context:
        with pytest.raises(
            remote.CannotTravel,
            match=rf"which cannot be sent: it is built for {here} \({SUFFIX[1:-3]}\) on linux .* and the target is "
            rf"cpython {version}.* on linux2? .*Install ",
        ):
            context.call(native.answers)
        assert context.stats.modules == 0


READ_ONLY = """#!/bin/sh
exec unshare --mount --propagation private sh -c '
    for one in /tmp /var/tmp /dev/shm /run; do test -d $one && mount -t tmpfs -o ro none $one; done
    mount -o remount,bind,ro / || exit 1
    cut -d" " -f2 /proc/mounts | grep -v "^/proc" | while read one; do mount -o remount,bind,ro "$one" 2>/dev/null; done
    exec {python} -S "$@"' sh "$@"
"""


def test_a_read_only_root_without_tmp_is_enough(
    tmp_path: Path,
    uses: Callable[[str], ModuleType],
    make: Make,  # noqa: F811
) -> None:
    pytest.importorskip("numpy")
    if os.getuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        pytest.skip("a mount namespace needs root")
    make(
        {
            "writer.py": """
            import os, tempfile
            def tried():
                refused = []
                for folder in ("/", "/tmp", "/var/tmp", "/dev/shm", "/run", "/root", "/usr"):
                    try:
                        os.close(os.open(os.path.join(folder, "roamlet-try"), os.O_CREAT | os.O_WRONLY))
                    except OSError as error:
                        refused.append(error.errno)
                    else:
                        refused.append(folder)
                return refused
            """
        }
    )
    wrapper = tmp_path / "python"
    wrapper.write_text(READ_ONLY.format(python=BASE))
    wrapper.chmod(0o755)
    writer: Any = importlib.import_module("writer")
    module = uses("uses_numpy")
    with remote.local(python=str(wrapper)) as context:
        assert set(context.call(writer.tried)) == {30}  # EROFS
        assert context.call(module.solve) == [2.0, 3.0]


@pytest.mark.parametrize("hops", [["bare"], ["2.7", "bare"]], ids=["one", "two"])
def test_behind_intermediaries_each_file_crosses_each_link_once(
    bare_python: str, uses: Callable[[str], ModuleType], hops: list[str]
) -> None:
    module = uses("uses_numpy")
    via = None
    with contextlib.ExitStack() as opened:
        for hop in hops:
            via = opened.enter_context(remote.local(python=interpreters.found().get(hop, bare_python), via=via))
        assert via is not None
        trunk = link_of(via).trunk
        taken = []
        for _ in range(3):
            before = 0 if trunk is None else trunk.link.sender.bytes_down
            with remote.local(python=bare_python, via=via) as behind:
                assert behind.call(module.solve) == [2.0, 3.0]
                trunk = link_of(behind).trunk
                assert trunk is not None
            taken.append(trunk.link.sender.bytes_down - before)
        assert taken[0] > 5_000_000
        assert max(taken[1:]) < 30_000


def test_a_context_that_does_not_read_is_sent_no_more_of_its_files_than_its_window(
    bare: remote.Context, bare_python: str, uses: Callable[[str], ModuleType]
) -> None:
    module = uses("uses_numpy")
    with remote.local(python=bare_python, via=bare) as first:
        first.call(module.solve)  # now the intermediary has them
        with remote.local(python=bare_python, via=bare) as behind:
            behind.call(os.getpid)
            stop(behind.facts.pid)
            solving = roamlet.spawn(behind.call, (module.solve,))
            tunnel = link_of(behind).process
            while not tunnel._needed:
                roamlet.sleep(0.01)
                assert first.call(os.getpid) == first.facts.pid
            assert tunnel._sent - tunnel._arrived <= tunnel._window
            os.kill(behind.facts.pid, signal.SIGCONT)
            assert solving.join() == [2.0, 3.0]


def test_what_an_intermediary_has_no_room_for_is_sent_again(
    bare: remote.Context, bare_python: str, uses: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = uses("uses_numpy")
    with remote.local(python=bare_python, via=bare) as first:
        first.call(os.getpid)
        cache = link_of(bare).bundle_cache
        assert cache is not None
        monkeypatch.setattr(cache.pieces, "_most", 1 << 20)
        contexts = [first, remote.local(python=bare_python, via=bare), remote.local(python=bare_python, via=bare)]
        calls = [roamlet.spawn(one.call, (module.solve,)) for one in contexts]
        assert [one.join() for one in calls] == [[2.0, 3.0]] * 3
        assert cache.pieces._size <= 1 << 20
        assert link_of(bare).sender.bytes_down > 10_000_000
        for one in contexts[1:]:
            one.close()


def test_the_source_of_a_module_is_looked_at_without_anything_else(make: Make) -> None:  # noqa: F811
    make({"looked_at.py": "import package_of_many\ndef f():\n    return 1\n", "package_of_many.py": "x = 1\n"})
    importlib.import_module("looked_at")
    sent = {"looked_at", "package_of_many"}
    answer = modules.pull("!looked_at", sent, frozenset(sys.stdlib_module_names))
    assert answer.modules == ("looked_at",)
    assert not answer.has_more


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_multiprocessing_starts_load_from_the_memory_of_theirs(
    bare: remote.Context, native: ModuleType, method: str
) -> None:
    names = ["native.multi", "native.chained", "native.cyclic", "native.again", "package_in_c"]
    processes = importlib.import_module("roamlet_native_processes")
    assert bare.call(processes.load, (names,)) == [42, 47, 105, 103, 44]
    started = bare.call(processes.pooled, (method, "work", names[::-1]), timeout=60)
    assert [answer for answer, _ in started] == [44, 103, 105, 47, 42]
    assert {pid for _, pid in started}.isdisjoint({bare.facts.pid, os.getpid()})


GLOBALS = ["__builtins__", "__doc__", "__loader__", "__name__", "__package__", "__spec__", "chained", "plain", "sys"]


def test_a_python_that_is_executed_finds_what_came(bare: remote.Context, native: ModuleType, tmp_path: Path) -> None:
    processes = importlib.import_module("roamlet_native_processes")
    code = bare.call(processes.executed, (["-BW", "error", "-c", processes.PROGRAM, "a", "-c"],))
    assert code == f"47 45 ['a', '-c'] __main__ {GLOBALS}\n"
    script = tmp_path / "script.py"
    script.write_text(processes.PROGRAM)
    printed = bare.call(processes.executed, ([str(script), "b"],))
    assert printed == f"47 45 ['b'] __main__ {sorted([*GLOBALS, '__file__'])}\n"
    module = bare.call(processes.executed, (["-m", "roamlet_native_processes", "c"],), {"close_fds": False})
    assert module == "47 __main__\n['c']\n"
    assert bare.call(processes.executed_twice) == f"47 45 ['inner'] __main__ {GLOBALS}\n"
    assert bare.call(processes.executed, (["-"],)) == "42\n"
    error = bare.call(processes.executed, (["-c", "\n\nimport roamlet_absent_there"],))
    assert 'File "<string>", line 3' in error
    assert "only what had come there by then" in error
    assert "roamlet-modules" not in bare.call(native.inherited)
    printed, files = bare.call(processes.executed_often, (9,))
    assert printed == {"44\n"}
    assert files <= 3


def test_what_had_not_come_or_is_closed_there_is_named(bare: remote.Context, native: ModuleType) -> None:
    processes = importlib.import_module("roamlet_native_processes")
    assert bare.call(processes.load, (["native.multi"],)) == [42]
    (problem,) = bare.call(processes.pooled, ("spawn", "problem", ["native.both"]), timeout=60)
    assert "import it there before" in problem
    problem = bare.call(processes.closed_there, ("native.multi",), timeout=60)
    assert "its files had not come or were closed by then" in problem


@pytest.mark.parametrize(
    ("limit", "first"), [("-Sn 256", 256), ("-n 400", 300), ("-Sn 20000", 8192)], ids=["soft", "hard", "ample"]
)
def test_files_of_modules_that_are_loaded_take_numbers_that_no_program_needs(
    bare_python: str, uses: Callable[[str], ModuleType], tmp_path: Path, limit: str, first: int
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nulimit {limit}\nexec {shlex.quote(bare_python)} "$@"\n')
    python.chmod(0o755)
    module = uses("uses_numpy")
    with remote.local(python=str(python)) as context:
        assert context.call(module.solve) == [2.0, 3.0]
        limits, kept, sealed = context.call(module.limits)
        assert limits[0] == int(limit.split()[1])
        assert len(kept) >= 4
        assert min(kept) >= first
        assert sealed == {15}


COLD = """
import sys, threading
from roamlet import remote
import pickle, json, decimal, fractions, html.parser

def work():
    import decimal, fractions, html.parser, roamlet_cold
    return str(decimal.Decimal(1) + fractions.Fraction(1).numerator) + roamlet_cold.word

results, errors = [], []
start = threading.Barrier(8)

def one():
    start.wait()
    try:
        with remote.local(sys.argv[1]) as context:
            results.append(context.call(work))
    except BaseException as error:
        errors.append(repr(error))

if __name__ == "__main__":
    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(results, errors)
"""


def test_threads_that_open_the_first_contexts_of_a_process_at_once_get_them(bare_python: str, tmp_path: Path) -> None:
    (tmp_path / "cold.py").write_text(COLD)
    (tmp_path / "roamlet_cold.py").write_text("word = ' cold'\n")
    for _ in range(3):
        words = [sys.executable, str(tmp_path / "cold.py"), bare_python]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.strip() == f"{['2 cold'] * 8} []", done.stderr
