"""The scripts of README.md, of the tutorial and of some how-tos run as they stand and print what the page says they print."""

import importlib.util
import os
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT, Script, scripts
from tests.remote.sshd import running_sshd
from tests.snapshot.conftest import KNOWN
from tools.unpack_debian import CannotUnpack

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("tutorial/*.md")),
    *([ROOT / "docs/howto/checkpoints.md"] if KNOWN else []),
    ROOT / "docs/howto/from-gevent.md",
    ROOT / "docs/howto/exceptions-that-keep-memory.md",
    ROOT / "docs/howto/use-blocking-libraries.md",
    ROOT / "docs/reference/leaks.md",
    ROOT / "docs/howto/use-tls.md",
]


# The other blocks of the page are signatures.
EXECUTOR = [*scripts(ROOT / "docs/reference/executor.md")[:1], *scripts(ROOT / "docs/reference/execnet.md")[:1]]

# Those of joblib, where scikit-learn is installed.
JOBLIB = [
    script
    for page in ("reference/joblib.md", "howto/scikit-learn-over-ssh.md")
    for script in scripts(ROOT / "docs" / page)[:1]
    if importlib.util.find_spec("sklearn") is not None
]

# Those of Dask, where it is installed.
DASK = [
    script
    for page in ("reference/dask.md", "howto/dask-over-ssh.md")
    for script in scripts(ROOT / "docs" / page)[:1]
    if importlib.util.find_spec("distributed") is not None and importlib.util.find_spec("pyarrow") is not None
]

# Those scripts of a page that stand for themselves, where the library that they need is installed.
AIOHTTP = [
    script
    for script in scripts(ROOT / "docs/howto/use-asyncio-libraries.md")
    if "aiohttp" in script.text and importlib.util.find_spec("aiohttp") is not None
]

# On backends that see no frames, no tasklet moves.
MOVING = scripts(ROOT / "docs/howto/move-a-running-tasklet.md")[:1] if KNOWN else []


def run(script, folder, *words, environment=None, timeout=60, warnings="error"):
    path = folder / "script.py"
    path.write_text(script.text)
    return subprocess.run(
        [sys.executable, "-W", warnings, str(path), *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A real sshd, and the environment in which `ssh` reads the server's client configuration."""
    folder = tmp_path_factory.mktemp("sshd")
    try:
        with running_sshd(folder) as started:
            wrapper = folder / "bin" / "ssh"
            wrapper.parent.mkdir()
            wrapper.write_text(f'#!/bin/sh\nPATH=${{PATH#*:}} exec ssh {" ".join(started.ssh_args)} "$@"\n')
            wrapper.chmod(0o755)
            yield started.host, {**os.environ, "PATH": f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}"}
    except CannotUnpack as reason:
        pytest.skip(f"no sshd: {reason}")


@pytest.mark.parametrize(
    "script", [*scripts(*PAGES), *EXECUTOR, *MOVING, *AIOHTTP, *JOBLIB, *DASK], ids=lambda script: script.name
)
def test_a_script_of_the_documentation_runs_and_prints_what_the_page_says(script: Script, tmp_path):
    done = run(script, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == script.prints


def test_the_first_script_for_hosts_reaches_a_host_over_ssh(server, tmp_path):
    *_, hosts = scripts(ROOT / "README.md")
    host, environment = server
    done = run(hosts, tmp_path, host, environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{host} CPython\n"


def test_the_first_scripts_for_tasklets_for_sockets_and_for_hosts_are_in_the_readme():
    first, second, third = scripts(ROOT / "README.md")
    assert "roamlet.tasklet(" in first.text
    assert "io.create_server(" in second.text
    assert "remote.ssh(" in third.text


@pytest.mark.exhaustive(
    reason="tests/remote/dask has hosts over ssh where nothing is installed, and this page runs here"
)
@pytest.mark.skipif(not DASK, reason="Dask with dataframes is not installed")
def test_the_groupby_of_the_page_on_dask_runs_on_three_hosts(server, tmp_path):
    host, environment = server
    options = {
        "environment": environment,
        "timeout": 300,
        "warnings": "ignore",
    }  # Dask's, of another patch release there
    done = run(DASK[-1], tmp_path, host, host, "roamlet-second-name", **options)
    assert (done.returncode, done.stdout) == (0, DASK[-1].prints), done.stderr
