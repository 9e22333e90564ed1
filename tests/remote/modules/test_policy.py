"""Which modules travel to a context and whose copy counts there, by the policy that it was opened with."""

import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from roamlet import remote
from roamlet.remote import modules
from roamlet.remote.modules.finding import versions
from tests.remote.modules.conftest import Make
from tests.remote.raising import raises

APP = """
def tried(name):
    try:
        __import__(name)
    except ImportError as error:
        return str(error)
    return None

def value():
    import shared_one
    return shared_one.value

def needs_the_secret():
    import secret_one.inner
    return secret_one.inner.value
"""


@pytest.fixture
def app(make: Make) -> object:
    make(
        {
            "app_one.py": APP,
            "shared_one.py": "value = 'from the parent'",
            "secret_one/__init__.py": "",
            "secret_one/inner.py": "value = 1",
            "certain.py": "import secret_one.inner\ndef function():\n    return 1",
        }
    )
    return importlib.import_module("app_one")


@pytest.fixture
def target_with(tmp_path: Path) -> Callable[[dict[str, str]], str]:
    """The path of an interpreter that has these files among its own packages."""

    def made(files: dict[str, str]) -> str:
        base = getattr(sys, "_base_executable", sys.executable)
        subprocess.run([base, "-m", "venv", "--without-pip", tmp_path / "there"], check=True, timeout=60)
        (site,) = (tmp_path / "there" / "lib").glob("python*/site-packages")
        for name, text in files.items():
            (site / name).parent.mkdir(exist_ok=True)
            (site / name).write_text(text)
        return str(tmp_path / "there" / "bin" / "python")

    return made


def test_what_is_denied_never_travels_and_its_import_names_the_policy(app: object) -> None:
    with remote.local(modules=remote.Modules(deny=["secret_one.inner"])) as context:
        said = context.call(app.tried, ("secret_one.inner",))  # type: ignore[attr-defined]
        assert "secret_one.inner is kept back: this context was opened with Modules(deny=['secret_one.inner'])" in said
        with pytest.raises(ImportError, match=r"is kept back: this context was opened with Modules\(deny="):
            context.call(app.needs_the_secret)  # type: ignore[attr-defined]
        assert context.call(app.tried, ("secret_one",)) is None  # type: ignore[attr-defined]


def test_what_is_not_allowed_never_travels_and_its_import_names_the_policy(app: object) -> None:
    with remote.local(modules=remote.Modules(allow=["app_one", "secret_one.inner"])) as context:
        said = context.call(app.tried, ("shared_one",))  # type: ignore[attr-defined]
        assert (
            "shared_one is kept back: this context was opened with Modules(allow=[...]), which does not name it" in said
        )
        assert context.call(app.needs_the_secret) == 1  # type: ignore[attr-defined]
        assert context.call(app.tried, ("json",)) is None  # type: ignore[attr-defined] # the target's own


def test_the_main_script_goes_by_the_name_that_it_has_here() -> None:
    assert not remote.Modules(allow=["__main__"]).refusal(modules.main_script.TRAVELS_AS)
    for policy in (remote.Modules(allow=["app"]), remote.Modules(deny=["__main__"])):
        assert policy.refusal(modules.main_script.TRAVELS_AS).startswith("__main__ is kept back")


def test_a_call_that_certainly_needs_what_is_kept_back_is_refused_before_anything_is_sent(app: object) -> None:
    certain = importlib.import_module("certain")
    with remote.local(modules=remote.Modules(deny=["secret_one"])) as context:
        with pytest.raises(remote.CannotTravel, match=r"certain imports secret_one.*deny=\['secret_one'\]"):
            context.call(certain.function)
        assert context.stats.modules == 0
    with remote.local(modules=remote.Modules(deny=["app_one"])) as context:
        with pytest.raises(remote.CannotTravel, match=r"the module app_one cannot be sent: app_one is kept back"):
            context.call(app.tried, ("json",))  # type: ignore[attr-defined]


def test_two_policies_do_not_share_what_was_planned(app: object, bare: frozenset[str]) -> None:
    everything = modules.plan("certain", (), bare)
    assert everything is not None
    assert "secret_one.inner" in everything.modules
    with pytest.raises(remote.CannotTravel):
        modules.plan("certain", (), bare, None, remote.Modules(deny=["secret_one"]))
    again = modules.plan("certain", (), bare)
    assert again is not None
    assert (again.names, again.data) == (everything.names, everything.data)


@pytest.mark.parametrize(
    ("prefer", "expected"),
    [
        ("target", "from the target"),
        ("parent", "from the parent"),
        ({"shared_one": "parent"}, "from the parent"),
        ({"other": "parent"}, "from the target"),
    ],
)
def test_whose_copy_of_a_package_counts_is_decided_when_the_context_is_opened(
    app: object, target_with: Callable[[dict[str, str]], str], prefer: str, expected: str
) -> None:
    python = target_with({"shared_one.py": "value = 'from the target'"})
    with remote.local(python=python, modules=remote.Modules(prefer=prefer)) as context:
        assert "shared_one" in context.facts.packages
        assert context.call(app.value) == expected  # type: ignore[attr-defined]
        assert context.stats.round_trips == 0


