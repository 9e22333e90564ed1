"""What the broker calls in a context on the target: commands as sshd runs them, zygotes and their modules, small files.

Functions are called from several threads at once. Arguments and results are plain values; what comes back as bytes is a
bytearray on Python 2. Python 2.7 and 3.6+, the standard library only. Descriptors are closed on exec. Zygotes end when
this process does, because their link is closed. One file of more than 600 lines: a context gets it as one module.
"""

import atexit
import errno
import fcntl
import itertools
import json
import os
import pty
import pwd
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import termios
import threading
import time

from . import accounts as freshness

PY3 = sys.version_info[0] >= 3
CHUNK = 1 << 16
KILLED = 2.0  # seconds that a killed process may take to end
TAIL = 1 << 14  # bytes of a zygote's standard error that are stored for the message of its end
MOST_CANCELLED = 1000  # tokens that were cancelled before their call came


class ZygoteLost(Exception):
    """The zygote ended after it was given the request: whether the module has run, and how far, is not known."""


class TimedOut(Exception):
    """The command was killed, with its process group, because its time was over."""


class Cancelled(Exception):
    """cancel() was called with the token of this call, which is over or was never begun."""


_lock = threading.Lock()
_numbers = itertools.count(1)
_zygotes = {}  # key -> Zygote, of those that get requests
_living = set()  # Zygotes that have not ended
_processes = {}  # token -> Process, for cancel(), and between calls of start() and talk()
_modules = {}  # token -> (Zygote, number)
_cancelled = []  # tokens whose call has not come yet

# --- Facts -----------------------------------------------------------------------------------------------------------


def _text(value):
    return value if PY3 or not isinstance(value, str) else value.decode("utf-8", "replace")


def _raw(data):
    """Bytes, as a result: a bytearray on Python 2, whose str would arrive as text wherever it can be read as such."""
    return data if PY3 else bytearray(data)


def _account():
    """(name, home, shell) of this account as sshd takes them, also where it has no entry."""
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return str(os.getuid()), os.environ.get("HOME") or "/", "/bin/sh"
    return entry.pw_name, entry.pw_dir or "/", entry.pw_shell or "/bin/sh"


def facts():
    """What this process and its account are."""
    name, home, shell = _account()
    umask = os.umask(0o22)
    os.umask(umask)
    return {
        "pid": os.getpid(),
        "uid": os.getuid(),
        "gid": os.getgid(),
        "user": _text(name),
        "home": _text(home),
        "shell": _text(shell),
        "cwd": _text(os.getcwd()),
        "umask": umask,
        "version": list(sys.version_info[:3]),
        "executable": _text(sys.executable or ""),
    }


_stays = []  # not empty: commands start in this process's folder, by sh


def stay(environment, folder=None, home=False):
    """From now on commands start where this process is, as those of `docker exec` do, and not as sshd starts them.

    `environment`: variables that are added to this process's own; `folder`: where it goes first; `home`: HOME becomes the
    account's. Raises OSError for a folder that cannot be entered.
    """
    for name, value in environment.items():
        os.environ[str(name)] = str(value)
    if home:
        os.environ["HOME"] = _account()[1]
    if folder is not None:
        os.chdir(folder)
    _stays.append(True)


# --- Processes -------------------------------------------------------------------------------------------------------


def _close_on_exec(descriptor):
    fcntl.fcntl(descriptor, fcntl.F_SETFD, fcntl.fcntl(descriptor, fcntl.F_GETFD) | fcntl.FD_CLOEXEC)


def _set_blocking(descriptor, blocking):
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_NONBLOCK if blocking else flags | os.O_NONBLOCK)


def _pipe():
    ends = os.pipe()
    for descriptor in ends:
        _close_on_exec(descriptor)
    return ends


def _close(*descriptors):
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise


def _retried(function, *args):
    """Call it until no signal interrupts it: Python 2 does not do that itself."""
    while True:
        try:
            return function(*args)
        except (OSError, IOError, select.error) as error:
            if error.args[0] != errno.EINTR:
                raise


