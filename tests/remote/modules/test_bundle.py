"""Bundles are built once for all targets with the same needs, kept within bounds, and built anew when something changed."""

import importlib
import os
import signal
import sys
import threading
import warnings

import pytest

from roamlet.remote import modules
from roamlet.remote.modules import bundle as bundles
from roamlet.remote.modules.bounded import Bounded
from roamlet.wire.modules import bundle as wire_bundle
from tests.remote.modules.conftest import Make


def sources_of(bundle: modules.Bundle | None) -> dict[str, bytes]:
    assert bundle is not None
    return {name: source for name, _, source, _ in wire_bundle.unpack(bundle.data)[0]}


def test_what_was_sent_before_is_left_out(make: Make, bare: frozenset[str]) -> None:
    make({"upper.py": "import lower, absent_one", "lower.py": "", "absent_one.py": ""})
    importlib.import_module("upper")
    first = modules.plan("lower", (), bare)
    assert first is not None
    second = modules.plan("upper", first.names, bare)
    assert second is not None
    assert first.modules == ("lower",)
    assert set(second.modules) == {"upper", "absent_one"}
    assert second.absent == ()
    assert modules.plan("upper", {*first.names, *second.names}, bare) is None


def test_a_module_whose_file_has_changed_is_sent_as_it_is_now(make: Make, bare: frozenset[str]) -> None:
    top = make({"edited.py": "first = 1"})
    before = sources_of(modules.plan("edited", (), bare))
    (top / "edited.py").write_text("import other\nsecond_time = 2\n")
    (top / "other.py").write_text("")
    os.utime(top / "edited.py", ns=(1, 1))
    after = sources_of(modules.plan("edited", (), bare))
    assert before == {"edited": b"first = 1"}
    assert after == {"edited": b"import other\nsecond_time = 2\n", "other": b""}


def test_what_the_parent_loads_later_is_noticed(make: Make, bare: frozenset[str]) -> None:
    make({"maybe.py": "import sys\nif len(sys.argv) > 1000:\n    import rare", "rare.py": ""})
    importlib.import_module("maybe")
    assert set(sources_of(modules.plan("maybe", (), bare))) == {"maybe"}
    importlib.import_module("rare")
    assert set(sources_of(modules.plan("maybe", (), bare))) == {"maybe", "rare"}


def test_targets_that_differ_only_in_what_does_not_matter_share_one_bundle(make: Make, bare: frozenset[str]) -> None:
    make({"shared.py": "import common", "common.py": ""})
    importlib.import_module("shared")
    one = modules.plan("shared", (), bare)
    other = modules.plan("shared", (), bare | {"numpy", "unrelated"})
    third = modules.plan("shared", (), bare | {"common"})
    assert one is not None and other is not None and third is not None
    assert one.data is other.data
    assert third.modules == ("shared",)


def test_of_many_threads_that_need_the_same_one_builds_it(
    make: Make, bare: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make({"wanted.py": "import also", "also.py": ""})
    importlib.import_module("wanted")
    built: list[object] = []
    compress = bundles._compress
    monkeypatch.setattr(bundles, "_compress", lambda *args: built.append(args) or compress(*args))
    results: list[modules.Bundle | None] = []
    threads = [threading.Thread(target=lambda: results.append(modules.plan("wanted", (), bare))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert len({id(result.data) for result in results if result is not None}) == 1


def test_trim_forgets_what_was_built(make: Make, bare: frozenset[str]) -> None:
    make({"kept.py": ""})
    first = modules.plan("kept", (), bare)
    modules.trim()
    again = modules.plan("kept", (), bare)
    assert first is not None and again is not None
    assert first.data == again.data
    assert first.data is not again.data


def test_a_pull_brings_the_module_with_what_it_needs(make: Make, bare: frozenset[str]) -> None:
    make({"asked/__init__.py": "", "asked/part.py": "import needed", "needed.py": ""})
    assert set(modules.pull("asked.part", (), bare).modules) == {"asked", "asked.part", "needed"}
    assert set(modules.pull("asked.part", {"asked", "needed", "asked.part"}, bare).modules) == {"asked.part"}


@pytest.mark.parametrize(
    "name", ["missing_one", "os.missing_one", "missing.one", "", ".", "a..b", "\u00fc\x00", "x" * 5000]
)
def test_a_pull_for_what_is_nowhere_says_so_and_never_fails(name: str, bare: frozenset[str]) -> None:
    bundle = modules.pull(name, (), bare)
    assert bundle.modules == ()
    assert bundle.second_wave(()) is None
    assert wire_bundle.unpack(bundle.data)[0] == []


def test_a_pull_for_a_standard_module_tells_which_python_has_it(bare: frozenset[str]) -> None:
    bundle = modules.pull("zoneinfo", (), bare - {"zoneinfo"})
    assert "is new in Python 3.9" in wire_bundle.unpack(bundle.data)[2]["zoneinfo"]


def test_a_bounded_cache_forgets_what_was_used_longest_ago() -> None:
    cache: Bounded[str, bytes] = Bounded(10, len)
    cache.put("a", b"1234")
    cache.put("b", b"1234")
    assert cache.get("a") == b"1234"
    cache.put("c", b"1234")
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (b"1234", None, b"1234")
    cache.put("too large", b"12345678901")
    assert cache.get("too large") is None
    cache.put("a", b"1")
    cache.put("d", b"12345")
    assert len(cache) == 3
    cache.clear()
    assert len(cache) == 0


def test_planning_imports_nothing_and_leaves_no_file_behind(make: Make, bare: frozenset[str]) -> None:
    top = make({"quiet/__init__.py": "raise SystemExit", "quiet/part.py": "import quiet.more", "quiet/more.py": ""})
    before = set(sys.modules)
    assert set(sources_of(modules.plan("quiet.part", (), bare))) == {"quiet", "quiet.part", "quiet.more"}
    assert set(sys.modules) == before
    assert not list(top.rglob("*.pyc"))


def test_a_forked_process_plans_although_another_thread_was_planning(make: Make, bare: frozenset[str]) -> None:
    make({"forked.py": ""})
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with bundles._building, bundles._built._lock:
            held.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork while threads run, which is what this is about
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if modules.plan("forked", (), bare) is not None else 1)
    release.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_file_that_is_only_opened_does_not_travel(make: Make, bare: frozenset[str]) -> None:
    make(
        {
            "opens/__init__.py": "import os\nname = os.path.join(os.path.dirname(__file__), 'secret.json')",
            "opens/secret.json": "{}",
            "reads/__init__.py": "from importlib import resources\nname = 'words.json'",
            "reads/words.json": "{}",
            "reads/other.json": "{}",
        }
    )
    opens, reads = modules.plan("opens", (), bare), modules.plan("reads", (), bare)
    assert opens is not None and reads is not None
    assert opens.files == ("roamlet.wire.modules.resources", "roamlet.wire.modules.paths")
    assert reads.files == ("reads/words.json", "roamlet.wire.modules.resources")
    assert modules.plan("reads", reads.names, bare) is None
