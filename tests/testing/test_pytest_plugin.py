"""`pytest --roamlet-patch`: the standard library is cooperative before conftest.py files and test modules are imported."""

import os
import sys

import pytest

pytest_plugins = "pytester"

COOPERATIVE = """
from time import sleep

import roamlet


def test_a_wait_lets_other_tasklets_run():
    order = []
    roamlet.tasklet(order.append)("another tasklet")
    sleep(0.001)
    assert order == ["another tasklet"]
"""


@pytest.fixture
def run(pytester):
    """Run pytest in a process of its own: the patch is of the process."""

    def run(*options, plugins=("-p", "roamlet_pytest")):
        words = ("-p", "no:cacheprovider", "-W", "error::roamlet.patch.EarlyImportWarning", *plugins)
        return pytester.runpytest_subprocess(*words, *options, timeout=100)

    return run


def test_the_option_patches_before_the_tests_are_imported_and_nothing_does_without_it(pytester, run):
    pytester.makepyfile(test_it=COOPERATIVE)
    pytester.makeconftest("from time import sleep\n\n\ndef pytest_runtest_setup():\n    sleep(0)\n")
    done = run("--roamlet-patch")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["roamlet.patch: dns, sockets, *sleep*"])
    done = run()
    done.assert_outcomes(failed=1)
    done.stdout.no_fnmatch_line("roamlet.patch:*")


def test_the_entry_point_loads_the_plugin(pytester, run):
    pytester.makepyfile(test_it=COOPERATIVE)
    run("--roamlet-patch", plugins=()).assert_outcomes(passed=1)


def test_pytest_under_the_patch_does_not_warn_that_roamlet_is_there_already(pytester, monkeypatch):
    """pytest rewrites all modules of a package that has a plugin, and says which it cannot. Here roamlet is not installed as
    users have it, so another package says that it is its own.
    """
    installed = pytester.mkdir("installed")
    (installed / "harmless.py").write_text("")
    about = installed / "harmless-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: harmless\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[pytest11]\nharmless = harmless\n")
    (about / "RECORD").write_text("harmless.py,,\nroamlet/__init__.py,,\n")
    monkeypatch.setenv("PYTHONPATH", str(installed), prepend=os.pathsep)
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    pytester.makepyfile(test_it=COOPERATIVE)
    words = ("-m", "roamlet.patch", "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:roamlet_leaks.pytest_plugin")
    done = pytester.run(sys.executable, *words, timeout=100)
    assert done.ret == 0, done.stderr.str()
    done.assert_outcomes(passed=1)


def test_the_setting_adds_areas_and_leaves_some_out(pytester, run):
    pytester.makeini("[pytest]\naddopts = --roamlet-patch\nroamlet_patch = local no-subprocess\n")
    pytester.makepyfile(
        """
        from roamlet import patch


        def test_areas():
            assert "local" in patch.installed()
            assert "subprocess" not in patch.installed()
        """
    )
    run().assert_outcomes(passed=1)


def test_an_area_that_does_not_exist_is_refused(pytester, run):
    pytester.makeini("[pytest]\nroamlet_patch = clocks\n")
    done = run("--roamlet-patch")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*clocks is no argument of roamlet.patch.install(); there are asyncio, dns, *"])


def test_what_a_plugin_took_before_is_named_and_refused_when_strict(pytester, run):
    pytester.makepyfile(early_plugin="from time import sleep\n", test_it="def test_it():\n    pass\n")
    pytester.syspathinsert()
    before = ("-p", "early_plugin", "-p", "roamlet_pytest", "-W", "default::roamlet.patch.EarlyImportWarning")
    done = run("--roamlet-patch", plugins=before)
    done.assert_outcomes(passed=1, warnings=1)
    done.stdout.fnmatch_lines(["*early_plugin.py:1: sleep is the original time.sleep*"])
    pytester.makeini("[pytest]\nroamlet_patch = strict\n")
    done = run("--roamlet-patch", plugins=before)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*early_plugin.py:1: sleep is the original time.sleep*"])


def test_a_process_that_another_library_has_patched_is_refused(pytester, run):
    pytester.makepyfile(patching="from gevent import monkey\n\nmonkey.patch_time()\n", test_it="")
    pytester.syspathinsert()
    done = run("--roamlet-patch", plugins=("-p", "patching", "-p", "roamlet_pytest"))
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*--roamlet-patch: gevent.monkey.patch_all() has replaced time*"])


def test_the_patch_is_taken_out_when_pytest_ends(pytester):
    pytester.makepyfile(test_it=COOPERATIVE)
    script = pytester.makepyfile(
        run_it="""
        import pytest

        from roamlet import patch

        assert pytest.main(["--roamlet-patch", "-p", "no:cacheprovider", "test_it.py"]) == 0
        print("installed:", sorted(patch.installed()))
        """
    )
    done = pytester.runpython(script)
    done.stdout.fnmatch_lines(["* 1 passed *", "installed: []"])
