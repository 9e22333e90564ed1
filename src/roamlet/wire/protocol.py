"""What lies on the wire between a parent and a context: frames, their kinds, their bodies, the start line.

Nothing here reads or writes a descriptor.

Order of a connection, seen from the target::

    argv      the first stage (roamlet.wire.build) with a random token
    stdin     PAYLOAD (its exact size is in argv), then frames; the parent pushes PAYLOAD, CONFIG and whatever it
              likes (MODULES, CALL...) at once and waits for nothing
    stdout    noise of the login shell, if any; then the START LINE; then frames, HELLO first

START LINE: ``<token><status> <text>`` and a newline, see `start_line` and roamlet.wire.build.StartScanner. The token is in
argv as two words, so that a shell which echoes its command line does not print it by accident. After any status but STARTED the
process ends, and the text says why.

A frame is a header and a body: ``>IIIIB`` destination context, source context, id, length of the body, kind. Context 0 is
the root; a child learns its own number from CONFIG. The id belongs to whoever asked: a reply carries the id of its
request. Bodies are one value in roamlet.wire.codec unless "raw" is said.

kind     way   id         body
HELLO    up    0          dict: protocol (int), python (tuple major, minor, micro), implementation, platform, machine (str),
                          pid (int), executable (str), magic (bytes: of this Python's bytecode), packages (str: the
                          top-level names that import on the target, standard modules included, joined by one space), libc (str,
                          "glibc 2.36" or empty), suffixes (str, joined likewise: endings of extension modules, empty on 2.7),
                          namespaces (str, joined likewise: directories that could serve as namespace packages; a
                          package of the parent wins over them)
CONFIG   down  0          dict: id (int), name (str), and optionally log_level (int, 30), max_threads (int, 64),
                          import_timeout (seconds, 60.0), prefer ("target": a top-level package that the target has is
                          never taken from the parent; "parent": what MODULES brings wins; or a list of str: the packages
                          of which what MODULES brings wins)
MODULES  down  0/WANT's   raw, see roamlet.wire.modules.bundle: modules, and names known to be absent. With the id of a WANT it is
                          the answer to it
WANT     up    fresh      str: the full name of a module that no bundle brought. Answered by one MODULES frame of the
                          same id; a name that it neither brings nor calls absent counts as absent. "!name" asks for a
                          module's source as it is now; "package/path", "package/path/" and "@..." for data, see
                          roamlet.wire.modules.resources and roamlet.wire.modules.metadata; "roamlet.wire.name" for a
                          part of this package
CALL     down  fresh      tuple: module (str), qualified name (str), args (tuple), kwargs (dict or None)
RESULT   up    CALL's     the value
ERROR    up    CALL's     dict: reason (one of the ERROR_* words below), type (str), module (str; builtins for builtin types
                          on 2.7 too), args (tuple, or None if they cannot travel), fields (dict of what else it holds, or
                          None), text (str(exception)), traceback (str that ends in newline, causes included)
CANCEL   down  CALL's     raw, empty: a call that has not started is dropped and answered by ERROR "cancelled"; one that
                          runs goes on, and its result is sent as usual; where calls are tasklets, it is killed
STREAM   up    1 or 2     raw bytes that the context wrote to standard output (1) or standard error (2)
LOG      up    0          tuple: logger name, level (int), message, time (float, seconds since 1970), file name, line
                          (int), thread name, traceback text or None
GOODBYE  down  0          raw, empty: end in order. up: all that was printed and logged was sent before; nothing follows
PING     both  fresh      raw; PONG answers with the same id and body
PONG     both  PING's     raw; behind what is on its way
PART     down  0          str: the name below roamlet.wire of a module, a part of this package that is no piece of the payload
                          because few contexts need it. It came by MODULES before, and those that it imports by PART before;
                          it is made, and its install(child) called if it has one, in the thread that reads, before the
                          next frame is looked at. It may take kinds of its own
PIECE    down  a file's   raw: "+" and more of the zlib or zstd stream of that shared object, nothing more if it is on its way; or
                          "!" and why it cannot come (UTF-8)
         up    a file's   raw, empty: an import waits for the file, which a bundle has announced
CHANNEL  both  channel's  raw, see roamlet.wire.channels: what happens to a channel that was given to the context

What a call printed or logged arrives before its RESULT or ERROR; what its child processes printed does, if it was in
the pipe by then.

KIND_MORE in the kind byte: the body is a piece of a message that goes on in the next frame of the same source, id and kind,
see roamlet.wire.values.large_messages. Whoever passes frames on treats it like any other.

KIND_CUT in the kind byte: this body goes on in a later frame of the same destination, source, id and kind; the last one comes
without it. So a body can be cut on its way where it must give way to others, and an intermediary can pass on what it has of it;
the reader of frames puts them together again. Of one source to one destination no second body is cut before the first has
ended, but for one of MODULES beside one of any other kind: calls wait for credit in the middle of a body, and modules wait for
nothing. Whole frames may come in between; of MODULES none does.

Behind an intermediary: a context that was sent the part roamlet.wire.link.router starts others and passes their frames
on, those that go down by their destination, those that come up once their source has been found to belong to the stream
they came by. What is said there about a context bears its number as id:

SPAWN    down  the new    dict: argv (list of str), token (str), config (bytes: the body of its CONFIG), translated (bool: it
               context's  speaks the language of the place, and shall speak English)
SAID     up    the        raw: a byte, then what its process wrote before it spoke frames: 1 on standard output, the start line
               context's  included; 2 on standard error, at any time
GONE     up    the        dict: code (int: exit code, negative for a signal, or None), errno (int, or None: the command could not
               context's  be started), wrong (str: what it did against the protocol, or None). Nothing of it and of those
                          behind it follows
CREDIT   up    the        raw, >QI: how many bytes of the frames to this context have been written into its pipe, how many wait
               context's
HOLD     down  the        raw: a byte. 0: read on. 1: read nothing more of it (of itself: send no STREAM and LOG). 2: close its
               context's  standard input. 3 and 4: terminate it, kill it
KEEP     down  a fresh    raw: a bundle to be kept for the contexts behind, or the body of a PIECE. With id 0: list of int, those
               number     to be forgotten. An empty piece of it (KIND_CUT) may go ahead: it announces the bundle, so that INSERT may
                          refer to what is still to come
INSERT   down  0, or      tuple: destination (int), id (int), kind (int) of the frame to be made out of kept bundles and to be
               its bytes  passed on, with an id counted by CREDIT; then the number of the bundle that is its body; or, where it is
                          put together, of the bundle whose absent names it has, and list of tuple: a bundle (int), its modules
                          from (int) to (int). One bundle as it is goes on piece by piece while it comes; one that is put
                          together, or counted, when all is there

Behind the part roamlet.wire.calls.chains:

CHAIN    down  a CALL's   raw, >cI: "J", and the chain that the CALL of this id joins, which comes next. With id 0: "E", and the
               or 0       chain that is over: what has not begun is dropped, what runs is cancelled
"""

