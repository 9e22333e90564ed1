"""`python -m roamlet.patch`: a program runs unchanged with the standard library made cooperative."""

import pytest

from roamlet.patch.__main__ import FOLDER
from tests.programs import printed

PATCH = ("-m", "roamlet.patch")
SHOW = "import sys, time, roamlet.patch; print(type(time.sleep).__name__, sorted(roamlet.patch.installed()), sys.argv[1:])\n"
AREAS = ["asyncio", "dns", "libraries", "locks", "select", "signals", "sleep", "sockets", "subprocess", "tls"]


@pytest.mark.parametrize("words", [("program.py", "a", "-b"), ("-c", SHOW, "a", "-b"), ("-Bm", "program", "a", "-b")])
def test_the_program_finds_the_patch_however_it_is_given(python, program, words):
    program(SHOW)
    assert printed(python(*PATCH, *words)) == f"Function {AREAS} ['a', '-b']\n"


def test_options_choose_areas_and_child_pythons_inherit_them(python, program):
    program(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {SHOW!r}], check=True)\n")
    assert printed(python(*PATCH, "--pipes", "program.py")) == f"Function {sorted([*AREAS, 'pipes'])} []\n"
    refused = python(*PATCH, "--strict=1", "program.py")
    assert (refused.returncode, refused.stderr) == (2, "python -m roamlet.patch: --strict takes no value\n")


def test_strict_ends_the_process_before_the_program_begins(python, program):
    program("from time import sleep\n", "folder/early_module.py")
    program("import early_module\n", "folder/first.pth")
    site = "import site, sys; site.addsitedir('folder')"
    program(
        f"{site}\nimport os\nfrom roamlet.patch._start import install_from\ninstall_from(os.environ)\nprint('went on')\n"
    )
    done = python("program.py", ROAMLET_PATCH_STRICT="1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "early_module.py:1: sleep is the original time.sleep" in done.stderr
    assert python(*PATCH, "--strict", "-c", "print('went on')").stdout == "went on\n"


@pytest.mark.parametrize("words", [("-E", *PATCH, "-c", SHOW), (*PATCH, "-S", "-c", SHOW)])
def test_options_that_would_defeat_it_are_refused(python, words):
    done = python(*words)
    assert (done.returncode, done.stdout) == (2, "") and "roamlet.patch.install()" in done.stderr


@pytest.mark.parametrize(
    "words", [("--stirct", "-c", SHOW), ("--pipes", "--stirct=1", "-c", SHOW), ("-B", "--stirct", "program.py")]
)
def test_an_option_that_there_is_not_is_named_beside_those_that_there_are(python, words):
    done = python(*PATCH, *words)
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "python -m roamlet.patch: --stirct is no option; those of its own, before Python's: --help, --path, --strict, --pipes, "
        "--local, --threads=os|tasklets\n",
    )


def test_options_of_python_that_are_words_are_left_to_it(python):
    assert printed(python(*PATCH, "--pipes", "--check-hash-based-pycs", "never", "-c", "print(1)", "--stirct")) == "1\n"
    assert printed(python(*PATCH, "--version")).startswith("Python 3.")


def test_help_and_the_folder(python):
    assert printed(python(*PATCH, "--help")).startswith("usage: python -m roamlet.patch ")
    assert printed(python(*PATCH, "--path")) == FOLDER + "\n"


def test_a_python_without_roamlet_keeps_its_own_library(python):
    done = python("-c", "import time; print(time.sleep)", PYTHONPATH=FOLDER, PYTHONSAFEPATH="1")
    assert "sleep" in printed(done)


def test_the_sitecustomize_that_was_there_is_imported_too(python, program, tmp_path):
    program("import time; print('other', type(time.sleep).__name__)", "folder/sitecustomize.py")
    assert printed(python(*PATCH, "-c", "", PYTHONPATH=str(tmp_path / "folder"))) == "other Function\n"
