"""Calls on a target: a bounded pool of threads that read, run and answer.

There is no reader thread. All idle threads wait for the link in turns (link.EpollTurns); the one that gets a CALL runs it
itself, so that a short call passes through no second thread. Before it does, it makes sure that somebody else
waits for the link; at the limit of the pool one thread only reads and leaves calls to those that finish.
"""

import collections
import os
import sys
import threading

from roamlet.wire import codec, protocol
from roamlet.wire.life.logs import shortened, text
from roamlet.wire.link.link import READ, start_thread

_TEXT_LIMIT = 1 << 16  # characters of an error's text, and of its traceback
_LARGE = 1 << 14  # bytes; a longer answer is sent at once and by itself
_ANSWERS = 256
_NO_THREAD = (RuntimeError, MemoryError, threading.ThreadError)


class Pool(object):
    """Runs calls. `serve` is the life of one of its threads; the main thread is one of them."""

    def __init__(self, link, turns, handle, flush, limit=64):
        """`handle(frame)` takes the frames that are no calls; `flush()` sends what was printed, before answers go out.

        `limit`: the largest number of threads, at least 2, because one of them always reads.
        """
        self._link = link
        self._turns = turns
        self._handle = handle
        self._flush = flush
        self._limit = max(2, limit)
        self._pending = collections.deque()  # calls that have not begun
        self._answers = collections.deque()  # frames that are to be sent
        self._lock = threading.Lock()
        self._answers_lock = threading.Lock()
        self._threads = 1
        self._idle = 1  # threads that run no call: they read, or are about to; never 0
        self._woken = False  # one of them has been called to help, and has not come yet
        self._aside = False  # a thread sends answers beside all of these
        self._process = os.getpid()
        # Whoever runs calls in place of these threads, which go on reading: see roamlet.wire.calls.tasklets.
        self.runner = None
        self.keeps = None  # a function: whether it keeps a call until its turn has come, see roamlet.wire.calls.chains
        self._sending = {}  # (source, id) of a call -> its answer, which goes in pieces
        self.loads = codec.loads  # of arguments; a part of the payload may put its own here, and below
        self.dumps = codec.dumps  # of results
        self.here = threading.local()  # its `number`: the call that this thread runs
        self.before_answers = []  # called before answers go out

    def serve(self):
        """Read and run until the process ends. Never returns."""
        while True:
            frame = self._next()
            self._run(frame)  # looked up after the wait: see roamlet.wire.calls.timed
            frame = None
            with self._lock:
                self._idle += 1
            if codec.PY2:
                sys.exc_clear()  # or the last exception would live on with all its frames

    def _next(self):
        """Return a call for this thread to run."""
        while True:
            if self._pending:
                frame = self._take_pending()
                if frame is not None:
                    return frame
            if self._answers and self._help():
                continue  # others may have left a call to this thread meanwhile
            turn = self._turns.wait()
            if turn == READ:
                frames = self._link.read()
                if frames is None:
                    self._handle(None)
                self.take(frames)
                frames = None  # not kept by a thread that waits on
                self._turns.give_back()
            else:
                self._woken = False
                if self._answers:
                    self._help()  # the thread that called for help, which may be busy for long

    def _help(self):
        """Send answers of others, and return True; let yet another thread do so if no other is left to read.

        Flushing what was printed may block.
        """
        with self._lock:
            reads = self._idle == 1
            if not reads:
                self._idle -= 1
        if reads:
            self._send_aside()
            return False
        self._send_answers()
        with self._lock:
            self._idle += 1
        return True

    def _send_aside(self):
        with self._lock:
            begin = not self._aside
            self._aside = True
        if begin:
            try:
                start_thread("roamlet-answers", self._run_aside)
            except _NO_THREAD:
                self._aside = False
                self._send_answers()

    def _run_aside(self):
        while True:
            self._send_answers()
            with self._lock:
                if not self._answers:
                    self._aside = False
                    return

    def take(self, frames):
        """Queue the calls among `frames` and have the others handled, in their order."""
        for frame in frames:
            if frame[3] != protocol.CALL:
                self._handle(frame)  # which may set what is looked at here
            elif self.keeps is None or not self.keeps(frame):
                self.begin(frame)

    def begin(self, frame):
        """Queue a call. Never blocks."""
        if self.runner is not None:
            self.runner.take(frame)
        else:
            self._pending.append(frame)

    def _take_pending(self):
        """Return the next call if this thread may leave the reading to others; call for help if there are more, or answers to send.

        Help comes when this thread blocks, or when it has used up its slice of the interpreter: a row of short calls stays in
        one thread, and its answers go out together.
        """
        with self._lock:
            if not self._pending or not self._may_leave():
                return None
            frame = self._pending.popleft()
            self._idle -= 1
            help_needed = (self._pending or self._answers) and not self._woken
            if help_needed:
                self._woken = True
        if help_needed:
            self._turns.wake()
        return frame

    def _may_leave(self):
        """Whether somebody is left to read when this thread runs a call; starts a thread if need be. With the lock held."""
        if self._idle > 1:
            return True
        if self._threads >= self._limit:
            return False
        try:
            start_thread("roamlet-call-%d" % self._threads, self.serve)
        except _NO_THREAD:
            self._limit = self._threads  # the system gives no more
            return self._threads == 1  # run it while no thread reads: better late than never
        self._threads += 1
        self._idle += 1
        return True

    def cancel(self, identifier, source):
        """Drop a call that has not started, and say so; leave one that runs alone, unless it is a tasklet.

        Runs in the thread that reads, which sends nothing itself.
        """
        message = self._sending.get((source, identifier))
        if message is not None:
            message.withdrawn = True
        if self.runner is not None:
            self.runner.cancel(identifier, source)
        for frame in list(self._pending):
            if frame[2] == identifier and frame[1] == source and frame[3] == protocol.CALL:
                try:
                    self._pending.remove(frame)
                except ValueError:
                    return  # it has just started
                self._answers.append(self._framed(frame, *_dropped()))
                self._send_aside()
                if self.loads is not codec.loads:  # it may refer to channels
                    self._pending.append(frame[:3] + (protocol.CANCEL, frame[4]))
                return

    def drop(self, frame):
        """Say of a call that it was cancelled, and will not begin. Not in the thread that reads: values may have to be imported."""
        self._answer(frame, *_dropped())
        self._let_go(frame)

    def _let_go(self, frame):
        """Take what a call refers to out of its message, and drop it: whoever lends it counts."""
        try:
            self.loads(frame[4])
        except BaseException:  # noqa: S110 - the caller has given the call up, and what it imports may exit
            pass

    def _run(self, frame):
        """Run one call and answer it, whatever happens in it. Of a call that was dropped, let go of what it refers to."""
        if frame[3] == protocol.CANCEL:
            self._let_go(frame)
            return
        reason = protocol.ERROR_MESSAGE
        self.here.number = frame[2]
        try:
            module, name, args, kwargs = self.loads(frame[4])
            reason = protocol.ERROR_IMPORT
            module = _module(str(module))
            reason = protocol.ERROR_FUNCTION
            function = module
            for part in str(name).split("."):
                function = getattr(function, part)
            reason = protocol.ERROR_RAISED
            value = function(*args, **kwargs) if kwargs else function(*args)
            reason = protocol.ERROR_RESULT
            kind, body = protocol.RESULT, self.dumps(value, "result")
        except BaseException:
            # Whatever a call raises belongs to its caller: sys.exit() too.
            kind, body = protocol.ERROR, _describe_somehow(reason)
        value = args = kwargs = function = None
        self.here.number = None
        self._answer(frame, kind, body)

    def _answer(self, frame, kind, body):
        """Send one answer; behind more calls, leave it to be sent with theirs."""
        if os.getpid() != self._process:
            os._exit(1)  # the call forked and came back as the child process, which has no business on the link
        if not isinstance(body, bytes):
            self._send_pieces(frame, kind, body)
        elif len(body) > _LARGE:
            self._send_answers()
            self._try(self._link.send, kind, frame[2], body, frame[1])
        else:
            self._answers.append(self._framed(frame, kind, body))
            if not self._pending or len(self._answers) >= _ANSWERS:
                self._send_answers()

    def _framed(self, frame, kind, body):
        return protocol.frame(frame[1], self._link.context, frame[2], kind, body)

    def _send_pieces(self, frame, kind, message):
        """Send a message that is too large for one frame, until CANCEL comes."""
        key = frame[1], frame[2]
        self._sending[key] = message
        self._send_answers()
        for piece in message.frames(frame[1], self._link.context, frame[2], kind):
            self._try(self._link.send_raw, [piece])
        self._sending.pop(key, None)

    def _send_answers(self):
        """Send what was printed, then all answers that have piled up: a call's output comes before its result."""
        with self._answers_lock:
            # Taken before the output is sent: whatever the calls of these answers printed has been printed by now.
            answers = [self._answers.popleft() for _ in range(len(self._answers))]
            self._try(self._flush)
            for function in self.before_answers:
                self._try(function)
            self._try(self._link.send_raw, [b"".join(answers)])

    def _try(self, function, *args):
        try:
            function(*args)
        except EnvironmentError:
            self._handle(None)


