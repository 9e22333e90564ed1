"""Sends the shared objects of extension modules to one context: in pieces, each sent when the link's queue is empty.

Which files these are is decided in modules/; roamlet.wire.modules.extensions receives them.
"""

import logging
from collections.abc import Iterable

from roamlet.core import schedule
from roamlet.core.os_threads import allocate_lock
from roamlet.remote.base.threads import TaskletThread
from roamlet.remote.errors import RemoteError
from roamlet.remote.link.frames import ROOT
from roamlet.remote.link.link import Link
from roamlet.remote.link.piece_cache import MORE
from roamlet.remote.modules import SMALL, Extension, SharedFile, form_for
from roamlet.wire import protocol

NOTHING = b"!"


class SharedObjectSender:
    """Sends each file once. Thread-safe; no method blocks. `packer`: how bundles for this target are packed."""

    def __init__(self, link: Link, thread: TaskletThread, packer: str = "zlib") -> None:
        self.packer = packer
        self._link = link
        self._thread = thread
        self._announced: dict[int, tuple[SharedFile, str]] = {}  # with the package that it was announced for
        self._asked: set[int] = set()
        self._untold: list[SharedFile] = []
        self._begun: set[int] = set()
        self._waiting: list[SharedFile] = []  # few: most contexts get none
        self._runs = False
        self._lock = allocate_lock()

    def announce(self, extensions: Iterable[Extension], certain: Iterable[Extension]) -> bytes:
        """Let the context ask for the files of these modules, whose announcement is about to be sent.

        Returns the frames that tell it not to ask for those of `certain`, which will be pushed.
        """
        with self._lock:
            for extension in extensions:
                package = extension.name.rpartition(".")[0]
                self._announced.update((file.number, (file, package)) for file in extension.files)
        numbers = dict.fromkeys(file.number for extension in certain for file in extension.files)
        return b"".join(self._frame(number, MORE) for number in numbers)

    def push(self, extensions: Iterable[Extension]) -> None:
        """Send the files of these modules that have not been sent. They must have been announced."""
        self._queue([file for extension in extensions for file in extension.files], first=False)

    def answer(self, number: int) -> None:
        """The context waits for a file: send it before files that were not asked for.

        The small ones of the same package are sent too: a program that imports one module of `numpy.random` imports the others.
        Raises ValueError for a file that was not announced, and when the context asks twice.
        """
        with self._lock:
            file, package = self._announced.get(number, (None, ""))
            if file is None:
                raise ValueError(f"a PIECE message for the file {number}, which no module of this link has")
            if number in self._asked:
                raise ValueError(f"a second PIECE message for the file {number}")
            self._asked.add(number)
            beside = [
                other
                for other, its in self._announced.values()
                if package and its == package and other.size <= SMALL and other.number not in self._begun
            ]
            self._untold += [other for other in beside if other is not file and other not in self._waiting]
        self._queue([file], first=True)
        self._queue(beside, first=False)

    def _queue(self, files: list[SharedFile], *, first: bool) -> None:
        with self._lock:
            new = [file for file in files if file.number not in self._begun]
            if first:
                for file in new:
                    if file in self._waiting:
                        self._waiting.remove(file)
                self._waiting[:0] = new
            else:
                self._waiting.extend(file for file in dict.fromkeys(new) if file not in self._waiting)
            start = bool(self._waiting) and not self._runs
            self._runs = self._runs or start
        if start:
            self._thread.post(self._run)

    def _tell(self) -> None:
        """Tell the context which files are pushed, so that it need not ask for them."""
        with self._lock:
            untold, self._untold = self._untold, []
        for file in untold:
            self._put(file.number, MORE)

    def _next(self) -> SharedFile | None:
        with self._lock:
            if not self._waiting:
                self._runs = False
                return None
            file = self._waiting.pop(0)
            self._begun.add(file.number)
            return file

    def _run(self) -> None:
        """Send until nothing is left. Runs as one tasklet on the thread for modules."""
        while (file := self._next()) is not None:
            try:
                self._tell()
                self._send(file)
            except RemoteError as error:  # the link has ended, and no import waits any more
                self._link.output.say(logging.DEBUG, f"shared objects were not sent: {error}")
                with self._lock:
                    self._waiting.clear()

    def _send(self, file: SharedFile) -> None:
        try:
            # An intermediary keeps it in its memory: in a small form.
            is_near = self._link.is_near and self._link.trunk is None
            for piece in file.pieces(form_for(self.packer, is_near=is_near)):
                self._link.send_piece(file.number, piece)
                schedule()  # another link's modules may be waiting for this thread
        except OSError as error:
            self._put(file.number, NOTHING + f"{error}; was it changed since it was imported?".encode())

    def _put(self, number: int, body: bytes) -> None:
        self._link.send_when_quiet(self._frame(number, body))

    def _frame(self, number: int, body: bytes) -> bytes:
        frame: bytes = protocol.frame(self._link.identifier, ROOT, number, protocol.PIECE, body)
        return frame