# As ansible makes its commands, by shlex.quote(): a shell of its own, and one word for it.
_ONE_SHELL = re.compile(r"""(/[A-Za-z0-9_./+-]+) -c '((?:[^'\0]|'"'"')*)'\Z""")
_PLAIN_SHELLS = ("sh", "dash", "ash", "bash", "ksh", "mksh", "zsh")


def _words(command, shell, environment):
    """The program and the arguments that run `command` as the account's shell would: that one, or the one that it would start.

    This process has the environment that the account's shell has made when the connection was opened. Started again it could
    read its files again (bash does, for a child of sshd), which a session over ssh does once.
    """
    found = _ONE_SHELL.match(command) if os.path.basename(shell) in _PLAIN_SHELLS else None
    if found is None or not os.access(found.group(1), os.X_OK):
        return shell, [os.path.basename(shell), "-c", command]
    program = found.group(1)
    if os.path.basename(shell) == "bash":
        environment["_"] = program
    return program, [program, "-c", found.group(2).replace("'\"'\"'", "'")]


def _environment():
    """This process's variables as it was started with them, for what it starts.

    A Python in the locale C sets LC_CTYPE for itself and its children (PEP 538), which a session over ssh does not have.
    """
    environment = dict(os.environ)
    if environment.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
        try:
            with open("/proc/self/environ", "rb") as file:
                if b"\0LC_CTYPE=" not in b"\0" + file.read():
                    del environment["LC_CTYPE"]
        except (OSError, IOError):
            pass  # not Linux: it stays
    return environment


class Process(object):
    """`$SHELL -c command` in the home folder, in a session of its own: on pipes, or on a terminal as `ssh -tt` gives.

    One thread at a time uses it, except for kill().
    """

    def __init__(self, command, tty):
        name, home, shell = _account()
        if _stays:
            home, shell = os.getcwd(), "/bin/sh"
        if not os.access(shell, os.X_OK):
            shell = "/bin/sh"
        if not os.path.isdir(home) or not os.access(home, os.X_OK):
            home = "/"
        environment = _environment()
        if tty and tty is not True:
            environment["TERM"] = tty if isinstance(tty, str) else tty.encode("ascii")
        if not PY3 and not isinstance(command, str):
            command = command.encode("utf-8")
        self.tty = bool(tty)
        self.killed = False
        self.rc = None
        self.waiting = b""  # what it has not read yet
        self.at_end = False  # whether its standard input ends after that
        self.finished = {}  # what was read from streams that are at their end
        self.woken, self.waking = _pipe()
        _set_blocking(self.waking, False)
        start = _start_on_terminal if self.tty else _start_on_pipes
        try:
            program, arguments = _words(command, shell, environment)
            self.process, self.input, self.output, self.error = start(arguments, program, home, environment)
        except BaseException:
            _close(self.woken, self.waking)
            raise
        self.ends = dict((end, []) for end in (self.output, self.error) if end is not None)
        _set_blocking(self.input, False)

    def kill(self):
        """End it and its group. Safe from any thread until close(); a thread in step() wakes up."""
        self.killed = True
        if self.process.returncode is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except OSError as error:
                if error.errno not in (errno.ESRCH, errno.EPERM):  # EPERM: of another account; its streams are closed
                    raise
        try:
            os.write(self.waking, b"k")
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise

    def step(self, timeout):
        """Move what can be moved, waiting for something for `timeout` seconds (None: for ever). Whether it goes on."""
        if not self.ends or self.killed:
            return self._end(timeout)
        poll = select.poll()
        for end in self.ends:
            poll.register(end, select.POLLIN)
        poll.register(self.woken, select.POLLIN)
        if self.input is not None:
            if self.waiting:
                poll.register(self.input, select.POLLOUT | (select.POLLIN if self.input in self.ends else 0))
            elif self.at_end and not self.tty:
                _close(self.input)
                self.input = None
        for end, event in _retried(poll.poll, None if timeout is None else max(0, int(timeout * 1000 + 0.999))):
            if end == self.input and event & (select.POLLOUT | select.POLLERR):
                self._write()
            if end in self.ends and event & ~select.POLLOUT:
                self._read(end)
        return True if self.ends and not self.killed else self._end(0 if timeout is not None else None)

    def _write(self):
        try:
            self.waiting = self.waiting[_retried(os.write, self.input, self.waiting[:CHUNK]) :]
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return
            self.waiting = b""  # it reads no more; what it says and its status tell the rest
            if not self.tty:
                _close(self.input)
                self.input = None

    def _read(self, end):
        try:
            data = _retried(os.read, end, CHUNK)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return
            data = b""  # a terminal that was hung up
        if data:
            self.ends[end].append(data)
        else:
            self.finished[end] = self.ends.pop(end)

    def _end(self, timeout):
        """Its streams are at their end: so is the session as soon as the process has ended. Whether it goes on."""
        if self.killed:
            timeout = KILLED
        if self.rc is None and self.reaped(timeout):
            self.rc = self.process.returncode if self.process.returncode >= 0 else 255  # what ssh makes of a signal
        return self.rc is None and not self.killed

    def reaped(self, timeout):
        """Whether it has ended within `timeout` seconds; None waits for ever."""
        if timeout is None:
            _retried(self.process.wait)
            return True
        until = _now() + timeout
        pause = 0.001
        while _retried(self.process.poll) is None:
            if _now() >= until:
                return False
            time.sleep(pause)
            pause = min(0.05, pause * 2)
        return True

    def taken(self):
        """(out, err) since the last call."""
        result = []
        for end in (self.output, self.error):
            pieces = self.ends.get(end)
            if pieces is None:
                pieces = self.finished.get(end, [])
            result.append(b"".join(pieces))
            del pieces[:]
        return result[0], result[1]

    def close(self):
        """After its end, or when it could not be killed: another thread waits for it then."""
        if self.process.returncode is None:
            waiter = threading.Thread(target=self.process.wait, name="roamlet-reaper")
            waiter.daemon = True
            waiter.start()
        mine = set((self.input, self.output, self.error, self.woken, self.waking)) - set((None,))
        self.input = self.output = self.error = None
        _close(*mine)