import struct

PROTOCOL = 1

HELLO = 1
CONFIG = 2
MODULES = 3
WANT = 4
CALL = 5
RESULT = 6
ERROR = 7
CANCEL = 8
STREAM = 9
LOG = 10
GOODBYE = 11
PING = 12
PONG = 13
PART = 14
PIECE = 15
CHANNEL = 16
SPAWN = 17
SAID = 18
GONE = 19
CREDIT = 20
HOLD = 21
KEEP = 22
INSERT = 23
CHAIN = 24
KIND_MORE = 0x80
KIND_CUT = 0x40

KIND_NAMES = (
    "", "HELLO", "CONFIG", "MODULES", "WANT", "CALL", "RESULT", "ERROR", "CANCEL", "STREAM", "LOG", "GOODBYE", "PING", "PONG",
    "PART", "PIECE", "CHANNEL", "SPAWN", "SAID", "GONE", "CREDIT", "HOLD", "KEEP", "INSERT", "CHAIN",
)  # fmt: skip
LAST_KIND = len(KIND_NAMES) - 1

# Why a call failed: the word "reason" of ERROR.
ERROR_RAISED = "raised"  # the function raised; SystemExit and its like included
ERROR_IMPORT = "import"  # the function's module could not be imported
ERROR_FUNCTION = "function"  # the module is there, the function is not
ERROR_RESULT = "result"  # the function returned something that cannot travel; text names the path inside it
ERROR_CANCELLED = "cancelled"  # CANCEL came before the call had started
ERROR_CHAIN = "chain"  # a call before it in its chain failed, so it has not begun
ERROR_MESSAGE = "message"  # the call itself could not be read: a mistake of ours or of the link

# What the start line says.
STARTED = 0
TOO_OLD = 1  # text: the version that was found
START_FAILED = 2  # text: the error in one line
NO_PYTHON = 3  # text: the interpreters that were looked for; printed by the shell, see build.shell_command

HEADER = struct.Struct(">IIIIB")
HEADER_SIZE = HEADER.size
MAX_BODY = 1 << 27  # bytes; a longer body is refused by the sender, and by the receiver before it is stored


class WireError(Exception):
    """Base of what goes wrong on the wire."""


class ProtocolError(WireError, ValueError):
    """The other side sent what no roamlet of this version sends. The link is unusable from here on."""


def frame(destination, source, identifier, kind, body):
    """Return header + body as one bytes object. Raises ProtocolError when the body is longer than MAX_BODY."""
    if len(body) > MAX_BODY:
        refuse_long(kind, len(body))
    return HEADER.pack(destination, source, identifier, len(body), kind) + body


def refuse_long(kind, size):
    """Raise ProtocolError for a body of more than MAX_BODY bytes."""
    raise ProtocolError(
        "a %s message of %d bytes is longer than the limit of %d bytes; send it in parts"
        % (kind_name(kind), size, MAX_BODY)
    )


