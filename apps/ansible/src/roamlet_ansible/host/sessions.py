"""Commands as sshd runs them: on pipes or on a terminal, at once or talked to."""

import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

from .calls import LOCK, NUMBERS, PROCESSES, Cancelled, enter, leave
from .values import (
    CHUNK,
    PY3,
    bytes_of,
    close,
    close_on_exec,
    now,
    own_account,
    pipe,
    retried,
    set_blocking,
)

KILLED = 2.0  # seconds that a killed process may take to end


class TimedOut(Exception):
    """The command was killed, with its process group, because its time was over."""


STAYS = []  # not empty: commands start in this process's folder, by sh


def stay(environment, folder=None, home=False):
    """From now on commands start where this process is, as those of `docker exec` do, and not as sshd starts them.

    `environment`: variables that are added to this process's own; `folder`: where it goes first; `home`: HOME becomes the
    account's. Raises OSError for a folder that cannot be entered.
    """
    for name, value in environment.items():
        os.environ[str(name)] = str(value)
    if home:
        os.environ["HOME"] = own_account()[1]
    if folder is not None:
        os.chdir(folder)
    STAYS.append(True)


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


def session_environment():
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
        name, home, shell = own_account()
        if STAYS:
            home, shell = os.getcwd(), "/bin/sh"
        if not os.access(shell, os.X_OK):
            shell = "/bin/sh"
        if not os.path.isdir(home) or not os.access(home, os.X_OK):
            home = "/"
        environment = session_environment()
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
        self.woken, self.waking = pipe()
        set_blocking(self.waking, False)
        start = _start_on_terminal if self.tty else _start_on_pipes
        try:
            program, arguments = _words(command, shell, environment)
            self.process, self.input, self.output, self.error = start(arguments, program, home, environment)
        except BaseException:
            close(self.woken, self.waking)
            raise
        self.ends = dict((end, []) for end in (self.output, self.error) if end is not None)
        set_blocking(self.input, False)

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
                close(self.input)
                self.input = None
        for end, event in retried(poll.poll, None if timeout is None else max(0, int(timeout * 1000 + 0.999))):
            if end == self.input and event & (select.POLLOUT | select.POLLERR):
                self._write()
            if end in self.ends and event & ~select.POLLOUT:
                self._read(end)
        return True if self.ends and not self.killed else self._end(0 if timeout is not None else None)

    def _write(self):
        try:
            self.waiting = self.waiting[retried(os.write, self.input, self.waiting[:CHUNK]) :]
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return
            self.waiting = b""  # it reads no more; what it says and its status tell the rest
            if not self.tty:
                close(self.input)
                self.input = None

    def _read(self, end):
        try:
            data = retried(os.read, end, CHUNK)
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
            retried(self.process.wait)
            return True
        until = now() + timeout
        pause = 0.001
        while retried(self.process.poll) is None:
            if now() >= until:
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
        close(*mine)


def _start_on_pipes(arguments, shell, folder, environment):
    theirs_in, ours_in = pipe()
    ours_out, theirs_out = pipe()
    ours_err, theirs_err = pipe()
    session = {"start_new_session": True} if PY3 else {"preexec_fn": _new_session}
    try:
        process = subprocess.Popen(
            arguments, executable=shell, stdin=theirs_in, stdout=theirs_out, stderr=theirs_err, cwd=folder,
            env=environment, close_fds=True, **session
        )  # fmt: skip
    except BaseException:
        close(ours_in, ours_out, ours_err)
        raise
    finally:
        close(theirs_in, theirs_out, theirs_err)
    return process, ours_in, ours_out, ours_err


def _new_session():
    """In the child, before the program: Python 2 leaves it to ignore what Python itself ignores; Python 3 does not."""
    os.setsid()
    for name in ("SIGPIPE", "SIGXFSZ", "SIGXFZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)


def _start_on_terminal(arguments, shell, folder, environment):
    ours, theirs = pty.openpty()
    close_on_exec(ours)
    close_on_exec(theirs)

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
        close(ours)
        raise
    finally:
        close(theirs)
    return process, ours, ours, None


WINDOW = (0, 0, 0, 0)  # rows and columns: what an ssh whose own input is no terminal with a size asks for


def run(command, in_data=None, tty=False, timeout=None, token=None):
    """Run a command line as sshd does; (rc, out, err). Blocks until it has ended and no process holds its pipes.

    `tty`: False, True, or the value of TERM. Then `err` is empty and the end of the process is the end. `token`: a name
    of the caller's for cancel(). Raises TimedOut after `timeout` seconds, Cancelled when it was.
    """
    process = Process(command, tty)
    token = token or "run%d" % next(NUMBERS)
    enter(token, process)
    try:
        process.waiting = in_data or b""
        process.at_end = True
        until = None if timeout is None else now() + timeout
        while process.step(None if until is None else max(0, until - now())):
            if until is not None and now() >= until:
                process.kill()
                process.step(0)
                raise TimedOut("after %s seconds: %s" % (timeout, command))
        if process.killed:
            raise Cancelled("it was cancelled while it ran: %s" % (command,))
        out, err = process.taken()
        return process.rc, bytes_of(out), bytes_of(err)
    finally:
        end_of(process)
        leave(token, process)


def end_of(process):
    """Nothing of it runs on when a call ends by an exception."""
    if process.rc is None:
        process.kill()
        process.step(0)


def start(command, tty=False, token=None):
    """Start a command line that is to be talked to; its token, for talk() and cancel()."""
    process = Process(command, tty)
    token = token or "start%d" % next(NUMBERS)
    enter(token, process)
    return token


def talk(token, data=b"", eof=False, wait=0.0):
    """Write `data`, wait at most `wait` seconds for something new; (out, err, rc), rc None while it runs.

    After an rc the token is unknown. Raises KeyError for an unknown token, Cancelled for a process that was.
    """
    with LOCK:
        process = PROCESSES[token]
    process.waiting += data
    process.at_end = process.at_end or eof
    until = now() + wait
    while True:
        alive = process.step(max(0, until - now()))
        out, err = process.taken()
        if not alive:
            leave(token, process)
            if process.killed:
                raise Cancelled("it was cancelled")
            return bytes_of(out), bytes_of(err), process.rc
        if out or err or now() >= until:
            return bytes_of(out), bytes_of(err), None
