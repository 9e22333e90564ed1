"""One file on one side of a transfer: read in pieces, or written beside its name and put in place at once.

On a target its functions are called; the parent's end of a transfer is the same classes. Whole folders are in
roamlet.wire.files.trees, what both stand on in roamlet.wire.files.folders. Paths are bytes.

Nothing waits for its turn except `finish` and `stop_reading`, so that a transfer of many pieces in flight holds one thread of the
target's.
"""

import collections
import errno
import fcntl
import os
import stat
import threading

from roamlet.wire.codec import PY2, int_types
from roamlet.wire.files.folders import (
    CLOEXEC,
    NOFOLLOW,
    PRIVATE,
    absolute,
    beside,
    close_on_exec,
    opened_parent,
    shown,
    sync,
    wrong,
)
from roamlet.wire.link.link import retry

PIECE = 1 << 18  # bytes that travel at once
_ZEROS = b"\0" * PIECE
_MOST_UNMEASURED = 1 << 24  # bytes of a file that says it has none, such as those of /proc
_PLAIN_MODE = 0o777  # of a mode, what is kept without the owner: no set-uid bit for somebody else


def install(child):
    """Have unfinished files removed when the link ends, unless a transfer may resume them."""
    child.life.on_loss.append(_discard_all)


def raw(data):
    """Return bytes so that they arrive as bytes: on 2.7 a str would become text wherever it can."""
    return bytearray(data) if PY2 else data


# ---- what is known of a file


def facts_of(status):
    """Return [mode, mtime in nanoseconds, size, owner] of a stat result; the owner is [user id, group id, user, group]."""
    mtime = getattr(status, "st_mtime_ns", None)
    if mtime is None:
        mtime = int(status.st_mtime * 1000000000)
    return [status.st_mode, mtime, status.st_size, _owner_of(status.st_uid, status.st_gid)]


def _owner_of(uid, gid):
    import grp
    import pwd

    names = []
    for look_up, number in ((pwd.getpwuid, uid), (grp.getgrgid, gid)):
        try:
            names.append(look_up(number)[0])
        except KeyError:
            names.append(None)
    return [uid, gid] + names


def set_facts(fd, facts, keep):
    """Give the open file or folder the mode out of `facts`, and owner and time where `keep` has these words.

    "bits": the set-uid, set-gid and sticky bits too, as with "owner".
    """
    mode, mtime, _, owner = facts
    allowed = 0o7777 if "bits" in keep or "owner" in keep else _PLAIN_MODE
    if "owner" in keep:
        os.fchown(fd, *_ids_here(*owner))  # first: it takes set-uid bits away
    os.fchmod(fd, mode & allowed)
    if "time" in keep:
        if PY2:
            os.utime("/proc/self/fd/%d" % fd, (mtime / 1e9, mtime / 1e9))
        else:
            os.utime(fd, ns=(mtime, mtime))


def _ids_here(uid, gid, user, group):
    """The numbers of the same names here; the numbers as they are where a name is unknown."""
    import grp
    import pwd

    try:
        uid = pwd.getpwnam(user).pw_uid if user else uid
    except KeyError:
        pass
    try:
        gid = grp.getgrnam(group).gr_gid if group else gid
    except KeyError:
        pass
    return uid, gid


# ---- reading


def open_to_read(path, folder=None):
    """Return a descriptor of the regular file `path`, in `folder` if given; refuse everything else before it is opened."""
    status = os.stat(path) if folder is None else folder.lstat(path)
    whole = path if folder is None else os.path.join(folder.path, path)
    if status is None:
        raise wrong(errno.ENOENT, os.strerror(errno.ENOENT), whole)
    _refuse_special(status, whole)
    flags = os.O_RDONLY | os.O_NONBLOCK | CLOEXEC
    fd = os.open(path, flags) if folder is None else folder.open(path, flags | NOFOLLOW)
    try:
        close_on_exec(fd)
        _refuse_special(os.fstat(fd), whole)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _refuse_special(status, path):
    if stat.S_ISDIR(status.st_mode):
        raise wrong(errno.EISDIR, "is a folder, where a file was meant", path)
    if not stat.S_ISREG(status.st_mode):
        raise wrong(errno.EINVAL, "is no regular file but a device, a pipe or a socket, which no transfer copies", path)


def _new_hash(algorithm):
    import hashlib  # here, because it takes its time, and not in the thread that installs this part

    return hashlib.new(algorithm)


