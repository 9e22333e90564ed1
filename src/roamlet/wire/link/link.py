"""The target's end of the link: reading frames in turns, writing frames whole. Knows nothing of what the frames mean."""

import errno
import fcntl
import os
import select
import threading
import time

from roamlet.wire import protocol

READ = 1
WAKE = 2
CHUNK = 1 << 16  # bytes; twice that would come from mmap and go back with munmap, for each read
_LOOK = 50e-6  # seconds to look for the next call before sleeping, which costs as much CPU time; where they come
_SOON = 100e-6  # seconds or less behind one another
_LOOKS = 4  # in vain, until that is given up
_JOIN = 1 << 16  # bodies up to here are joined with their header, larger ones written after it

try:
    from _thread import allocate_lock
except ImportError:
    from thread import allocate_lock


class LinkLost(protocol.WireError, EnvironmentError):
    """The parent is gone, or the way to it: nothing can be sent any more."""


def retry(function, *args):
    """Call a system call again for as long as a signal interrupts it (3.5+ does so by itself, 2.7 does not)."""
    while True:
        try:
            return function(*args)
        except (EnvironmentError, select.error) as error:  # an epoll of 2.7 raises IOError
            if error.args[0] != errno.EINTR:
                raise


def start_thread(name, function, *args):
    """Start a thread that keeps no process from ending. Raises RuntimeError or threading.ThreadError when none can be had."""
    thread = threading.Thread(target=function, args=args, name=name)
    thread.daemon = True
    thread.start()


