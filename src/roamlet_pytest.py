"""The pytest plugin: `pytest --roamlet-patch` makes the standard library cooperative before the first conftest.py is imported, and
pytest-xdist's `--tx roamlet//ssh=alpha` runs tests in contexts.

A module of its own beside the package: every run of pytest where roamlet is installed loads it, and most do not ask for it.
"""

import os
import sys
from contextlib import ExitStack
from typing import Any

import pytest

__all__ = [
    "pytest_addoption",
    "pytest_configure",
    "pytest_load_initial_conftests",
    "pytest_report_header",
    "pytest_xdist_setupnodes",
]

# pytest's own, which were imported before: they wait for nothing while a test runs, or must not be replaced.
_OF_PYTEST = {"_pytest", "pluggy", "pytest", "pytest_timeout", "xdist", "execnet"}


_RESTARTS = 4  # of each worker on average, as pytest-xdist has it for -n

_SYS_PATH: pytest.StashKey[list[str]] = pytest.StashKey()
"""Of the configuration: sys.path as it was before pytest added anything to it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare --roamlet-patch and the setting roamlet_patch."""
    parser.getgroup("roamlet").addoption(
        "--roamlet-patch",
        action="store_true",
        help="make the standard library cooperative for the tests: roamlet.patch.install()",
    )
    parser.addini(
        "roamlet_patch",
        "arguments of roamlet.patch.install() for --roamlet-patch: an area to add (local, pipes), 'strict', "
        "or one to leave out (no-subprocess)",
        type="args",
        default=[],
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Install before conftest.py files and test modules are imported; take out when pytest ends."""
    early_config.stash[_SYS_PATH] = [os.path.abspath(path) for path in sys.path]
    if not early_config.known_args_namespace.roamlet_patch:
        return
    # Inside: see the first comment.
    import warnings

    from roamlet import patch

    words = early_config.getini("roamlet_patch")
    options: Any = {word.removeprefix("no-"): not word.startswith("no-") for word in words}
    unknown = options.keys() - patch.Options.__optional_keys__
    if unknown:
        raise pytest.UsageError(
            f"roamlet_patch: {', '.join(sorted(unknown))} is no argument of roamlet.patch.install(); "
            f"there are {', '.join(sorted(patch.Options.__optional_keys__))}, each also as no-AREA"
        )
    strict = options.pop("strict", False)
    patched = ExitStack()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", patch.EarlyImportWarning)  # told below, less what is pytest's
        try:
            patched.enter_context(patch.patched(**options))
        except patch.OtherPatch as error:
            raise pytest.UsageError(f"--roamlet-patch: {error}") from None
    early_config.add_cleanup(patched.close)
    early = [each for each in patch.status().early if each.module.partition(".")[0] not in _OF_PYTEST]
    if early and strict:
        raise pytest.UsageError(str(patch.EarlyImport(early)))
    if early:
        early_config.issue_config_time_warning(patch.EarlyImportWarning(early), stacklevel=2)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """A line for what is in place, and for what has no effect."""
    said = []
    if config.getoption("--roamlet-patch"):
        from roamlet import patch

        said.append(f"roamlet.patch: {', '.join(patch.status().areas)}")
    if _is_for_hosts(config) and config.getoption("dist", "no") == "no":
        said.append("roamlet: all tests run here, as --tx says nothing without -d or --dist")
    return said


def _is_for_hosts(config: pytest.Config) -> bool:
    return any("roamlet" in spec for spec in config.getoption("tx", []))


def pytest_configure(config: pytest.Config) -> None:
    """Limit how many workers are replaced on hosts: xdist goes on for ever when each one dies as it starts."""
    if _is_for_hosts(config) and config.getoption("maxworkerrestart", None) is None:
        config.option.maxworkerrestart = str(_RESTARTS * len(config.getoption("tx")))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Bring the project to the hosts of `--tx roamlet//...`, before xdist makes workers there."""
    if any(spec.roamlet for spec in specs):
        from roamlet.testing import xdist

        sys_path: list[str] = config.stash[_SYS_PATH]
        xdist.prepare(config, specs, sys_path)