def _start_on_pipes(arguments, shell, folder, environment):
    theirs_in, ours_in = _pipe()
    ours_out, theirs_out = _pipe()
    ours_err, theirs_err = _pipe()
    session = {"start_new_session": True} if PY3 else {"preexec_fn": _new_session}
    try:
        process = subprocess.Popen(
            arguments, executable=shell, stdin=theirs_in, stdout=theirs_out, stderr=theirs_err, cwd=folder,
            env=environment, close_fds=True, **session
        )  # fmt: skip
    except BaseException:
        _close(ours_in, ours_out, ours_err)
        raise
    finally:
        _close(theirs_in, theirs_out, theirs_err)
    return process, ours_in, ours_out, ours_err


def _new_session():
    """In the child, before the program: Python 2 leaves it to ignore what Python itself ignores; Python 3 does not."""
    os.setsid()
    for name in ("SIGPIPE", "SIGXFSZ", "SIGXFZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)


def _start_on_terminal(arguments, shell, folder, environment):
    ours, theirs = pty.openpty()
    _close_on_exec(ours)
    _close_on_exec(theirs)

    def take_terminal():
        _new_session()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *WINDOW))
        environment["SSH_TTY"] = os.ttyname(theirs)
        process = subprocess.Popen(
            arguments, executable=shell, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment,
            close_fds=True, preexec_fn=take_terminal
        )  # fmt: skip
    except BaseException:
        _close(ours)
        raise
    finally:
        _close(theirs)
    return process, ours, ours, None


WINDOW = (0, 0, 0, 0)  # rows and columns: what an ssh whose own input is no terminal with a size asks for


def _enter(token, process):
    with _lock:
        if token in _cancelled:
            _cancelled.remove(token)
            process.kill()
        _processes[token] = process


def _leave(token, process):
    with _lock:
        if _processes.get(token) is process:
            del _processes[token]
        process.close()