def installed(version: str) -> dict[str, str]:
    return {
        f"Shared.One-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: Shared.One\nVersion: {version}\n",
        f"Shared.One-{version}.dist-info/RECORD": "shared_one.py,sha256=x,1\n",
    }


@pytest.mark.parametrize(
    ("prefer", "there", "expected"),
    [
        ({"shared_one": "newer"}, "1.9", "from the parent"),
        ({"shared_one": "newer"}, "1.10.post1", "from the target"),
        ("newer", "1.10rc1", "from the parent"),
        ("newer", "1.10", "from the target"),
        ({"shared_one": "same"}, "1.10", "from the target"),
    ],
)
def test_the_newer_copy_counts_where_the_policy_says_so(
    app: object, make: Make, target_with: Callable[[dict[str, str]], str], prefer: str, there: str, expected: str
) -> None:
    make(installed("1.10"))
    python = target_with({"shared_one.py": "value = 'from the target'", **installed(there)})
    with remote.local(python=python, modules=remote.Modules(prefer=prefer)) as context:
        assert context.call(app.value) == expected  # type: ignore[attr-defined]


NEWER = """
def imports():
    from shared_one import newer
    return newer

def uses():
    import shared_one
    return shared_one.newer
"""


@pytest.mark.parametrize("there", ["1.9", "1.10"])
def test_a_name_that_another_version_of_a_package_lacks_is_told_with_both_versions(
    app: object, make: Make, target_with: Callable[[dict[str, str]], str], there: str
) -> None:
    make(
        {
            **installed("1.10"),
            "newer_one.py": NEWER,
            "needs_newer.py": "from shared_one import newer\ndef f():\n    return newer\n",
        }
    )
    (sys.modules.get("shared_one") or importlib.import_module("shared_one")).newer = 1  # type: ignore[attr-defined]
    functions = importlib.import_module("newer_one")
    said = r"shared_one is 1\.9 on the target and 1\.10 here, .*Install the same version"
    with remote.local(python=target_with({"shared_one.py": "", **installed(there)})) as context:
        for function, kind in ((functions.imports, ImportError), (functions.uses, AttributeError)):
            with raises(kind, match="newer") as caught:
                context.call(function)
            notes = "\n".join(caught.value.__notes__)
            assert bool(re.search(said, notes, re.DOTALL)) is (there == "1.9")
        with raises(remote.RemoteModuleNotFound, match="cannot import name 'newer'") as caught:
            context.call(importlib.import_module("needs_newer").f)
        assert bool(re.search(said, str(caught.value), re.DOTALL)) is (there == "1.9")
        assert caught.value.msg == str(caught.value)


@pytest.mark.parametrize("there", ["1.9", ""])
def test_a_context_whose_versions_conflict_is_not_opened(
    app: object, make: Make, target_with: Callable[[dict[str, str]], str], there: str
) -> None:
    make(installed("1.10"))
    files = installed(there) if there else {}
    python = target_with({"shared_one.py": "value = 'from the target'", **files})
    said = f"shared_one is {there or 'of no known version'} on the target and 1.10 here"
    with pytest.raises(remote.VersionConflict, match=said):
        remote.local(python=python, modules=remote.Modules(prefer={"shared_one": "same"}))


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("", "0"),
        ("1.9", "1.10"),
        ("1.0.dev1", "1.0a1"),
        ("1.0a1", "1.0b1"),
        ("1.0b2", "1.0rc1"),
        ("1.0rc1", "1.0"),
        ("1.0", "1.0.post1"),
        ("1.0", "1.0.1"),
        ("2020.1", "1!1.0"),
    ],
)
def test_versions_are_compared_as_installers_do(older: str, newer: str) -> None:
    assert versions.compare(older, newer) < 0 < versions.compare(newer, older)


def test_versions_that_mean_the_same_are_equal() -> None:
    for one, other in (("1.0", "1.0.0"), ("1.0+local", "1.0"), ("V1.0RC1", "1.0c1"), ("9" * 5000, "9" * 6000)):
        assert versions.compare(one, other) == 0


def test_the_standard_library_is_always_the_target_s(app: object) -> None:
    with remote.local(modules=remote.Modules(prefer="parent")) as context:
        assert context.call(app.tried, ("json",)) is None  # type: ignore[attr-defined]
        assert context.stats.modules == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"deny": "django"},
            r"deny takes a list of names of modules, such as \['django', 'app.secrets'\], not 'django'",
        ),
        ({"allow": ["no-name"]}, "allow takes a list of names"),
        ({"allow": [None]}, "allow takes a list of names"),
        ({"prefer": "mine"}, "prefer must be one of 'target', 'parent', 'newer', 'same', not 'mine'"),
        ({"prefer": {"requests": "best"}}, r"prefer\['requests'\] must be one of"),
        ({"prefer": {"a.b": "parent"}}, "prefer takes top-level packages such as 'requests', not 'a.b'"),
        ({"bytecode": "yes"}, "bytecode must be True, False or None, not 'yes'"),
        ({"compression": "zip"}, "compression must be one of 'zlib', 'xz', 'zstd' or None, not 'zip'"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        remote.Modules(**options)  # type: ignore[arg-type]


def test_a_policy_is_a_policy() -> None:
    with pytest.raises(TypeError, match=r"modules= takes a remote.Modules\(...\), not \['django'\]"):
        remote.local(modules=["django"])  # type: ignore[arg-type]
