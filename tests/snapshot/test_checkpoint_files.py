"""The file of a checkpoint: whole or as it was, whatever happens to the disk, to the process, or comes in from others."""

import contextlib
import errno
import fcntl
import os
import resource
import signal
import stat
import subprocess
import sys
import textwrap

import pytest

import roamlet
from roamlet import snapshot
from roamlet.snapshot.image import file


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "job.roamlet")


def counts(path, log, ballast=""):
    """A job that saves itself at each step; what went wrong there is noted."""
    for number in range(4):
        try:
            roamlet.checkpoint(path)
        except OSError as error:
            log.append((number, error.errno, str(error)))
        roamlet.schedule()
    return ballast


def begun(path, *more):
    """A job that has saved itself once, in the run queue, and what it notes."""
    log = []
    tasklet = roamlet.tasklet(counts)(path, log, *more)
    roamlet.schedule()
    return tasklet, log


def number_in(path):
    """How far the job was in the file."""
    copy = snapshot.loads(open_and_read(path))
    try:
        return copy.frame.f_locals["number"]
    finally:
        copy.kill()


def open_and_read(path):
    with open(path, "rb") as stream:
        return stream.read()


@contextlib.contextmanager
def file_size_limit(size):
    """What the system writes beyond it fails with EFBIG, as it does with ENOSPC on a full disk, after a short write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_write_that_fails_in_the_middle_leaves_the_last_good_one(path):
    tasklet, log = begun(path, "x" * 20_000)
    good = open_and_read(path)
    with file_size_limit(5_000):
        roamlet.schedule()
    assert [(number, code) for number, code, _ in log] == [(1, errno.EFBIG)]
    assert log[0][2] == (
        f"cannot write the checkpoint {path!r}: File too large. The last one that was written is still there"
    )
    assert open_and_read(path) == good
    assert os.listdir(os.path.dirname(path)) == ["job.roamlet"]
    roamlet.schedule()
    assert len(log) == 1 and number_in(path) == 2  # there is room again, and the job goes on saving
    tasklet.kill()


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_at_each_step(path, call, monkeypatch):
    tasklet, log = begun(path)
    good = open_and_read(path)

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(file.os, call, full)
        roamlet.schedule()
    assert [(number, code) for number, code, _ in log] == [(1, errno.ENOSPC)]
    assert "No space left on device" in log[0][2]
    assert (open_and_read(path), os.listdir(os.path.dirname(path))) == (good, ["job.roamlet"])
    tasklet.kill()


def test_the_data_is_on_the_disk_before_it_has_the_name_and_the_name_behind_it(path, monkeypatch):
    order = []

    def noted(name, real):
        def call(*args):
            order.append(
                name if name != "fsync" or not stat.S_ISDIR(os.fstat(args[0]).st_mode) else "fsync of the folder"
            )
            return real(*args)

        return call

    tasklet, log = begun(path)
    with monkeypatch.context() as patched:
        for name in ("write", "fsync", "replace"):
            patched.setattr(file.os, name, noted(name, getattr(os, name)))
        roamlet.schedule()
    assert (order, log) == (["write", "fsync", "replace", "fsync of the folder"], [])
    tasklet.kill()


def test_a_folder_that_cannot_be_synced_is_said_and_the_next_one_is_written(path, monkeypatch):
    tasklet, log = begun(path)

    def broken(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(file.os, "fsync", broken)
        roamlet.schedule()
    assert [code for _, code, _ in log] == [errno.EIO]
    roamlet.schedule()
    assert len(log) == 1 and number_in(path) == 2
    tasklet.kill()


def said(path):
    """The error of checkpoint() for this path, in a job."""
    log = []
    roamlet.tasklet(counts)(path, log)
    roamlet.run()
    assert {number for number, _, _ in log} == {0, 1, 2, 3}
    return log[0][2]


def test_paths_that_cannot_be_written_are_said(tmp_path):
    assert "No such file or directory" in said(str(tmp_path / "none" / "job.roamlet"))
    (tmp_path / "file").write_text("")
    assert "Not a directory" in said(str(tmp_path / "file" / "job.roamlet"))
    (tmp_path / "folder").mkdir()
    assert "it is there, and is no plain file" in said(str(tmp_path / "folder"))
    os.mkfifo(tmp_path / "pipe")
    assert "it is there, and is no plain file" in said(str(tmp_path / "pipe"))
    assert "File name too long" in said(str(tmp_path / ("x" * 250)))
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "pipe"]


def test_a_link_is_followed_and_stays_one(path, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    real = tmp_path / "elsewhere" / "real.roamlet"
    os.symlink(real, path)
    tasklet, log = begun(path)
    assert os.path.islink(path) and real.stat().st_mode & 0o777 == 0o600 and log == []
    tasklet.kill()


def test_what_a_killed_process_left_half_written_is_taken_over(path):
    with open(path + file.PARTIAL, "wb") as stream:
        stream.write(b"half a checkpoint" * 1000)
    os.chmod(path + file.PARTIAL, 0o644)
    tasklet, log = begun(path)
    assert (number_in(path), log, os.stat(path).st_mode & 0o777) == (0, [], 0o600)
    assert os.listdir(os.path.dirname(path)) == ["job.roamlet"]
    tasklet.kill()


@pytest.mark.parametrize("kind", ["hard link", "symbolic link", "pipe"])
def test_what_somebody_else_put_there_gets_nothing_of_it(path, tmp_path, kind):
    planted = path + file.PARTIAL
    theirs = tmp_path / "theirs"
    if kind == "hard link":
        theirs.write_text("")
        os.link(theirs, planted)
    elif kind == "symbolic link":
        theirs.write_text("")
        os.symlink(theirs, planted)
    else:
        os.mkfifo(planted)
    tasklet, log = begun(path)
    assert (number_in(path), log) == (0, [])
    assert kind == "pipe" or theirs.read_text() == ""
    assert not os.path.lexists(planted)
    tasklet.kill()


# ---- two jobs on one path ----


def test_two_jobs_of_one_process_are_told_apart(path):
    first, log = begun(path)
    _, other_log = begun(path)
    roamlet.run()
    assert log == []
    assert [number for number, _, _ in other_log][:3] == [0, 1, 2]  # as long as the first one lives
    assert "keeps its own there. Give each job a file of its own" in other_log[0][2]
    assert not first.alive


def test_a_job_may_take_over_the_file_of_one_that_has_ended(path):
    first, _ = begun(path)
    first.kill()
    second, log = begun(path)
    assert log == []
    second.kill()


def test_a_job_that_was_resumed_while_it_still_runs_is_noticed_by_whoever_comes_second(path, tmp_path):
    tasklet, log = begun(path)
    # The same job in another process, which says nothing of this one's.
    other = subprocess.run(
        [sys.executable, "-c", textwrap.dedent("""
            import sys, roamlet
            from roamlet import snapshot
            snapshot.resume(sys.argv[1])
            roamlet.run()
        """), path],
        capture_output=True, text=True, timeout=60, check=False, cwd=os.getcwd(),
    )  # fmt: skip
    assert (other.returncode, other.stderr) == (0, "")
    assert number_in(path) == 3
    roamlet.schedule()
    assert [(number, code) for number, code, _ in log] == [(1, errno.EEXIST)]
    assert "somebody else has written it since this job has" in log[0][2]
    assert number_in(path) == 3
    tasklet.kill()


def test_a_file_that_somebody_moved_away_is_written_anew(path):
    tasklet, log = begun(path)
    os.rename(path, path + ".kept")
    roamlet.schedule()
    assert (log, number_in(path), number_in(path + ".kept")) == ([], 1, 0)
    tasklet.kill()


def test_one_that_is_being_written_by_another_right_now_is_left_alone(path):
    descriptor = os.open(path + file.PARTIAL, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        message = said(path)
    finally:
        os.close(descriptor)
    assert "another job is writing it right now" in message
    assert not os.path.exists(path)


def test_a_resumed_job_goes_on_writing_the_file_it_came_from(path, tmp_path):
    tasklet, _ = begun(path)
    tasklet.kill()
    moved = str(tmp_path / "moved.roamlet")
    os.rename(path, moved)
    copy = snapshot.resume(moved)
    roamlet.run()
    assert not copy.alive
    assert (os.path.exists(path), number_in(moved)) == (False, 3)