def run(command, in_data=None, tty=False, timeout=None, token=None):
    """Run a command line as sshd does; (rc, out, err). Blocks until it has ended and no process holds its pipes.

    `tty`: False, True, or the value of TERM. Then `err` is empty and the end of the process is the end. `token`: a name
    of the caller's for cancel(). Raises TimedOut after `timeout` seconds, Cancelled when it was.
    """
    process = Process(command, tty)
    token = token or "run%d" % next(_numbers)
    _enter(token, process)
    try:
        process.waiting = in_data or b""
        process.at_end = True
        until = None if timeout is None else _now() + timeout
        while process.step(None if until is None else max(0, until - _now())):
            if until is not None and _now() >= until:
                process.kill()
                process.step(0)
                raise TimedOut("after %s seconds: %s" % (timeout, command))
        if process.killed:
            raise Cancelled("it was cancelled while it ran: %s" % (command,))
        out, err = process.taken()
        return process.rc, _raw(out), _raw(err)
    finally:
        _end_of(process)
        _leave(token, process)


_now = getattr(time, "monotonic", time.time)


def _end_of(process):
    """Nothing of it runs on when a call ends by an exception."""
    if process.rc is None:
        process.kill()
        process.step(0)


def start(command, tty=False, token=None):
    """Start a command line that is to be talked to; its token, for talk() and cancel()."""
    process = Process(command, tty)
    token = token or "start%d" % next(_numbers)
    _enter(token, process)
    return token


def talk(token, data=b"", eof=False, wait=0.0):
    """Write `data`, wait at most `wait` seconds for something new; (out, err, rc), rc None while it runs.

    After an rc the token is unknown. Raises KeyError for an unknown token, Cancelled for a process that was.
    """
    with _lock:
        process = _processes[token]
    process.waiting += data
    process.at_end = process.at_end or eof
    until = _now() + wait
    while True:
        alive = process.step(max(0, until - _now()))
        out, err = process.taken()
        if not alive:
            _leave(token, process)
            if process.killed:
                raise Cancelled("it was cancelled")
            return _raw(out), _raw(err), process.rc
        if out or err or _now() >= until:
            return _raw(out), _raw(err), None


def cancel(token):
    """Kill what runs under this token, or will: a command, a process of start(), a module. True if something did."""
    with _lock:
        process = _processes.get(token)
        if process is not None:
            process.kill()
            return True
        module = _modules.get(token)
        if module is None:
            _cancelled.append(token)
            del _cancelled[:-MOST_CANCELLED]
            return False
    zygote, number = module
    zygote.cancel(number)
    return True


# --- Zygotes ---------------------------------------------------------------------------------------------------------


class Waiting(object):
    __slots__ = ("answer", "event")

    def __init__(self):
        self.event = threading.Event()
        self.answer = None  # (header, body), or None when the zygote has ended


