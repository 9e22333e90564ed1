"""A file that is replaced as a whole: after a crash there is the old one or the new one, and never half of either."""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator

from roamlet._checkpoint_files import Written
from roamlet.snapshot._errors import CannotWrite

PARTIAL = ".partial"  # added to the file's name while it is being written


def identity_of(status: os.stat_result) -> tuple[int, ...]:
    """What differs between two files, and between two states of one."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def replace(written: Written, data: bytes) -> None:
    """Put the data into written.file, with mode 0600. CannotWrite when that fails, or another has written it since we have.

    The data is on the disk before it has the file's name. Blocks the thread.
    """
    partial = written.file + PARTIAL
    try:
        with _locked(partial) as descriptor:
            _check(written)
            _write(descriptor, data)
            os.replace(partial, written.file)
            written.identity = identity_of(os.fstat(descriptor))
        _sync_folder(os.path.dirname(written.file))
    except CannotWrite:
        raise
    except OSError as error:
        kept = "" if written.identity is None else ". The last one that was written is still there"
        raise cannot_write(written.file, f"{error.strerror or error}{kept}", error.errno) from error


def cannot_write(file: str, why: str, number: int | None) -> CannotWrite:
    """The error that a checkpoint cannot be written, and why."""
    made = CannotWrite(f"cannot write the checkpoint {file!r}: {why}")
    made.errno = number
    return made


@contextlib.contextmanager
def _locked(partial: str) -> Iterator[int]:
    """A descriptor of the empty file `partial`, ours alone. It goes when it has not been renamed."""
    descriptor = _opened(partial)
    try:
        yield descriptor
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
    finally:
        os.close(descriptor)


def _opened(partial: str) -> int:
    """A file that a killed process has left is taken over; one that another user could have put there is not."""
    while True:
        if os.path.islink(partial):
            os.unlink(partial)
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            if _is_ours(descriptor, partial):
                os.fchmod(descriptor, 0o600)
                os.ftruncate(descriptor, 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_ours(descriptor: int, partial: str) -> bool:
    """Whether the file is locked for us. False: it was taken away, open it again."""
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_nlink > 1 or not stat.S_ISREG(status.st_mode):
        os.unlink(partial)
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise cannot_write(
            partial.removesuffix(PARTIAL),
            "another job is writing it right now. Give each job a file of its own",
            errno.EBUSY,
        ) from None
    except OSError:  # a file system without locks: there is only the check of what was written
        pass
    try:
        return identity_of(os.stat(partial)) == identity_of(os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _check(written: Written) -> None:
    """Whether the file is still what this job has left there; CannotWrite."""
    try:
        status = os.stat(written.file)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode):
        raise cannot_write(written.file, "it is there, and is no plain file", errno.EEXIST)
    if written.identity is not None and identity_of(status) != written.identity:
        raise cannot_write(
            written.file,
            "somebody else has written it since this job has, perhaps the same job, resumed twice. Give each job a file of "
            "its own, and end one of the two",
            errno.EEXIST,
        )


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _sync_folder(folder: str) -> None:
    """So that the new name is on the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that has no such thing
            raise
    finally:
        os.close(descriptor)