class Reader(object):
    """A file that is read once, with the checksum of all of it. Takes the descriptor over. Thread-safe."""

    def __init__(self, fd, algorithm):
        self._fd = fd
        self._lock = threading.Lock()
        self._whole = None
        try:
            self._before = os.fstat(fd)
            self._hash = _new_hash(algorithm)
            self.facts = facts_of(self._before)
            if not self._before.st_size:
                self._whole = self._unmeasured()
                self.facts[2] = len(self._whole)
        except BaseException:
            os.close(fd)
            raise
        self.size = self.facts[2]
        self.needs = min(self.size, getattr(self._before, "st_blocks", self.size) * 512)  # less where it has holes
        self.ordered = Ordered(0, self._hash.update)

    def skip(self, count):
        """Read the first `count` bytes for the checksum alone: the other side has them. Before any other read."""
        while self.ordered.position < count:
            position = self.ordered.position
            data = self._read(position, min(PIECE, count - position))
            if not data:
                return
            self.ordered.add(position, data, len(data))

    def _unmeasured(self):
        """What a file has that claims to have nothing."""
        whole = b""
        while len(whole) <= _MOST_UNMEASURED:
            data = os.read(self._fd, PIECE)
            if not data:
                return whole
            whole += data
        raise OSError(errno.EFBIG, "the file does not say how long it is, and does not end")

    def _read(self, position, size):
        if self._whole is not None:
            return self._whole[position : position + size]
        with self._lock:
            if self._fd < 0:
                return b""
            os.lseek(self._fd, position, os.SEEK_SET)
            return retry(os.read, self._fd, size)

    def read(self, position, size):
        """Return `size` bytes from there, fewer at the end of the file; their number instead when all of them are 0."""
        data = self._read(position, size)
        while data and len(data) < size:  # a signal, or some file system's own mind
            more = self._read(position + len(data), size - len(data))
            if not more:
                break
            data += more
        if data:
            self.ordered.add(position, data, len(data))
        return len(data) if data and _only_zeros(data) else data

    def finish(self, size):
        """Return (checksum of the first `size` bytes, whether the file stayed as it was), once all of them were read."""
        whole = self.ordered.wait_for(size)
        now = os.fstat(self._fd)
        same = whole and all(
            getattr(now, field) == getattr(self._before, field) for field in ("st_size", "st_mtime", "st_ino")
        )
        return self._hash.hexdigest(), same

    def close(self, keep=False):
        """Close the descriptor, and wake the threads that wait."""
        self.ordered.give_up()
        with self._lock:  # a call whose caller has given up may be reading
            fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _only_zeros(data):
    return data[-1:] == b"\0" and data == (_ZEROS if len(data) == PIECE else b"\0" * len(data))


# ---- writing


