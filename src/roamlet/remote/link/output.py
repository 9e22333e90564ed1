"""Hands on what a context prints and logs, in order, to sys.stdout, sys.stderr, `logging` or the user's own function.

The target makes it: wire/life/stdio.py what is printed, wire/life/logs.py what is logged. This runs on the thread for
callbacks, because printing may block and a user's function may do anything. What is not taken is kept up to a limit; then the
link is read no further until there is room, which slows the process that prints so much.
"""

import codecs
import itertools
import logging
import os
import sys
from collections import deque
from collections.abc import Callable

from roamlet._escapes import print_escaped
from roamlet.core import TaskletExit, Waiter, getcurrent, schedule, tasklet
from roamlet.core.os_threads import allocate_lock
from roamlet.remote.base.threads import TaskletThread
from roamlet.sync import Event
from roamlet.wire import codec

OutputFunction = Callable[[str, str, str], None]

KEPT = 1 << 20  # characters, and what it takes to keep them:
OVERHEAD = 256  # for each line or record, however short
LONGEST_LINE = 1 << 16
IN_A_ROW = 64
SHOWN_AT_THE_END = 12
HIGHEST_LEVEL = 1000  # of a log record
LONGEST_NAME = 1000  # characters of a logger's name
LOG_TYPES = (str, int, str, float, str, int, str)  # and the traceback: str or None

_log = logging.getLogger("roamlet.remote")

_NOTHING: "deque[tuple[int, Callable[[], None]]]" = (
    deque()
)  # the lines of a context that printed none: a deque takes 0.7 kB


