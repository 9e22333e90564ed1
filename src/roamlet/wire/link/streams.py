"""A command that an intermediary has started, and what goes through its pipes; the threads that wait for such pipes.

What the pipes are for: roamlet.wire.link.router.
"""

import collections
import errno
import os
import select
import struct
import threading

from roamlet.wire import codec, protocol
from roamlet.wire.link import bundle_cache, link, sorting

TERMINATE, KILL = 3, 4  # what HOLD says to be done to the process
AMOUNTS = struct.Struct(">QI")  # the body of CREDIT
REPORT = 1 << 15  # bytes that are written before the parent is told
NOISE_LIMIT = 1 << 20  # bytes that may precede the start line
_REST = 0.3  # seconds for what an ended process left in its pipes; somebody else may hold the other ends for ever
_STEP = 2.0  # seconds that a process gets for each step of its end


class Loop(object):
    """A thread that waits for descriptors and runs what others hand to it. `watch` and `forget` are for itself alone."""

    def __init__(self, name, failed):
        """`failed()` is called when one of the functions has raised what it never should."""
        self._failed = failed
        self._poll = select.poll()
        self._functions = {}
        self._jobs = collections.deque()
        self.ends = link._wake_pipe()
        self._poll.register(self.ends[0], select.POLLIN)
        link.start_thread(name, self._run)

    def post(self, function, *args):
        """Run `function(*args)` there soon, in the order of the calls."""
        self._jobs.append((function, args))
        try:
            os.write(self.ends[1], b"!")
        except EnvironmentError as error:
            if error.errno not in (errno.EAGAIN, errno.EINTR):
                raise

    def watch(self, fd, event, function):
        """Call `function()` whenever `fd` is ready, until `forget(fd)`."""
        self._functions[fd] = function
        self._poll.register(fd, event)

    def forget(self, fd):
        if self._functions.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _run(self):
        while True:
            for fd, _ in link.retry(self._poll.poll):
                if fd == self.ends[0]:
                    link._drain(fd)
                    while self._jobs:
                        function, args = self._jobs.popleft()
                        self._call(function, args)
                elif fd in self._functions:
                    self._call(self._functions[fd], ())

    def _call(self, function, args):
        try:
            function(*args)
        except link.LinkLost:
            pass  # the thread that reads the link ends the process
        except Exception:
            self._failed()