class Zygote(object):
    """This process's end of a zygote. Any thread asks; one thread of its own reads the answers."""

    def __init__(self, process, facts, rest, nonce):
        self.process = process
        self.facts = facts
        self.nonce = nonce
        self.lock = threading.Lock()  # writing, and the fields below
        self.number = 0
        self.waiting = {}
        self.ended = None  # why, as text
        self.retired = False
        self.said = b""
        _set_blocking(process.input, True)
        self.rest = rest
        self.reader = threading.Thread(target=self._read, name="roamlet-zygote")
        self.reader.daemon = True
        _living.add(self)
        self.reader.start()

    def ask(self, header, body, token):
        """The answer's (header, body); None with a reason if nothing was sent. Raises ZygoteLost."""
        waiting = Waiting()
        with self.lock:
            if self.ended is not None or self.process.input is None:
                return None, self.ended or "it is ending"
            self.number += 1
            number = self.number
            self.waiting[number] = waiting
            if token is not None:
                with _lock:
                    if token in _cancelled:
                        _cancelled.remove(token)
                        del self.waiting[number]
                        raise Cancelled("it was cancelled before it was sent")
                    _modules[token] = self, number
            try:
                self._write(header, number, body)
            except (OSError, IOError) as error:
                del self.waiting[number]
                if token is not None:
                    with _lock:
                        _modules.pop(token, None)
                return None, "the zygote does not read: %s" % (error,)
        waiting.event.wait()
        if token is not None:
            with _lock:
                _modules.pop(token, None)
        if waiting.answer is None:
            raise ZygoteLost("the zygote ended while the module ran: %s" % (self.ended,))
        return waiting.answer

    def _write(self, header, number, body=b""):
        if isinstance(header, dict):
            text = json.dumps(dict(header, n=number)).encode("ascii")
        else:  # an object in JSON, which may be long; it is not empty
            rest = header if isinstance(header, (bytes, bytearray)) else header.encode("ascii")
            text = ('{"n": %d, ' % number).encode("ascii") + bytes(rest[1:])
        head = struct.pack(">II", len(text), len(body)) + text
        for data in (head + body,) if len(body) < CHUNK else (head, body):
            data = memoryview(data)
            while data:
                data = data[_retried(os.write, self.process.input, data[: 1 << 20]) :]

    def cancel(self, number):
        with self.lock:
            if number in self.waiting and self.ended is None:
                self._tell("cancel", number)

    def _tell(self, what, number=0):
        try:
            self._write({"do": what}, number)
        except (OSError, IOError) as error:
            self.said += str(error).encode()  # it has ended: its reader sees that too

    def retire(self):
        """Let it end after the requests that it has."""
        with self.lock:
            self.retired = True
            self._close_if_idle()

    def _close_if_idle(self):
        if self.retired and not self.waiting and self.ended is None:
            self.ended = "it was retired"
            self._tell("end")

    def _read(self):
        try:
            while True:
                first, second = struct.unpack(">II", self._exactly(8))
                header = json.loads(self._exactly(first).decode("utf-8"))
                body = self._exactly(second)
                with self.lock:
                    waiting = self.waiting.pop(header.get("n"), None)
                    self._close_if_idle()
                if waiting is not None:
                    waiting.answer = header, body
                    waiting.event.set()
        except EOFError:
            reason = "its output ended"
        except Exception as error:
            reason = "%s: %s" % (type(error).__name__, error)
        self._end(reason)

    def _end(self, reason):
        process = self.process
        with self.lock:
            if not process.tty:
                _close(process.input)
                process.input = None
        process.kill()
        process.reaped(KILLED)
        with self.lock:
            said = self.said.decode("utf-8", "replace").strip()
            if self.ended is None:
                self.ended = "%s (status %s)%s" % (reason, process.process.returncode, said and ": " + said)
            waiting, self.waiting = list(self.waiting.values()), {}
            process.close()
        with _lock:
            for key, zygote in list(_zygotes.items()):
                if zygote is self:
                    del _zygotes[key]
            _living.discard(self)
        for one in waiting:
            one.event.set()

    def _exactly(self, size):
        pieces = []
        while size:
            if not self.rest:
                self.rest = self._piece(size)
            piece, self.rest = self.rest[:size], self.rest[size:]
            pieces.append(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _piece(self, size):
        """Something of its output, at least what is there. What it writes to its standard error is stored."""
        process = self.process
        while True:
            if process.error is not None:
                poll = select.poll()
                poll.register(process.output, select.POLLIN)
                poll.register(process.error, select.POLLIN)
                ready = dict(_retried(poll.poll))
                if process.error in ready:
                    data = _retried(os.read, process.error, CHUNK)
                    self.said = (self.said + data)[-TAIL:]
                    if not data:
                        _close(process.error)
                        process.error = None
                if process.output not in ready:
                    continue
            try:
                data = _retried(os.read, process.output, min(1 << 20, max(size, CHUNK)))
            except OSError:
                data = b""  # its terminal was hung up
            if not data:
                raise EOFError
            return data


class Opening(object):
    """A zygote that is being started: it may ask for a password first."""

    def __init__(self, process, source, nonce):
        self.process = process
        self.source = source
        self.nonce = nonce
        self.begun = re.compile(("ROAMLET-BOOT %s\r?\n" % nonce).encode("ascii"))
        self.ready = re.compile(("ROAMLET-ZYGOTE %s ([^\n]*)\n" % nonce).encode("ascii"))
        self.out = b""  # what was read and not reported
        self.sent = False

    def go_on(self, wait, quiet):
        """Until it is ready or ended, or has said something and then nothing for `quiet` seconds, or `wait` is over.

        Returns (facts, rest) when it is ready, else (None, (out, err, rc)).
        """
        until = _now() + wait
        last = None
        err = b""
        while True:
            limit = until if last is None else min(until, last + self._patience(quiet))
            alive = self.process.step(max(0, limit - _now()))
            out, more = self.process.taken()
            err += more
            self.out += out
            if out or more:
                last = _now()
            if not self.sent:
                found = self.begun.search(self.out)
                if found:
                    self.out = self.out[found.end() :]
                    self.process.waiting += self.source
                    self.sent = True
            if self.sent:
                found = self.ready.search(self.out)
                if found:
                    return json.loads(found.group(1).decode("utf-8")), self.out[found.end() :]
            if not alive or _now() >= (until if last is None else min(until, last + self._patience(quiet))):
                out, self.out = self.out, b""
                return None, (out, err, self.process.rc)

    def _patience(self, quiet):
        if self.sent:
            return float("inf")
        # A prompt does not end its line. Other words do, and are followed by the start of an interpreter.
        return quiet if self.out and not self.out.endswith(b"\n") else 20 * quiet


_opening = {}  # token -> Opening


def open_zygote(key, command, tty, source, nonce, wait=10.0, quiet=0.05):
    """Start a zygote by a command line that contains bootstrap(nonce) of this package, under `key`.

    Returns {"ready": facts}, or {"token", "out", "err", "rc"} where it is not ready yet: it may be asking for something,
    which resume_zygote() answers; rc is not None when it has ended. `wait`: seconds at most; `quiet`: seconds without
    more words after which a line that has not ended counts as a question. An older zygote of that key gets no more
    requests, and ends when it has answered those that it has.
    """
    process = Process(command, tty)
    token = "zygote%d" % next(_numbers)
    _enter(token, process)
    with _lock:
        _opening[token] = Opening(process, source, nonce)
    return resume_zygote(key, token, b"", wait, quiet)


def resume_zygote(key, token, data=b"", wait=10.0, quiet=0.05):
    """Write `data` to a zygote that is being started, and go on as open_zygote does. Raises KeyError for no such token."""
    with _lock:
        opening = _opening[token]
    process = opening.process
    process.waiting += data
    try:
        ready, rest = opening.go_on(wait, quiet)
    except BaseException:
        _forget_opening(token, process)
        raise
    if ready is None:
        if rest[2] is not None or process.killed:
            _forget_opening(token, process)
        return {"token": token, "out": _raw(rest[0]), "err": _raw(rest[1]), "rc": 255 if process.killed else rest[2]}
    with _lock:
        if _processes.get(token) is process:
            del _processes[token]
        _opening.pop(token, None)
        older = _zygotes.get(key)
        _zygotes[key] = Zygote(process, ready, rest, opening.nonce)
    if older is not None:
        older.retire()
    return {"ready": ready}


def _forget_opening(token, process):
    with _lock:
        _opening.pop(token, None)
    _end_of(process)
    _leave(token, process)


def close_zygote(key):
    """Let the zygote of this key end after the requests that it has. False without one."""
    with _lock:
        zygote = _zygotes.pop(key, None)
    if zygote is None:
        return False
    zygote.retire()
    return True


def close_other_zygotes(key, wait=2.0):
    """Let all zygotes but that of `key` end; their keys. Waits, for `wait` seconds at most each, for those without requests."""
    with _lock:
        others = dict((name, zygote) for name, zygote in _zygotes.items() if name != key)
        for name in others:
            del _zygotes[name]
    for zygote in others.values():
        zygote.retire()
    for zygote in others.values():
        if not zygote.waiting:
            zygote.reader.join(wait)
    return sorted(others)


def run_module(key, header, body, token=None):
    """Have the zygote of this key run a module; blocks until the module has ended.

    `header`: a dict, or its JSON; without "n". Returns (rc, out, err), or the zygote's reason why nothing has run: {"stale":
    "python" or "account"}, {"missing": [...]}, {"refused": text}; or {"gone": text} if it had ended before. Raises
    ZygoteLost when it ended after the request was sent, Cancelled when cancel() was called before that.
    """
    with _lock:
        zygote = _zygotes.get(key)
    return _run_in(zygote, header, body, token)


def run_in_new_zygote(key, nonce, header, body, token=None):
    """run_module() in the zygote that was started with this nonce, and in no other one of that key.

    For a call that is sent after open_zygote() before that has returned: the start may ask for a password.
    """
    with _lock:
        zygote = _zygotes.get(key)
        if zygote is not None and zygote.nonce != nonce:
            zygote = None
    return _run_in(zygote, header, body, token)


def _run_in(zygote, header, body, token):
    if zygote is None:
        return {"gone": "there is no zygote of this key"}
    answer, body = zygote.ask(header, body, token)
    if answer is None:
        return {"gone": body}
    if "rc" in answer:
        return answer["rc"], _raw(body[: answer["out"]]), _raw(body[answer["out"] :])
    answer.pop("n", None)
    return answer


@atexit.register
def _end_all():
    with _lock:
        for process in list(_processes.values()):
            process.kill()
        zygotes = list(_living)
    for zygote in zygotes:
        with zygote.lock:
            if zygote.ended is None and zygote.process.input is not None:
                zygote._tell("end")
    for zygote in zygotes:
        zygote.reader.join(KILLED)


# --- Files -----------------------------------------------------------------------------------------------------------


def _place(path):
    """A path as an sftp server takes it: relative ones are in the home folder."""
    if not PY3 and not isinstance(path, str):
        path = path.encode("utf-8")
    return path if os.path.isabs(path) else os.path.join(_account()[1], path)


def put(path, data, mode=0o666, append=False):
    """Write a file in place, or at its end; a new one gets `mode` without the umask's bits. The file's size."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    descriptor = os.open(_place(path), flags, mode)
    try:
        _close_on_exec(descriptor)
        data = memoryview(data)
        while data:
            data = data[_retried(os.write, descriptor, data[: 1 << 20]) :]
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def get(path, offset=0, size=1 << 20):
    """At most `size` bytes of a file from `offset`; less at its end."""
    descriptor = os.open(_place(path), os.O_RDONLY)
    try:
        _close_on_exec(descriptor)
        if offset:
            os.lseek(descriptor, offset, os.SEEK_SET)
        pieces = []
        while size > 0:
            data = _retried(os.read, descriptor, min(size, 1 << 20))
            if not data:
                break
            pieces.append(data)
            size -= len(data)
        return _raw(b"".join(pieces))
    finally:
        os.close(descriptor)


def remove_tree(path):
    """As `rm -rf`: a folder with all in it, a file, a symbolic link itself. Raises OSError for what is left."""
    path = _place(path)
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def make_tmp(base, name):
    """Make the folder `name` in `base`, which is made too where it is missing, all with mode 0700; its path.

    `base` may begin with ~ or ~user and contain $VARIABLES. Raises OSError, also if the folder exists.
    """
    if not PY3 and not isinstance(base, str):
        base, name = base.encode("utf-8"), name.encode("utf-8")
    base = _place(os.path.expandvars(os.path.expanduser(base)))
    _make_folders(base)
    path = os.path.join(base, name)
    os.mkdir(path, 0o700)
    return _text(path)


# --- Work on temporary folders ---------------------------------------------------------------------------------------


_BEGIN_SESSIONS = ("run", "start", "open_zygote")  # what sshd would begin a new session for


class Freshness(object):
    """Whether a session that begins now would be another one than this process: of other groups, limits or variables."""

    def __init__(self):
        self.lock = threading.Lock()
        self.watched = None
        self.changed = None  # once and for all

    def look(self):
        """The file that has changed since the first call; None as long as none has."""
        with self.lock:
            if self.watched is None:
                self.watched = freshness.Watched(freshness.account_files(_account()[1]))
            elif self.changed is None:
                self.changed = self.watched.changed()
            return self.changed

    def begin(self):
        """See to it that there was a first call."""
        if self.watched is None:
            self.look()


_freshness = Freshness()


def carry_out(removals, steps, name, args, outdated=False):
    """Do the steps in their order, then call the function `name` of this file with `args`.

    A step is (kind, command, values): kind and values as of cores/plain.py, or "put" with path, data and mode. One that
    cannot be done here runs as its shell command, so that it fails with the words that it has there. `removals` are
    [(path, command)] that may have been done already. Returns {"result", "accounts", "kept"}, or {"failed", "rc", "out",
    "err"} with the number of the step after which nothing was done. `kept` has what could not be removed and why,
    `accounts` changes with the files of accounts. Nothing at all is done, and the result is {"stale": path}, for a function
    that begins a session where this process is not what a new one would be, unless it may be `outdated`.
    """
    _freshness.begin()
    if name in _BEGIN_SESSIONS and not outdated:
        changed = _freshness.look()
        if changed is not None:
            return {"stale": _text(changed)}
    kept = []
    for path, command in removals:
        rc, _, err = remove(command, path)
        if rc:
            kept.append((path, rc, err))
    for number, (kind, command, values) in enumerate(steps):
        rc, out, err = do_step(kind, command, values)
        if rc:
            return {"failed": number, "rc": rc, "out": out, "err": err, "kept": kept}
    result = globals()[name](*args)
    return {"result": result, "accounts": accounts(), "kept": kept}


def nothing():
    """For carry_out(), where there are only steps."""


def do_step(kind, command, values):
    """One step of carry_out(); (rc, out, err)."""
    functions = {"home": home, "mkdir": mkdir, "chmod": chmod, "remove": remove, "put": _put_step}
    rc, out, err = functions[kind](command, *values)
    return rc, _raw(out), _raw(err)


def _put_step(command, path, data, mode):
    try:
        put(path, data, mode)
    except (OSError, IOError) as error:
        return 1, b"", str(error).encode("utf-8", *(("surrogateescape",) if PY3 else ()))
    return 0, b"", b""


def _native(text):
    return text if PY3 or isinstance(text, str) else text.encode("utf-8")


def _output(text):
    return text.encode(sys.getfilesystemencoding(), "surrogateescape") if PY3 else text


def home(command, name):
    """What `echo ~name` prints; without a name, `echo ~`."""
    try:
        folder = pwd.getpwnam(_native(name)).pw_dir if name else _environment().get("HOME", "")
    except KeyError:
        folder = ""
    # A shell's echo may read a backslash in its own way.
    if not folder.startswith("/") or re.search(r"[\\\0-\x1f\x7f]", folder):
        return run(command)
    return 0, _output(folder + "\n"), b""


def home_for_now(command, name):
    """home(), with accounts() from before it if only the system's own file says it, or nothing does that may change."""
    before = accounts()
    try:
        with open("/etc/passwd", "rb") as file:
            own = not name or (b"\n" + file.read()).count(b"\n" + name.encode("utf-8") + b":") == 1
    except (OSError, IOError):
        own = False
    rc, out, err = home(command, name)
    return rc, _raw(out), _raw(err), before if own else None


def accounts():
    """A text that changes whenever the files change that say which accounts there are."""
    found = []
    for path in ("/etc/passwd", "/etc/nsswitch.conf"):
        try:
            status = os.stat(path)
            found.append((getattr(status, "st_mtime_ns", status.st_mtime), status.st_size, status.st_ino))
        except OSError:
            found.append(None)
    return repr(found)


def mkdir(command, folder, name):
    """`mkdir -p` for `folder`, and `mkdir` for `name` in it, with umask 77."""
    folder, name = _native(folder), _native(name)
    path = folder + "/" + name
    try:
        try:
            os.mkdir(path, 0o700)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            _make_folders(folder)
            os.mkdir(path, 0o700)
    except OSError:
        return run(command)
    return 0, _output(name + "=" + path + "\n"), b""


def _make_folders(folder):
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        try:
            os.mkdir(one, 0o700)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise


def chmod(command, bits, paths):
    """Add `bits` to the modes of `paths`."""
    try:
        for path in paths:
            path = _native(path)
            mode = stat.S_IMODE(os.stat(path).st_mode)
            if mode | bits != mode:
                os.chmod(path, mode | bits)
    except OSError:
        return run(command)
    return 0, b"", b""


def remove(command, path):
    """`rm -f -r` for one path, without its words."""
    path = _native(path)
    try:
        if stat.S_ISLNK(os.lstat(path.rstrip("/")).st_mode):
            return run(command)
        remove_tree(path)
    except OSError as error:
        if error.errno != errno.ENOENT:
            return run(command)
    return 0, b"", b""