class Output:
    """The output of one context.

    `function(context, stream, line)` is called for each line, without its line break; stream is "stdout" or "stderr".
    None means this process's own sys.stdout and sys.stderr. Lines of one context come one after the other. A function whose
    attribute `pieces` is true gets text as it comes instead, line breaks and all.
    """

    def __init__(self, context: str, function: OutputFunction | None, thread: TaskletThread) -> None:
        self.context = context
        self.last_errors: list[str] = []
        self.function = function
        self._function = function or _print
        self._in_pieces = getattr(function, "pieces", False) is True
        self._thread = thread
        self._lock = allocate_lock()
        self._items = _NOTHING
        self._kept = 0
        self._delivering = False
        self._room: Waiter[None] | None = None
        self._deliverer: tasklet[...] | None = None  # in which the function runs
        # How to refuse the calls that the function makes, and whether they have ended.
        self._asked_inside: list[tuple[Callable[[], None], Callable[[], bool]]] = []
        self._idle = Event()
        self._idle.set()
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        self._unfinished = {"stdout": "", "stderr": ""}

    def text(self, stream: str, data: bytes) -> None:
        """Take what was printed on `stream`; lines that are complete are handed on. Called by the link's reader alone."""
        text = self._decoders[stream].decode(data)
        if self._in_pieces:
            self._put(len(text), lambda: self._function(self.context, stream, text))
            return
        lines = (self._unfinished[stream] + text).split("\n")
        last = lines.pop()
        while len(last) > LONGEST_LINE:
            lines.append(last[:LONGEST_LINE])
            last = last[LONGEST_LINE:]
        self._unfinished[stream] = last
        for line in lines:
            self._line(stream, line)

    def flush(self) -> None:
        """Hand on what has no line break yet: nothing follows."""
        for stream, decoder in self._decoders.items():
            line = self._unfinished[stream] + decoder.decode(b"", final=True)
            self._unfinished[stream] = ""
            if line:
                self._line(stream, line)

    def log_record(self, body: bytes) -> None:
        """Take a LOG message. Raises ValueError for what no context sends."""
        fields = codec.loads(body)
        if not isinstance(fields, tuple) or tuple(map(type, fields[:7])) != LOG_TYPES or len(fields) != 8:
            raise ValueError("a malformed LOG message")
        logger, level, message, created, filename, line, thread, traceback = fields
        if (traceback is not None and type(traceback) is not str) or len(logger) > LONGEST_NAME:
            raise ValueError("a malformed LOG message")
        self.record(
            logger,
            max(0, min(level, HIGHEST_LEVEL)),
            message,
            created=created,
            pathname=filename,
            filename=os.path.basename(filename),
            lineno=line,
            threadName=thread,
            exc_text=traceback,
        )

    def record(self, logger: str, level: int, message: str, **fields: object) -> None:
        """Hand a log record on to the logger of the same name. Its attribute `roamlet_context` names the context that sent it."""
        if not logger.isprintable():
            logger = ascii(logger)[1:-1]

        def handle() -> None:
            target = _nearest_logger(logger)
            if target.isEnabledFor(level):
                record = {"name": logger, "levelno": level, "levelname": logging.getLevelName(level), "msg": message}
                target.handle(logging.makeLogRecord({**record, **fields, "roamlet_context": self.context}))

        self._put(len(message) + sum(len(text) for text in fields.values() if isinstance(text, str)), handle)

    def say(self, level: int, text: str) -> None:
        """Log something of roamlet's own about this context. Never blocks: the log's handlers, which may, are called elsewhere."""
        if _log.isEnabledFor(level):
            self._put(len(text), lambda: _log.log(level, "%s", text))

    def wait_for_room(self) -> None:
        """Block this tasklet while more is kept than the limit. Only the link's reader waits here."""
        with self._lock:
            if self._kept <= KEPT:
                return
            room = self._room = Waiter()
            asked, self._asked_inside = self._asked_inside, []
        for refuse, _ in asked:
            refuse()
        room.wait()

    @property
    def is_full(self) -> bool:
        """Whether the link's reader waits for room."""
        return self._room is not None

    @property
    def calls(self) -> bool:
        """Whether it is the function, and it alone, that runs this code: in the tasklet that takes the output."""
        return self._deliverer is not None and self._deliverer is getcurrent()

    def may_ask(self, refuse: Callable[[], None], ended: Callable[[], bool]) -> bool:
        """Whether the function may wait for an answer by the link that the output comes by: not while that link is not read.

        If reading stops later, the link's reader calls `refuse()`, unless `ended()` is true.
        """
        with self._lock:
            if self._room is not None:
                return False
            self._asked_inside = [(one, over) for one, over in self._asked_inside if not over()]
            self._asked_inside.append((refuse, ended))
            return True

    def wait_until_delivered(self, timeout: float) -> bool:
        """Block this tasklet until everything was handed on; False when `timeout` passed first."""
        if self._thread.is_current():
            return False  # a callback closes its own context: it cannot wait for itself
        return self._idle.wait(timeout)

    def _line(self, stream: str, line: str) -> None:
        if stream == "stderr":
            self.last_errors.append(line)
            del self.last_errors[:-SHOWN_AT_THE_END]
        self._put(len(line), lambda: self._function(self.context, stream, line))

    def _put(self, size: int, deliver: Callable[[], None]) -> None:
        with self._lock:
            size += OVERHEAD
            if self._items is _NOTHING:
                self._items = deque()
            self._items.append((size, deliver))
            self._kept += size
            if self._delivering:
                return
            self._delivering = True
            self._idle.clear()
        self._thread.post(self._deliver)

    def _deliver(self) -> None:
        self._deliverer = getcurrent()
        try:
            self._deliver_all()
        finally:
            self._deliverer = None

    def _deliver_all(self) -> None:
        for count in itertools.count(1):
            if count % IN_A_ROW == 0:
                schedule()  # other contexts print too
            with self._lock:
                if not self._items:
                    self._delivering = False
                    self._idle.set()
                    return
                size, deliver = self._items.popleft()
            try:
                deliver()
            except TaskletExit:  # the thread ends
                raise
            except BaseException:
                # The user's function or handler: no caller could get the error, and the next lines are wanted all the same.
                # SystemExit and its like would end the thread, and with it the output of all contexts.
                _log.exception("the output function of context %r failed", self.context)
            with self._lock:
                self._kept -= size
                room = self._room
                if room is not None and self._kept <= KEPT // 2:
                    self._room = None
                else:
                    room = None
            if room is not None:
                room.succeed()


def _nearest_logger(name: str) -> logging.Logger:
    """The logger of this name, or the one that it would inherit everything from.

    None is created: loggers live as long as the process, and the context chooses the names.
    """
    known = logging.root.manager.loggerDict
    while name:
        logger = known.get(name)
        if isinstance(logger, logging.Logger):
            return logger
        name = name.rpartition(".")[0]
    return logging.root


def _print(context: str, stream: str, line: str) -> None:
    """The default: this process's own streams, as they are at that moment; a terminal is not handed what it would obey."""
    target = sys.stderr if stream == "stderr" else sys.stdout
    if target is not None:
        print_escaped(line, target)