# Names of modules that have been imported to their end; no more than sys.modules has had. Those that came with the start
# are among them, so that on 2.7 a call of them does not wait for an import that some other call is in the middle of.
_imported = set(sys.modules)


def _module(name):
    if name in _imported:
        module = sys.modules.get(name)
        if module is not None:
            return module
    __import__(name)  # waits for another thread that is in the middle of importing it
    _imported.add(name)
    return sys.modules[name]


def _message(reason, message):
    return codec.dumps({"reason": reason, "type": "", "module": "", "args": None, "text": message, "traceback": ""})


def _dropped():
    return protocol.ERROR, _message(protocol.ERROR_CANCELLED, "the call was cancelled before it began")


def _describe_somehow(reason):
    """Like `describe`, and never raises: each call must be answered."""
    try:
        return describe(reason)
    except Exception:
        name = getattr(sys.exc_info()[0], "__name__", "")
        return _message(reason, "the call failed, and describing its error failed as well: %s" % name)


def describe(reason):
    """Return the body of ERROR for the exception that is being handled; of what its own code refuses, as much as can be had."""
    kind, error, trace = sys.exc_info()
    try:
        module = _attempt("", _module_of, kind)
        return codec.dumps(
            {
                "reason": reason,
                "type": _attempt("(unnamed)", _name_of, kind),
                "module": "builtins" if module == "exceptions" else module,
                "args": _attempt(None, _args_of, error),
                "fields": _attempt(None, _fields_of, error),
                "text": shortened(_attempt("(its text cannot be had)", _text_of, error), _TEXT_LIMIT),
                "traceback": shortened(_attempt("", _format, kind, error, trace), _TEXT_LIMIT),
                "path": shortened(_attempt("", _path_of, error, trace), _TEXT_LIMIT),
            }
        )
    finally:
        del kind, error, trace