class Writer(object):
    """A file that comes into being beside its name and gets it when it is whole. The name never stands for half a file.

    Everything that can be known before is checked when this is made: what is there, whether it may be written, the room.
    """

    def __init__(self, folder, name, size, how):
        """Take over `folder`. `how`: dict of algorithm, overwrite, resume (bool), key (str for the name beside), sync (bool)."""
        self._folder = folder
        self._name = name
        self._how = how
        self._fd = -1
        self._path = os.path.join(folder.path, name)
        self._keep = how["resume"]
        self._lock = threading.Lock()
        try:
            self._refuse_existing()
            self._beside = beside(name, how["key"])
            self.position = self._open(size)
            self._refuse_full(size)
        except BaseException:
            self._remove()
            raise
        self._end = self.position
        self.ordered = Ordered(self.position, self.write)

    def _refuse_existing(self):
        status = self._folder.lstat(self._name)
        if status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            text = "is a folder; give the name that the file is to have in it, or end it with a slash"
            raise wrong(errno.EISDIR, text, self._path)
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
            raise wrong(errno.EEXIST, "is a device, a pipe or a socket, which no file replaces", self._path)
        if not self._how["overwrite"]:
            raise wrong(errno.EEXIST, "is there already, and overwrite=False was said", self._path)

    def _open(self, size):
        """Open the file beside; return how much of it is there from an earlier time."""
        self._hash = _new_hash(self._how["algorithm"])
        flags = os.O_RDWR | os.O_CREAT | NOFOLLOW
        if not self._keep:
            self._fd = self._folder.open(self._beside, flags | os.O_EXCL)
            return 0
        status = self._open_locked(flags)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink != 1:
            self._leave()
            text = "stands where an unfinished transfer would be, and somebody else made it; remove it"
            raise wrong(errno.EPERM, text, os.path.join(self._folder.path, self._beside))
        os.fchmod(self._fd, PRIVATE)
        if status.st_size > size:
            os.ftruncate(self._fd, 0)
            return 0
        os.lseek(self._fd, 0, os.SEEK_SET)
        while True:
            data = os.read(self._fd, PIECE)
            if not data:
                return status.st_size
            self._hash.update(data)

    def _open_locked(self, flags):
        """Open what an earlier time left, for this transfer alone; return what it is."""
        while True:
            self._fd = self._folder.open(self._beside, flags)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except EnvironmentError as error:
                self._leave()
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    error.filename = shown(self._path)
                    raise
                raise wrong(errno.EBUSY, "is being written by another transfer at this moment", self._path)
            status = os.fstat(self._fd)
            there = self._folder.lstat(self._beside)
            if there is not None and os.path.samestat(there, status):
                return status
            self._leave()  # whoever had the lock until now has put it in place, or removed it

    def _refuse_full(self, size):
        try:
            room = os.fstatvfs(self._fd)
        except EnvironmentError:  # some file systems do not say
            return
        free = room.f_bavail * room.f_frsize
        if room.f_blocks and free < min(size, self._how.get("needs", size)) - self.position:
            text = "%d bytes are needed, and its disk has %d left" % (size - self.position, free)
            raise wrong(errno.ENOSPC, text, self._path)

    def write(self, data):
        """Append bytes, or so many zeros, which take no room where nothing was before."""
        if isinstance(data, int_types):
            self._write_zeros(data)
        else:
            self._hash.update(data)
            self._write(data)

    def _write_zeros(self, count):
        while count:
            size = min(count, PIECE)
            self._hash.update(_ZEROS[:size])
            if self.position < self._end:
                self._write(_ZEROS[:size])
            else:
                self.position += size
                os.lseek(self._fd, self.position, os.SEEK_SET)
            count -= size

    def _write(self, data):
        data = memoryview(data)
        while len(data) > 0:
            try:
                written = retry(os.write, self._fd, data)
            except EnvironmentError as error:
                error.filename = shown(self._path)
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    self._keep = False
                raise
            self.position += written
            data = data[written:]

    def finish(self, size, digest, facts, keep):
        """Put the file in place. Returns False, with nothing changed, when it is not what `digest` says."""
        if not self.ordered.wait_for(size):
            return False
        with self._lock:
            if self._fd < 0:
                return False
            if self._hash.hexdigest() != digest:
                self._keep = False
                return False
            os.ftruncate(self._fd, size)
            set_facts(self._fd, facts, keep)
            if self._how["sync"]:
                sync(self._fd)
            self._folder.rename(self._beside, self._name, self._how["overwrite"])
            self._leave()
            if self._how["sync"] and "in_batch" not in self._how:
                self._folder.sync()
            self._folder.close()
            return True

    def close(self, keep=False):
        """End it: what is unfinished stays for another time with `keep` when it was meant to, else it is removed."""
        self.ordered.give_up()
        with self._lock:  # a call whose caller has given up may be putting it in place
            if keep and self._keep:
                self._leave()
                self._folder.close()
            else:
                self._remove()

    def _remove(self):
        try:
            if self._fd >= 0:
                self._folder.unlink(self._beside)  # while it is locked: from then on the name may be another transfer's
        finally:
            self._leave()
            self._folder.close()

    def _leave(self):
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


# ---- pieces in order


class Ordered(object):
    """Pieces that come in any order, written in order by the thread that has the next one. No thread waits for another."""

    def __init__(self, position, take):
        self.position = position
        self._take = take
        self._pieces = {}
        self._busy = False
        self._over = False
        self._change = threading.Condition(threading.Lock())

    def add(self, position, piece, length):
        """Take the piece when all before it is taken, and others that waited for it. Returns how far everything is taken."""
        with self._change:
            if self._over:
                raise OSError(errno.ECANCELED, "the transfer has ended")
            self._pieces[position] = (piece, length)
            if self._busy:
                return self.position
            self._busy = True
        while True:
            with self._change:
                piece, length = self._pieces.pop(self.position, (None, 0))
                if piece is None or self._over:
                    self._busy = False
                    self._change.notify_all()
                    return self.position
            try:
                self._take(piece)
            except BaseException:
                with self._change:
                    self._busy = False
                self.give_up()
                raise
            with self._change:
                self.position += length

    def wait_for(self, position):
        """Return True when everything up to there was taken, False when it never will be."""
        with self._change:
            while self.position != position and not self._over:
                self._change.wait()
            return self.position == position

    def give_up(self):
        """Take nothing more. Threads that wait are told; threads that are taking a piece are waited for."""
        with self._change:
            self._over = True
            self._pieces.clear()
            self._change.notify_all()
            while self._busy:
                self._change.wait()
            self._take = None  # mostly a method of who holds this


