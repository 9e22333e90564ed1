"""This process's ends of zygotes: they are started, asked, and told to end."""

import atexit
import json
import os
import re
import select
import struct
import threading

from .calls import CANCELLED, LOCK, MODULES, NUMBERS, PROCESSES, Cancelled, enter, leave
from .sessions import KILLED, Process, end_of
from .values import CHUNK, bytes_of, close, now, retried, set_blocking

TAIL = 1 << 14  # bytes of a zygote's standard error that are stored for the message of its end


class ZygoteLost(Exception):
    """The zygote ended after it was given the request: whether the module has run, and how far, is not known."""


_zygotes = {}  # key -> Zygote, of those that get requests
_living = set()  # Zygotes that have not ended


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
        set_blocking(process.input, True)
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
                with LOCK:
                    if token in CANCELLED:
                        CANCELLED.remove(token)
                        del self.waiting[number]
                        raise Cancelled("it was cancelled before it was sent")
                    MODULES[token] = self, number
            try:
                self._write(header, number, body)
            except (OSError, IOError) as error:
                del self.waiting[number]
                if token is not None:
                    with LOCK:
                        MODULES.pop(token, None)
                return None, "the zygote does not read: %s" % (error,)
        waiting.event.wait()
        if token is not None:
            with LOCK:
                MODULES.pop(token, None)
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
                data = data[retried(os.write, self.process.input, data[: 1 << 20]) :]

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
                close(process.input)
                process.input = None
        process.kill()
        process.reaped(KILLED)
        with self.lock:
            said = self.said.decode("utf-8", "replace").strip()
            if self.ended is None:
                self.ended = "%s (status %s)%s" % (reason, process.process.returncode, said and ": " + said)
            waiting, self.waiting = list(self.waiting.values()), {}
            process.close()
        with LOCK:
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
                ready = dict(retried(poll.poll))
                if process.error in ready:
                    data = retried(os.read, process.error, CHUNK)
                    self.said = (self.said + data)[-TAIL:]
                    if not data:
                        close(process.error)
                        process.error = None
                if process.output not in ready:
                    continue
            try:
                data = retried(os.read, process.output, min(1 << 20, max(size, CHUNK)))
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
        until = now() + wait
        last = None
        err = b""
        while True:
            limit = until if last is None else min(until, last + self._patience(quiet))
            alive = self.process.step(max(0, limit - now()))
            out, more = self.process.taken()
            err += more
            self.out += out
            if out or more:
                last = now()
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
            if not alive or now() >= (until if last is None else min(until, last + self._patience(quiet))):
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
    token = "zygote%d" % next(NUMBERS)
    enter(token, process)
    with LOCK:
        _opening[token] = Opening(process, source, nonce)
    return resume_zygote(key, token, b"", wait, quiet)


def resume_zygote(key, token, data=b"", wait=10.0, quiet=0.05):
    """Write `data` to a zygote that is being started, and go on as open_zygote does. Raises KeyError for no such token."""
    with LOCK:
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
        return {
            "token": token,
            "out": bytes_of(rest[0]),
            "err": bytes_of(rest[1]),
            "rc": 255 if process.killed else rest[2],
        }
    with LOCK:
        if PROCESSES.get(token) is process:
            del PROCESSES[token]
        _opening.pop(token, None)
        older = _zygotes.get(key)
        _zygotes[key] = Zygote(process, ready, rest, opening.nonce)
    if older is not None:
        older.retire()
    return {"ready": ready}


def _forget_opening(token, process):
    with LOCK:
        _opening.pop(token, None)
    end_of(process)
    leave(token, process)


def close_zygote(key):
    """Let the zygote of this key end after the requests that it has. False without one."""
    with LOCK:
        zygote = _zygotes.pop(key, None)
    if zygote is None:
        return False
    zygote.retire()
    return True


def close_other_zygotes(key, wait=2.0):
    """Let all zygotes but that of `key` end; their keys. Waits, for `wait` seconds at most each, for those without requests."""
    with LOCK:
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
    with LOCK:
        zygote = _zygotes.get(key)
    return _run_in(zygote, header, body, token)


def run_in_new_zygote(key, nonce, header, body, token=None):
    """run_module() in the zygote that was started with this nonce, and in no other one of that key.

    For a call that is sent after open_zygote() before that has returned: the start may ask for a password.
    """
    with LOCK:
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
        return answer["rc"], bytes_of(body[: answer["out"]]), bytes_of(body[answer["out"] :])
    answer.pop("n", None)
    return answer


@atexit.register
def _end_all():
    with LOCK:
        for process in list(PROCESSES.values()):
            process.kill()
        zygotes = list(_living)
    for zygote in zygotes:
        with zygote.lock:
            if zygote.ended is None and zygote.process.input is not None:
                zygote._tell("end")
    for zygote in zygotes:
        zygote.reader.join(KILLED)