def _attempt(default, function, *args):
    """Return what the function returns, or `default` when the exception's own code raises, be it SystemExit."""
    try:
        return function(*args)
    except BaseException:
        return default


def _module_of(kind):
    return text(getattr(kind, "__module__", None) or "builtins")


def _name_of(kind):
    return text(kind.__name__)


def _args_of(error):
    args = error.args
    filename = getattr(error, "filename", None)
    if isinstance(error, EnvironmentError) and filename is not None and len(args) == 2:
        args += (filename,)  # which is how its constructor takes it
    # Plain: an error must not wait for a part of the payload, nor fail over a class.
    size = len(codec.dumps(args, otherwise=False))
    return args if type(args) is tuple and size <= protocol.MAX_BODY // 2 else None


def _fields_of(error):
    fields = dict(vars(error))
    return fields if len(codec.dumps(fields, otherwise=False)) <= _TEXT_LIMIT else None


def _text_of(error):
    try:
        return text(str(error))
    except Exception:
        return text(codec.text_type(error))  # on 2.7 either may fail where the other does not


def _path_of(error, trace):
    """Return the path in the parent's memory that the failed call was given, where the text of the error names none; else "".

    Pillow says "cannot open resource", and nothing more. Not for what Python code raises: it knows what it means.
    """
    if not isinstance(error, EnvironmentError) or "roamlet:" in _text_of(error):
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    # Imported here because hardly any error needs it.
    from opcode import opmap

    frame = trace.tb_frame
    if bytearray(frame.f_code.co_code)[trace.tb_lasti] == opmap["RAISE_VARARGS"]:
        return ""
    for value in frame.f_locals.values():
        if hasattr(type(value), "__fspath__"):
            value = value.__fspath__()
        if isinstance(value, (str, codec.text_type)) and value[:9] == "roamlet:/":
            return text(value)
    return ""


def _format(kind, error, trace):
    # Imported here because only errors need it, and it costs some milliseconds.
    import traceback

    trace = trace and trace.tb_next  # without our own frame
    try:
        lines = traceback.format_exception(kind, error, trace)
    except Exception:
        lines = traceback.format_tb(trace) + ["%s: (its text cannot be had)\n" % kind.__name__]
    return "".join(text(line) for line in lines)
