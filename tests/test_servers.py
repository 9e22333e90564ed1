"""Servers that do not start, do not end, or whose data cannot be made: each is an error, and nothing is left."""

import os
import signal
import sys
import textwrap

import pytest

from tools import servers

SERVER = """\
#!{python}
import os, pathlib, signal, socket, sys, time
pathlib.Path("../pids").open("a").write(f"{{os.getpid()}} ")
listener = socket.socket(socket.AF_UNIX)
def listen(backlog=5):
    listener.bind("server.sock")
    listener.listen(backlog)
"""


@pytest.fixture
def short(monkeypatch):
    """What does not end is waited for in vain, so not for long."""
    monkeypatch.setattr(servers, "START", 2.0)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Make a server of these lines, and of those that make its data; what is called then runs it."""
    monkeypatch.setattr(servers.tempfile, "tempdir", str(tmp_path))

    def make(lines, maker=None):
        for name, text in (("server", lines), ("maker", maker or "")):
            program = tmp_path / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(SERVER.format(python=sys.executable) + textwrap.dedent(text))
            program.chmod(0o755)
        described = servers.Server(
            package="none",
            program=str(tmp_path / "bin/server").lstrip("/"),
            arguments=(),
            listens=(),
            silent=(),
            socket="server.sock",
            before=("maker",) if maker is not None else (),
            end=signal.SIGQUIT,
        )
        monkeypatch.setitem(servers.SERVERS, "fake", described)
        return servers.running("fake", tmp_path)

    yield make
    pids = (tmp_path / "pids").read_text().split()
    assert pids and not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "pids"]


def test_a_server_runs_for_the_block(server):
    with server("listen(); signal.pause()", maker="") as folder:
        assert (folder / "server.sock").exists()


def test_one_that_ignores_its_signal_is_killed(server, monkeypatch):
    with server("signal.signal(signal.SIGQUIT, signal.SIG_IGN); listen(); time.sleep(1000)"):
        monkeypatch.setattr(servers, "START", 0.1)


def test_one_that_crashes_says_so(server):
    with pytest.raises(RuntimeError, match="fake ended with status -6: "), server("os.abort()"):
        pass


def test_one_that_never_listens_is_not_ready_in_time(server, short):
    with pytest.raises(RuntimeError, match="fake is not ready in time: "), server("signal.pause()"):
        pass


@pytest.mark.parametrize("maker", ["time.sleep(1000)", "sys.exit('no room')"], ids=["hangs", "fails"])
def test_data_that_cannot_be_made(server, short, maker):
    with pytest.raises(RuntimeError, match="maker'] has failed: "), server("listen(); signal.pause()", maker):
        pass


def test_a_ready_file_that_is_gone_is_no_error_of_its_own(tmp_path):
    assert not servers._is_ready("postgresql", str(tmp_path))


def test_without_unshare_root_cannot_run_it(server, tmp_path, monkeypatch):
    monkeypatch.setattr(servers.os, "geteuid", lambda: 0)
    running = server("signal.pause()")
    monkeypatch.setitem(servers.SERVERS, "fake", servers.SERVERS["fake"]._replace(not_root=True))
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "pids").write_text("0 ")
    with pytest.raises(servers.CannotRun, match="no user namespaces"), running:
        pass


def test_what_the_block_raises_ends_the_server(server):
    with pytest.raises(ZeroDivisionError), server("listen(); signal.pause()"):
        assert 1 // 0