# ---- what the parent calls on the target


_transfers = {}  # token -> Reader or Writer
_over = collections.deque(maxlen=1000)  # tokens of those that have ended or never began
_change = threading.Condition(threading.Lock())


def begun(token, one):
    """Take a Reader or Writer that calls name by `token` from now on."""
    with _change:
        _transfers[token] = one
        _change.notify_all()


def _transfer(token):
    """Return it, once it has begun: its first pieces come right after the call that begins it, and another thread may run that."""
    with _change:
        while token not in _transfers:
            if token in _over:
                raise OSError(errno.ECANCELED, "the transfer has ended")
            _change.wait()
        return _transfers[token]


def writer(path, name, size, how):
    """Return a Writer for `path`, or for `name` in it when it ends in a slash. `how` also has parents (bool)."""
    path = absolute(path)
    if path[-1:] == b"/":
        path += name
    return Writer(opened_parent(path, how["parents"]), os.path.basename(path), size, how)


def start_writing(token, path, name, size, how):
    """Begin to write; return how many bytes are there from an earlier time."""
    return start_with(token, lambda: writer(path, name, size, how))


def start_with(token, make):
    """Begin with the Writer that is made; return how many bytes are there from an earlier time."""
    try:
        one = make()
    except BaseException:
        stop(token)
        raise
    begun(token, one)
    return one.position


def write_whole(path, name, size, how, piece, digest, facts, keep):
    """Write a file that is one piece; False when its bytes are not those that were sent."""
    return put_whole(writer(path, name, size, how), size, piece, digest, facts, keep)


def put_whole(one, size, piece, digest, facts, keep):
    """Let the Writer `one` put a file of one piece in place."""
    try:
        if size:
            one.ordered.add(0, piece, size)
        return one.finish(size, digest, facts, keep)
    finally:
        one.close()


def write(token, position, piece, length):
    """Take a piece (bytes, or a number of zeros); return how far everything has been taken."""
    return _transfer(token).ordered.add(position, piece, length)


def finish(token, size, digest, facts, keep):
    """Put the file in place; False when its bytes are not those that were sent."""
    one = _transfer(token)
    try:
        return one.finish(size, digest, facts, keep)
    finally:
        stop(token)


def start_reading(token, path, algorithm, skipped):
    """Open a file; return [facts, first piece, checksum, same]: the last two None when there is more than one piece.

    None when it is a folder.
    """
    path = absolute(path)
    if os.path.isdir(path):
        return None
    return begin_reading(token, open_to_read(path), algorithm, skipped)


def begin_reading(token, fd, algorithm, skipped):
    """Take over `fd`; return what start_reading does. Without a token only the first piece can be had."""
    one = Reader(fd, algorithm)
    start = min(skipped, one.size)
    one.skip(start)
    first = one.read(start, min(PIECE, one.size - start)) if one.size > start else b""
    answer = [one.facts, first if isinstance(first, int_types) else raw(first), None, None]
    if one.size - start <= PIECE:
        length = first if isinstance(first, int_types) else len(first)
        answer[2], answer[3] = one.finish(start + length)
        answer[3] = answer[3] and start + length == one.size
        one.close()
    elif token is None:
        one.close()
    else:
        begun(token, one)
    return answer


def read(token, position, size):
    """Return a piece as Reader.read does."""
    piece = _transfer(token).read(position, size)
    return piece if isinstance(piece, int_types) else raw(piece)


def stop_reading(token, size):
    """Return Reader.finish once all was read, and close the file."""
    one = _transfer(token)
    try:
        return one.finish(size)
    finally:
        stop(token)


def stop(token, keep=False):
    """End a transfer, whatever has become of it."""
    with _change:
        _over.append(token)
        one = _transfers.pop(token, None)
        _change.notify_all()
    if one is not None:
        one.close(keep)


def _discard_all(reason):
    for token in list(_transfers):
        stop(token, True)
