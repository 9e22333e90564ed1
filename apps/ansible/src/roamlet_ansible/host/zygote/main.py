"""The zygote: one single-threaded interpreter of one account, which forks a child for each module. Not the runner.

It is no module: `zygote_text()` of the package puts the text of each file of this folder in the place of the first import
from it, and what that gives is executed in a dict of its own, which has NONCE. Python 2.7 and 3.6+, the standard library
only. No name of it is visible to modules, except by a walk over frames or the collector's objects.

Frames in both directions are two lengths (`>II`), a header in JSON and a body; `Zygote.request` has the requests. One
process reads, forks and answers in one thread, so a child has no locks held by others and needs no list of things to
reset. What a child writes goes through pipes that are read while it runs. Its answer is given when it has ended, even if
a process that it left behind holds the pipes; that one gets SIGPIPE when it writes later, as after the end of a session.
"""

from roamlet_ansible.host.zygote.hooks import HOOKED  # noqa: F401 - first, as it changes what the imports below do

# isort: split

import base64
import errno
import json
import os
import random
import select
import shutil
import signal
import struct
import sys

from roamlet_ansible.host.accounts import Watched, account_files
from roamlet_ansible.host.zygote.child import child, empty_main, leave_zygote, temporary_folder
from roamlet_ansible.host.zygote.interpreter import python_files
from roamlet_ansible.host.zygote.language import PY3, native
from roamlet_ansible.host.zygote.payloads import Payload, fix_filename
from roamlet_ansible.host.zygote.spare import Spare, spare
from roamlet_ansible.host.zygote.stock import Stock

if PY3:
    import importlib.util
else:
    import imp

CHUNK = 1 << 16
FIRST = 1 << 12  # bytes that are read at first: Python takes memory for all that might come
SETTLED = 1 << 20  # no pipe holds more for an account that is not root
SETTLES = 2  # requests that have changed nothing before the next one is expected to change nothing


class Run(object):
    """A child that has not been answered for."""

    def __init__(self, number, pid, text, body, back):
        self.number = number
        self.pid = pid
        self.text = text  # the request, which a spare may leave undone
        self.body = body
        self.back = back  # a descriptor, or None
        self.pipes = {}  # descriptor -> list of what was read
        self.out = []
        self.err = []
        self.letters = ""
        self.cancelled = False