def keep_aside(fd):
    """Return a duplicate of `fd` above the standard three that no child process inherits."""
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD, 10)
    fcntl.fcntl(copy, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    return copy


class Link(object):
    """Frames over two descriptors. `send` may be called by any thread, `read` by the thread whose turn it is."""

    def __init__(self, source, target):
        """`source` and `target`: descriptors, blocking or not; they stay open until the process ends."""
        self.source = source
        self.target = target
        self.context = 0  # our own number, once CONFIG has told it
        self._reader = protocol.FrameReader()
        self._lock = allocate_lock()
        self._later = []  # frames that the thread with the lock sends

    def read(self):
        """Return the frames that one read completes (perhaps none), or None when the parent is gone or out of its mind.

        Blocks until bytes are there.
        """
        try:
            data = os.read(self.source, CHUNK)
        except EnvironmentError as error:
            if error.errno in (errno.EAGAIN, errno.EINTR):
                return ()
            return None
        if not data:
            return None
        try:
            return self._reader.feed(data)
        except protocol.ProtocolError:
            return None

    def send(self, kind, identifier, body, destination=0, tail=b""):
        """Write one frame, whole, whatever other threads write; `tail` belongs to the body. Blocks while the parent does not read.

        Raises LinkLost when the parent is gone, ProtocolError when the body is too long.
        """
        size = len(body) + len(tail)
        if size > protocol.MAX_BODY:
            protocol.refuse_long(kind, size)
        header = protocol.HEADER.pack(destination, self.context, identifier, size, kind)
        if len(body) > _JOIN:
            self.send_raw((header, body, tail))
        else:
            self.send_raw((header + body, tail))

    def busy(self):
        """Whether somebody is writing, perhaps this very thread, further up its stack."""
        return self._lock.locked()

    def send_raw(self, parts):
        """Write some bytes objects one after another, with nothing in between."""
        with self._lock:
            for data in parts:
                if data:
                    self._write(data)
        if self._later:
            self._write_later()

    def send_in_turn(self, data):
        """Write a whole frame; where another thread is writing, leave that to it, who may have to wait for the parent."""
        self._later.append(data)
        self._write_later()

    def _write_later(self):
        # Whoever gives the lock back looks once more: a frame that came just before found it taken.
        while self._later and self._lock.acquire(False):
            try:
                while self._later:
                    self._write(self._later.pop(0))
            finally:
                self._lock.release()

    def _write(self, data):
        while True:
            try:
                written = os.write(self.target, data)
            except EnvironmentError as error:
                if error.errno == errno.EAGAIN:
                    poll = select.poll()
                    poll.register(self.target, select.POLLOUT)
                    retry(poll.poll)
                    continue
                if error.errno == errno.EINTR:
                    continue
                written = None
            if written is None:
                raise LinkLost(errno.EPIPE, "the link to the parent is lost")
            if written == len(data):
                return
            data = memoryview(data)[written:]


class EpollTurns(object):
    """Whose turn it is to read, decided by the kernel: all idle threads wait in one epoll, and each event wakes one of them.

    No thread hands anything to another: the one that was woken reads, gives the turn back, and runs what it read. EPOLLONESHOT
    keeps everybody else asleep between `wait` and `give_back`. While calls come in quick succession, the thread that has
    answered one looks for the next for a moment before it sleeps.
    """

    def __init__(self, source):
        self._source = source
        self._epoll = select.epoll()
        self._epoll.register(source, select.EPOLLIN | select.EPOLLONESHOT)
        self._wake_read, self._wake_write = _wake_pipe()
        self._epoll.register(self._wake_read, select.EPOLLIN | select.EPOLLET)
        _close_on_exec(self._epoll.fileno())
        self._ready = select.poll()
        self._ready.register(source, select.POLLIN)
        self._turn = allocate_lock()  # held by the thread that reads or looks
        self._looks = 0  # how often one may still look in vain
        self._now = time.time  # of now: in the module, programs put clocks that stand still

    def wait(self):
        """Block until it is this thread's turn to read (READ) or somebody called `wake` (WAKE)."""
        began = self._now()
        if self._looks and self._turn.acquire(False):
            self._epoll.modify(self._source, 0)  # no other thread is woken meanwhile
            while not retry(self._ready.poll, 0):  # which a signal interrupts, too
                if not began <= self._now() < began + _LOOK:
                    self._looks -= 1
                    self.give_back()
                    break
            else:
                self._looks = _LOOKS
                return READ
        while True:
            events = retry(self._epoll.poll, -1, 1)
            if events and events[0][0] != self._source:
                _drain(self._wake_read)
                return WAKE
            if events:
                self._turn.acquire()
                if retry(self._ready.poll, 0):
                    break
                self.give_back()  # who looked has read it
        if 0 <= self._now() - began < _SOON:
            self._looks = _LOOKS
        return READ

    def give_back(self):
        """End the turn that began with READ; the next event goes to any waiting thread."""
        self._epoll.modify(self._source, select.EPOLLIN | select.EPOLLONESHOT)
        self._turn.release()

    def wake(self):
        """Let one waiting thread return from `wait`; the next one to call it when no thread waits."""
        retry(os.write, self._wake_write, b"!")

    def close(self):
        """Close the descriptors. No thread may wait any more."""
        self._epoll.close()
        os.close(self._wake_read)
        os.close(self._wake_write)


class LockTurns(object):
    """The same where there is no epoll: a lock around select. Costs a hand-over from thread to thread for each event."""

    def __init__(self, source):
        self._source = source
        self._turn = threading.Lock()
        self._wake_read, self._wake_write = _wake_pipe()

    def wait(self):
        self._turn.acquire()
        ready = retry(select.select, [self._source, self._wake_read], [], [])[0]
        if self._wake_read in ready:
            _drain(self._wake_read)
            self._turn.release()
            return WAKE
        return READ

    def give_back(self):
        self._turn.release()

    def wake(self):
        retry(os.write, self._wake_write, b"!")

    def close(self):
        os.close(self._wake_read)
        os.close(self._wake_write)


def turns(source):
    """Return the best way to take turns at reading `source` that this platform has."""
    if hasattr(select, "epoll"):
        try:
            return EpollTurns(source)
        except EnvironmentError as error:
            if error.errno != errno.EPERM:  # a plain file as standard input cannot be waited for
                raise
    return LockTurns(source)


def _wake_pipe():
    ends = os.pipe()
    for fd in ends:
        _close_on_exec(fd)
        set_nonblocking(fd)
    return ends


def _close_on_exec(fd):
    fcntl.fcntl(fd, fcntl.F_SETFD, fcntl.FD_CLOEXEC)


def set_nonblocking(fd):
    """Make reads and writes of `fd` fail with EAGAIN instead of waiting."""
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)


def _drain(fd):
    try:
        os.read(fd, 4096)
    except EnvironmentError as error:
        if error.errno not in (errno.EAGAIN, errno.EINTR):
            raise