class Stream(object):
    """One started command, and what goes through its pipes."""

    def __init__(self, router, number, token, first):
        self.number = number
        self.stdin = self.stdout = self.stderr = None
        self._router = router
        self._token = token
        self._seen = 0
        self._tail = b""  # of what came before the start line: the token may lie across two reads
        self._started = False
        self._cutter = sorting.Cutter(lambda *header: router.check(self, *header))
        self._lock = threading.Lock()
        self._queue = collections.deque([(first, False)])  # (bytes or what makes them, does it need credit)
        self._waiting = 0
        self._written = 0
        self._reported = 0
        self._called = False  # roamlet-down has been called, and has not come yet
        self._watched = False
        self._closed = False
        self._held = False
        self._wrong = None
        self._process = None
        self._code = None
        self._told = None
        self._drained = threading.Event()
        self._heard = threading.Event()

    # ---- its life: a thread of its own

    def start(self, argv, variables):
        """Start the command, with these environment variables (None: ours); return at once."""
        try:
            link.start_thread("roamlet-child-%d" % self.number, self._live, argv, variables)
        except (RuntimeError, threading.ThreadError):
            self._router.up.post(self._finish, None, errno.EAGAIN)

    def _live(self, argv, variables):
        router = self._router
        try:
            self._open(argv, variables)
        except Exception as error:  # whatever it is, the parent waits for the news
            router.up.post(self._finish, None, getattr(error, "errno", None) or errno.EIO)
            return
        router.up.post(self._listen)
        router.down.post(self.push, True)
        code = link.retry(self._process.wait)
        with self._lock:
            self._code = code
        while not self._drained.wait(_REST):
            # A process that was forked off there holds the other end. What has been written is read; then it is over.
            fd = self.stdout
            left = select.poll()
            if fd is not None:
                left.register(fd, select.POLLIN)
            if not left.poll(0):
                break
        self._heard.wait(_REST)
        router.up.post(self._finish, code, None)

    def _open(self, argv, variables):
        import subprocess  # here, in a thread of its own: the one that reads must not wait for an import

        theirs = []
        ours = []
        try:
            for number in range(3):
                reads, writes = os.pipe()
                theirs.append(writes if number else reads)
                ours.append(reads if number else writes)
                link._close_on_exec(reads)
                link._close_on_exec(writes)
            session = {"preexec_fn": os.setsid} if codec.PY2 else {"start_new_session": True}
            process = subprocess.Popen(
                argv, stdin=theirs[0], stdout=theirs[1], stderr=theirs[2], close_fds=True, env=variables, **session
            )
        except BaseException:
            for fd in ours:
                os.close(fd)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        for fd in ours:
            link.set_nonblocking(fd)
        with self._lock:
            self._process = process
            self.stdin, self.stdout, self.stderr = ours
            told = self._told
        if told is not None:
            self.tell(told)

    def tell(self, what):
        """TERMINATE or KILL it, once it runs. Any thread."""
        with self._lock:
            self._told = what
            if self._process is None or self._code is not None:
                return
            try:
                (self._process.kill if what == KILL else self._process.terminate)()
            except EnvironmentError:
                pass  # it is gone, or belongs to somebody else: the end of its standard input will tell it

    def _finish(self, code, number):
        self._stop_reading()
        self._stop_listening()
        self.close_down()
        self._router.gone(self, code, number, self._wrong)

    # ---- down

    def take(self, data):
        """Queue bytes of the context's own frames. Only the thread that reads the link."""
        self._waiting += len(data)
        self._queue.append((data, True))
        self._router.touched.add(self)

    def pass_on(self, data):
        """Queue bytes that need no credit here: they are for a context behind this one, or the parent's own."""
        self._queue.append((data, False))
        self._router.touched.add(self)

    def insert(self, made, size=0):
        """Queue a frame out of kept bundles. `size`: its bytes where it needs credit."""
        self._waiting += size
        self._queue.append((made, size > 0))
        self._router.touched.add(self)

    def push(self, making=False):
        """Write what the pipe takes at once, and let roamlet-down write the rest. `making`: and put bundles together, which takes
        long: not in the thread that reads the link.
        """
        with self._lock:
            if self._closed:
                self._queue.clear()
            if self.stdin is None:
                return
            if making:
                self._called = False
            while self._queue:
                data, counted = self._queue[0]
                if type(data) is list:
                    if len(data) > 4 and not making:
                        break
                    self._queue.popleft()
                    self._queue.extendleft((part, counted) for part in reversed(bundle_cache.frames_of(*data)))
                    continue
                if len(data) < 4096 and len(self._queue) > 1:
                    data = self._gathered()
                try:
                    written = os.write(self.stdin, data)
                except EnvironmentError as error:
                    if error.errno == errno.EINTR:
                        continue
                    if error.errno == errno.EAGAIN:
                        break
                    self._queue.clear()  # no process reads it any more; its other pipe will say why
                    break
                self._count(written)
            more = bool(self._queue)
            report = self._written - self._reported >= REPORT
            if report:
                self._reported = self._written
            call = more and not making and not self._called
            if call:
                self._called = True
        if report:
            self._router.up.post(self._report)
        if making:
            self._watch(more)
        elif call:
            self._router.down.post(self.push, True)

    def _gathered(self):
        """The first of the queue together, about as much as a pipe takes. More may be added meanwhile."""
        parts = []
        size = 0
        for index in range(min(len(self._queue), 256)):
            data = self._queue[index][0]
            if type(data) is list or size > link.CHUNK:
                break
            parts.append(data)
            size += len(data)
        return b"".join(parts)

    def _count(self, written):
        while written:
            data, counted = self._queue.popleft()
            done = min(written, len(data))
            if done < len(data):
                self._queue.appendleft((data[done:], counted))
            written -= done
            if counted:
                self._written += done

    def _watch(self, more):
        """Only in roamlet-down: be called again when the pipe takes more."""
        if more and not self._watched and self.stdin is not None:
            self._watched = True
            self._router.down.watch(self.stdin, select.POLLOUT, self._push_more)
        elif not more and self._watched:
            self._watched = False
            self._router.down.forget(self.stdin)

    def _push_more(self):
        self.push(True)

    def close_down(self):
        """Close its standard input, whatever waits. Any thread."""
        self._router.down.post(self._close_down)

    def _close_down(self):
        self._watch(False)
        with self._lock:
            fd, self.stdin = self.stdin, None
            self._closed = True
            self._queue.clear()
        if fd is not None:
            os.close(fd)

    # ---- up: in roamlet-up

    def _listen(self):
        up = self._router.up
        up.watch(self.stdout, select.POLLIN, self._read)
        up.watch(self.stderr, select.POLLIN, self._hear)

    def hold(self, held):
        """Read nothing more of it for now, or read on."""
        if self.stdout is None or held == self._held:
            return
        self._held = held
        if held:
            self._router.up.forget(self.stdout)
        else:
            self._router.up.watch(self.stdout, select.POLLIN, self._read)

    def _read(self):
        data = _read(self.stdout)
        if data is None:
            return
        if not data:
            self._stop_reading()
            self.close_down()
            # It gets some time to end by itself, because its exit code is what people want to know.
            if self._code is None:
                for seconds, what in ((_STEP, TERMINATE), (2 * _STEP, KILL)):
                    timer = threading.Timer(seconds, self.tell, (what,))
                    timer.daemon = True
                    timer.start()
            return
        try:
            if not self._started:
                data = self._scan(data)
            if data:
                self._router.link.send_raw(self._cutter.feed(data))
        except protocol.ProtocolError as error:
            self._refuse(str(error))

    def _scan(self, data):
        """Send on what comes before the frames; return what comes after the start line."""
        self._seen += len(data)
        data = self._tail + data
        known = len(self._tail)
        start = data.find(self._token)
        end = data.find(b"\n", start) + 1 if start >= 0 else 0
        self._tail = data[start:] if start >= 0 else data[-len(self._token) :]
        self._router.link.send(protocol.SAID, self.number, b"\1" + data[known : end or len(data)])
        if end:
            self._started = True
            return data[end:]
        if self._seen > NOISE_LIMIT:
            raise protocol.ProtocolError("%d bytes came before a start line" % self._seen)
        return b""

    def _refuse(self, why):
        """It sent what no context sends: it ends, and nothing of that goes on."""
        self._wrong = why
        self._router.remove(self)
        self._stop_reading()
        self.close_down()
        self.tell(KILL)

    def _hear(self):
        data = _read(self.stderr)
        if data:
            self._router.link.send(protocol.SAID, self.number, b"\2" + data)
        elif data is not None:
            self._stop_listening()

    def _report(self):
        self._router.link.send(protocol.CREDIT, self.number, AMOUNTS.pack(self._written, self._waiting_bytes()))

    def _waiting_bytes(self):
        return max(0, min(self._waiting - self._written, 0xFFFFFFFF))

    def _stop_reading(self):
        fd, self.stdout = self.stdout, None
        if fd is not None:
            self._router.up.forget(fd)
            self._drained.set()
            os.close(fd)

    def _stop_listening(self):
        fd, self.stderr = self.stderr, None
        if fd is not None:
            self._router.up.forget(fd)
            self._heard.set()
            os.close(fd)


def _read(fd):
    """Return what has come, empty at the end, None when that is nothing yet."""
    try:
        return os.read(fd, link.CHUNK)
    except EnvironmentError as error:
        if error.errno in (errno.EAGAIN, errno.EINTR):
            return None
        return b""