class Zygote(object):
    def __init__(self):
        self.umask = os.umask(0o22)
        os.umask(self.umask)
        self.terminal = os.isatty(0) or os.isatty(1)
        self.path = list(sys.path)
        self.home = os.path.expanduser("~")
        self.account = Watched(account_files(self.home))
        self.python = Watched(python_files())
        magic = importlib.util.MAGIC_NUMBER if PY3 else imp.get_magic()
        self.magic = base64.b16encode(magic).decode("ascii").lower()
        self.letters = ""  # of the place of the next child's payload
        self.outdated = None
        self.runs = {}  # pid -> Run
        self.pipes = {}  # descriptor -> Run
        self.spare = None
        self.ended_spares = set()  # that were told to end, and have not been waited for
        self.settled = 0  # requests in a row that have changed nothing here
        self._own_descriptors()
        self._leave_folder()
        self.base = os.path.join(temporary_folder(), "")
        self.stock = Stock(self.base)
        empty_main()
        sys.path[:] = [self.stock.archive.root] + [path for path in sys.path if path not in ("", ".")]

    def _own_descriptors(self):
        """Move the link to descriptors that no child gets, and keep what imports print away from it."""
        os.closerange(3, 256)
        null = os.open(os.devnull, os.O_RDWR)
        self.input = os.dup(0)
        self.output = os.dup(1)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        self.woken, waking = os.pipe()
        import fcntl  # for Python 2, which has no os.set_blocking

        for descriptor in (self.woken, waking):
            unblock(fcntl, descriptor)
        self.unblock = lambda descriptor: unblock(fcntl, descriptor)
        self.highest = waking + 1
        signal.set_wakeup_fd(waking)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self.poll = select.poll()
        self.poll.register(self.input, select.POLLIN)
        self.poll.register(self.woken, select.POLLIN)

    def _leave_folder(self):
        """Do not keep the working directory busy between runs, where it can be entered again."""
        self.cwd = self.cwd_id = None
        try:
            cwd = os.getcwd()
            here = os.stat(".")[1:3]
            os.chdir(
                cwd
            )  # refused where an account may not enter the folder of the one that started it: it stays there
            if os.stat(".")[1:3] != here:
                return
            os.chdir("/")
        except OSError:
            return
        self.cwd, self.cwd_id = cwd, here

    def facts(self):
        return {
            "pid": os.getpid(),
            "uid": os.getuid(),
            "gid": os.getgid(),
            "home": self.home,
            "cwd": self.cwd,  # None: one that the account cannot enter again
            "umask": self.umask,
            "version": list(sys.version_info[:3]),
            "magic": self.magic,
            "executable": sys.executable,
        }

    # -- the link

    def send(self, header, *pieces):
        self.send_text(json.dumps(header), *pieces)

    def send_text(self, text, *pieces):
        text = text.encode("ascii")
        body = b"".join(pieces)
        head = struct.pack(">II", len(text), len(body)) + text
        for data in (head + body,) if len(body) < CHUNK else (head, body):  # the reader wakes up once for a short one
            self.write(data)

    def write(self, data):
        data = memoryview(data)
        while data:
            try:
                data = data[os.write(self.output, data[:CHUNK]) :]
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                if error.errno != errno.EAGAIN:
                    self.end()
                waiting = select.poll()
                waiting.register(self.output, select.POLLOUT)
                waiting.poll()

    def end(self):
        """The link is closed: no answer can be given, so nothing runs on."""
        for run in self.runs.values():
            kill(run.pid)
        if self.spare is not None:
            kill(self.spare.pid)
            self.ended_spares.add(self.spare.pid)
        for pid in self.ended_spares:
            try:
                os.waitpid(pid, 0)  # an account that has a process cannot be removed
            except OSError:
                pass  # it had ended
        os._exit(0)

    def serve(self):
        buffered = bytearray()
        while True:
            try:
                ready = self.poll.poll()
            except (select.error, OSError) as error:
                if error.args[0] == errno.EINTR:
                    continue
                raise
            asked = False
            for descriptor, _event in ready:
                if descriptor == self.input:
                    asked = True
                elif descriptor == self.woken:
                    drain(self.woken)
                elif descriptor in self.pipes:
                    self.read_pipe(descriptor)
            self.reap()
            if asked:
                try:
                    data = os.read(self.input, CHUNK if buffered else FIRST)
                except OSError as error:
                    if error.errno in (errno.EINTR, errno.EAGAIN):
                        continue
                    data = b""
                if not data:
                    self.end()
                buffered += data
                while len(buffered) >= 8:
                    first, second = struct.unpack(">II", bytes(buffered[:8]))
                    if len(buffered) < 8 + first + second:
                        break
                    body = bytes(buffered[8 + first : 8 + first + second])
                    text = bytes(buffered[8 : 8 + first])
                    del buffered[: 8 + first + second]
                    if not self.hand_over(text, body):
                        self.request(json.loads(text.decode("utf-8")), body)
            if self.settled >= SETTLES and self.spare is None and not self.runs and not buffered:
                self.fork_spare()

    # -- children

    def read_pipe(self, descriptor):
        """One piece of what a child has written. Its size: 0 at the end, and when the pipe is empty."""
        run = self.pipes[descriptor]
        try:
            data = os.read(descriptor, CHUNK if run.pipes[descriptor] else FIRST)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EINTR):
                return 0
            data = b""
        if data:
            run.pipes[descriptor].append(data)
        else:
            self.close_pipe(descriptor)
        return len(data)

    def close_pipe(self, descriptor):
        run = self.pipes.pop(descriptor)
        del run.pipes[descriptor]
        self.poll.unregister(descriptor)
        os.close(descriptor)

    def reap(self):
        while self.runs or self.spare is not None or self.ended_spares:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                return
            if not pid:
                return
            run = self.runs.pop(pid, None)
            if run is None:
                if self.spare is not None and pid == self.spare.pid:
                    self.lose_spare()
                self.ended_spares.discard(pid)
                continue
            taken = self.has_taken(run)
            if not taken and status:  # it has ended by itself, as in lose_spare()
                self.settled = 0
            if not taken and not run.cancelled:
                for descriptor in list(run.pipes):
                    self.close_pipe(descriptor)
                self.request(json.loads(run.text.decode("utf-8")), run.body)
                continue
            for descriptor in list(run.pipes):
                left = SETTLED  # a process that was left behind may write for ever
                while left > 0 and descriptor in run.pipes:
                    count = self.read_pipe(descriptor)
                    if not count:
                        break
                    left -= count
                if descriptor in run.pipes:
                    self.close_pipe(descriptor)
            if os.WIFSIGNALED(status):
                code = 128 + os.WTERMSIG(status)  # as the shell says it that runs stock's interpreter
                name = json.loads(run.text.decode("utf-8"))["name"]
                shutil.rmtree(os.path.dirname(self.place(name, run.letters)), ignore_errors=True)
            else:
                code = os.WEXITSTATUS(status) if taken else 128 + signal.SIGKILL
            out, err = b"".join(run.out), b"".join(run.err)
            text = '{"n": %d, "rc": %d, "out": %d, "err": %d}' % (run.number, code, len(out), len(err))
            self.send_text(text, out, err)

    # -- requests

    def request(self, header, body):
        kind = header.get("do")
        number = header.get("n")
        if kind == "run":
            try:
                answer = self.run(number, header, body)
            except Exception as error:
                answer = {"n": number, "refused": "%s: %s" % (type(error).__name__, error)}
            if answer is not None:
                self.send(answer)
        elif kind == "cancel":
            for run in self.runs.values():
                if run.number == number:
                    run.cancelled = True
                    kill(run.pid)
        elif kind == "end":
            self.end()
        elif kind == "ping":
            self.send({"n": number, "pong": 1})
        else:
            self.send({"n": number, "refused": "there is no request %r" % (kind,)})

    def stale(self):
        """Why a fresh process would be another one than a fork of this: "account", "python" or None. Once and for all."""
        if self.outdated is None:
            if self.account.changed() or self.folder_changed():
                self.outdated = "account"
            elif self.python.changed():
                self.outdated = "python"
        return self.outdated

    def folder_changed(self):
        if self.cwd_id is None:
            return False
        try:
            # A new process would have been started in it all the same, and finds that it may not enter it again.
            return os.stat(self.cwd)[1:3] != self.cwd_id or not os.access(self.cwd, os.X_OK)
        except OSError:
            return True

    def run(self, number, header, body):
        """Fork a child for the request; an answer if nothing was started."""
        why = self.stale()
        if why:
            return {"n": number, "stale": why}
        size = header["params"]
        params = body[:size]
        same = fix_filename is not None and header.get("magic") == self.magic and not sys.flags.optimize
        for sha, length, kind in header.get("files") or ():
            if same or not kind.startswith("code"):
                self.stock.add(native(sha), body[size : size + length], kind)
            size += length
        name = native(header["payload"])
        self.settled += 1
        if header.get("files") or header.get("definition") is not None:
            self.settled = 0
        if header.get("definition") is not None:
            self.stock.payloads[name] = Payload(header["definition"])
        payload = self.stock.payloads.get(name)
        if payload is None:
            return {"n": number, "missing": ["definition"]}
        if not payload.complete:
            missing = self.stock.missing(payload)
            if missing:
                return {"n": number, "missing": missing}
            payload.complete = True
        late = too_late(header.get("environment") or {})
        if late:
            return {"n": number, "refused": "environment: " + " ".join(sorted(late))}
        self.stock.turn += 1
        payload.used = self.stock.turn
        if self.stock.forget() or payload.plan is None:
            self.settled = 0
        self.stock.prepare(payload, header.get("preload") or ())
        header["params"] = params
        self.drop_spare()
        self.fork(number, header, payload)
        return None

    def plain(self, text, size):
        """The request whose header this is, if all that it needs is here and nothing has changed: for a spare. Else None."""
        request = json.loads(text.decode("utf-8"))
        if request.get("do") != "run" or request.get("files") or request.get("definition") is not None:
            return None
        if request["params"] != size:
            return None
        payload = self.stock.payloads.get(native(request["payload"]))
        if (
            payload is None
            or not payload.complete
            or payload.plan is None
            or too_late(request.get("environment") or {})
        ):
            return None
        return request if self.account.same() and self.python.same() and not self.folder_changed() else None

    def fork(self, number, request, payload):
        self.choose_letters()

        def work(out, err):
            leave_zygote(self, out, err)
            return child(self, request, payload, self.place(request["name"]))

        pid, out, err = self.forked(work)
        text = json.dumps({"name": request["name"]}).encode("ascii")
        self.follow(Run(number, pid, text, b"", None), out, err)

    def follow(self, run, out, err):
        """Read what a child writes."""
        run.letters = self.letters
        self.runs[run.pid] = run
        for descriptor, pieces in ((out, run.out), (err, run.err)):
            self.unblock(descriptor)
            run.pipes[descriptor] = pieces
            self.pipes[descriptor] = run
            self.poll.register(descriptor, select.POLLIN)

    def choose_letters(self):
        self.letters = "%08x" % random.getrandbits(32)

    def place(self, name, letters=None):
        """Where the next child, or that with these letters, has its payload."""
        name = native(name)
        return "%sansible_%s_payload_%s/ansible_%s_payload.zip" % (self.base, name, letters or self.letters, name)

    def forked(self, work):
        """Fork a process that ends with the status `work(out, err)`, which are pipes: its number, and their other ends."""
        opened = []
        try:
            opened.extend(os.pipe())
            opened.extend(os.pipe())
            out, out_write, err, err_write = opened
            self.highest = max(self.highest, *opened)
            pid = os.fork()
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            raise
        if not pid:
            status = 1
            try:
                status = work(out_write, err_write)
            except BaseException:
                try:
                    sys.excepthook(*sys.exc_info())
                    sys.stderr.flush()
                except BaseException:
                    status = 1
            finally:
                if status < 0:
                    signal.signal(-status, signal.SIG_DFL)
                    os.kill(os.getpid(), -status)
                os._exit(status & 255)
        os.close(out_write)
        os.close(err_write)
        return pid, out, err

    # -- the spare: what a fork takes is done while the controller is at work

    def fork_spare(self):
        """Fork a process for the next request, if it needs nothing but what is here now."""
        opened = []
        self.choose_letters()
        try:
            opened.extend(os.pipe())
            opened.extend(os.pipe())
            reading, writing, back, giving = opened
            self.highest = max(self.highest, *opened)
            pid, out, err = self.forked(lambda out, err: spare(self, out, err, reading, giving))
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            return
        self.spare = Spare(pid, writing, back, out, err)
        os.close(reading)
        os.close(giving)

    def drop_spare(self):
        """Let the spare end, if there is one: it reads the end of its pipe."""
        if self.spare is not None:
            found, self.spare = self.spare, None
            self.ended_spares.add(found.pid)
            for descriptor in (found.link, found.back, found.out, found.err):
                os.close(descriptor)

    def lose_spare(self):
        """It has ended by itself, or something has ended it: the next one is not forked at once, as that may go on for ever."""
        self.drop_spare()
        self.settled = 0

    def hand_over(self, text, body):
        """Give a request to the spare as it came, which reads what it says; False without a spare, or where it is not for one.

        This process does as little as it can: each page on which it writes is copied, as the spare has it too.
        """
        found = self.spare
        if found is None or not body or not text.startswith(BEGINNING) or b'"definition": ' in text:
            return False
        if b'"files": ' in text and b'"files": []' not in text:
            return False
        number = text[len(BEGINNING) : text.index(b",")]
        if not number.isdigit():
            return False
        data = memoryview(struct.pack(">II", len(text), len(body)) + text + body)
        try:
            while data:
                data = data[os.write(found.link, data[:CHUNK]) :]
        except OSError:  # it has ended before it had all: nothing has run
            self.lose_spare()
            return False
        self.spare = None
        os.close(found.link)
        self.follow(Run(int(number), found.pid, text, body, found.back), found.out, found.err)
        return True

    def has_taken(self, run):
        """Whether a child that has ended had begun with its request, which a spare may have given back, or never have read."""
        if run.back is None:
            return True
        answer = os.read(run.back, 1)
        os.close(run.back)
        return bool(answer)


BEGINNING = b'{"n": '  # of a request


def too_late(environment):
    """The names of variables that take effect only at the start of an interpreter, and are others here."""
    return [key for key in environment if at_start(key) and os.environ.get(native(key)) != native(environment[key])]


def at_start(name):
    """As needs_start() of the package: the two are compared by a test."""
    return name.startswith(("PYTHON", "LD_", "LC_", "DYLD_", "MALLOC_", "OPENSSL_")) or name in (
        "LANG", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "UNIXCONFDIR", "UNIXUSRLIBDIR",
    )  # fmt: skip


def unblock(fcntl, descriptor):
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_NONBLOCK)


def drain(descriptor):
    try:
        os.read(descriptor, 512)  # of what is left poll() tells again
    except OSError:
        return


def kill(pid):
    """The child and what it has started, or the child alone while it has no group of its own yet."""
    for function in (os.killpg, os.kill):
        try:
            function(pid, signal.SIGKILL)
        except OSError:
            continue
        return


def main():
    zygote = Zygote()
    text = "ROAMLET-ZYGOTE %s %s\n" % (NONCE, json.dumps(zygote.facts()))  # noqa: F821 - given by the bootstrap
    zygote.write(text.encode("ascii"))
    zygote.serve()


main()