def kind_name(kind):
    """Return the name of a kind for messages, whatever number it is."""
    plain = kind & ~(KIND_MORE | KIND_CUT)
    if not 0 < plain < len(KIND_NAMES):
        return "unknown kind %d" % kind
    return "piece of " + KIND_NAMES[plain] if kind & KIND_MORE else KIND_NAMES[plain]


def start_line(token, status, text=""):
    """Return the start line as bytes: what a target prints before its first frame."""
    return ("%s%d %s\n" % (token, status, text)).encode("utf-8")


def unpack_header(data, position=0):
    """Return (destination, source, id, length of the body, kind) of the header at `position`.

    Raises ProtocolError on a kind or a length that cannot be.
    """
    header = HEADER.unpack_from(data, position)
    if header[3] > MAX_BODY or not HELLO <= header[4] & ~(KIND_MORE | KIND_CUT) <= LAST_KIND:
        raise ProtocolError(
            "context %d sent no valid frame: %s, %d bytes (limit %d); something else writes to the "
            "descriptors of the link" % (header[1], kind_name(header[4]), header[3], MAX_BODY)
        )
    return header


if bytes is str:  # 2.7, which joins no views

    def _part(data, start, stop):
        return data[start:stop]

else:

    def _part(data, start, stop):
        return memoryview(data)[start:stop]


class FrameReader(object):
    """Cut a stream of bytes into frames. Not thread-safe: one reader at a time.

    Holds at most one incomplete frame, and of each source one body that came in several, and one of MODULES; a length above
    MAX_BODY is refused before its body is stored, and what is stored is never more than what has arrived.
    """

    def __init__(self):
        self._parts = []
        self._have = 0
        self._need = HEADER_SIZE
        self._cut = {}  # (destination, source, is it MODULES) -> (id, kind, bytearray) of a body that goes on

    def feed(self, data):
        """Return the frames that `data` (bytes, not empty) completes: a list of (destination, source, id, kind, body).

        Raises ProtocolError on what no frame is; the reader is of no use after that.
        """
        frames = []
        if self._parts:
            data = self._long_frame(frames, data) if self._need > HEADER_SIZE else self._with_held(data)
            if not data:
                return frames
        position = 0
        end = len(data)
        need = HEADER_SIZE
        while end - position >= HEADER_SIZE:
            destination, source, identifier, length, kind = unpack_header(data, position)
            stop = position + HEADER_SIZE + length
            if stop > end:
                need = stop - position
                break
            self._whole(frames, destination, source, identifier, kind, data[position + HEADER_SIZE : stop])
            position = stop
        self._hold(data, position, need)
        return frames

    def _with_held(self, data):
        """Return `data` behind what is held, or hold it too and return None while that is no whole frame."""
        self._parts.append(data)
        self._have += len(data)
        if self._have < self._need:
            return None
        data = b"".join(self._parts)
        self._parts = []
        return data

    def _long_frame(self, frames, data):
        """Append the held frame to `frames` if `data` completes it; return what is left of `data`. Copies the body once."""
        parts = self._parts
        parts.append(data)
        self._have += len(data)
        rest = self._have - self._need
        if rest < 0:
            return b""
        destination, source, identifier, _, kind = unpack_header(parts[0])
        parts[0] = _part(parts[0], HEADER_SIZE, len(parts[0]))
        parts[-1] = _part(data, 0, len(data) - rest)
        self._parts = []
        self._whole(frames, destination, source, identifier, kind, b"".join(parts))
        return data[len(data) - rest :]

    def _hold(self, data, position, need):
        """Keep what is left of `data` until `need` bytes are there."""
        if position < len(data):
            self._parts = [data[position:]]
            self._have = len(data) - position
            self._need = need

    def _whole(self, frames, destination, source, identifier, kind, body):
        """Append the frame to `frames` unless its body goes on; then keep that."""
        if kind & KIND_CUT or self._cut:
            ends = destination, source, kind & ~KIND_CUT == MODULES
            body = self._joined(ends, identifier, kind, body)
        if body is not None:
            frames.append((destination, source, identifier, kind, body))

    def _joined(self, ends, identifier, kind, piece):
        """Return the whole body that `piece` completes, be it alone; None when it goes on."""
        bare = kind & ~KIND_CUT
        held = self._cut.get(ends)
        if held is None or held[:2] != (identifier, bare):
            if kind == bare:
                return piece
            if held is not None:
                raise ProtocolError(
                    "context %d began a %s message before the end of a %s message"
                    % (ends[1], kind_name(bare), kind_name(held[1]))
                )
            held = self._cut[ends] = (identifier, bare, bytearray())
        if len(held[2]) + len(piece) > MAX_BODY:
            raise ProtocolError(
                "context %d sent a %s message of more than %d bytes" % (ends[1], kind_name(bare), MAX_BODY)
            )
        held[2].extend(piece)
        if kind != bare:
            return None
        del self._cut[ends]
        return bytes(held[2])
