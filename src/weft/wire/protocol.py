"""What lies on the wire between a parent and a context: frames, their kinds, their bodies, the start line.

Both sides use this file: the parent imports it, the target receives it inside the payload. It therefore keeps to the
common syntax of Python 2.7 and 3.6+ and imports the standard library only. Nothing here reads or writes a descriptor.

Order of a connection, seen from the target::

    argv      the first stage (weft.wire.build) with a random token
    stdin     PAYLOAD (its exact size stands in argv), then frames; the parent pushes PAYLOAD, CONFIG and whatever it
              likes (MODULES, CALL...) at once and waits for nothing
    stdout    noise of the login shell, if any; then the START LINE; then frames, HELLO first

START LINE: ``<token><status> <text>`` and a newline, see `start_line` and weft.wire.build.StartScanner. The token stands in argv as
two words, so that a shell which echoes its command line does not print it by accident. After any status but STARTED the
process ends, and the text says why.

A frame is a header and a body: ``>IIIIB`` destination context, source context, id, length of the body, kind. Context 0 is
the root; a child learns its own number from CONFIG. The id belongs to whoever asked: a reply carries the id of its
request. Bodies are one value in weft.wire.codec unless "raw" is said.

kind     way   id         body
HELLO    up    0          dict: protocol (int), python (tuple major, minor, micro), implementation, platform, machine (str),
                          pid (int), executable (str), magic (bytes: of this Python's bytecode), packages (str: the
                          top-level names that import over there, standard modules included, joined by one space), libc (str,
                          "glibc 2.36" or empty), suffixes (str, joined likewise: endings of extension modules, empty on 2.7),
                          namespaces (str, joined likewise: directories that could serve as namespace packages; a
                          package of the parent wins over them)
CONFIG   down  0          dict: id (int), name (str), and optionally log_level (int, 30), max_threads (int, 64),
                          import_timeout (seconds, 60.0), prefer ("target": a top-level package that the target has is
                          never taken from the parent; "parent": what MODULES brings wins; or a list of str: the packages
                          of which what MODULES brings wins)
MODULES  down  0/WANT's   raw, see weft.wire.bundle: modules, and names known to be absent. With the id of a WANT it is
                          the answer to it
WANT     up    fresh      str: the full name of a module that no bundle brought. Answered by one MODULES frame of the
                          same id; a name that it neither brings nor calls absent counts as absent
CALL     down  fresh      tuple: module (str), qualified name (str), args (tuple), kwargs (dict or None)
RESULT   up    CALL's     the value
ERROR    up    CALL's     dict: reason (one of the ERROR_* words below), type (str), module (str; builtins for builtin types
                          on 2.7 too), args (tuple, or None if they cannot travel), text (str(exception)), traceback
                          (str that ends in newline, causes included)
CANCEL   down  CALL's     raw, empty: a call that has not started is dropped and answered by ERROR "cancelled"; one that
                          runs goes on, and its result is sent as usual; where calls are tasklets, it is killed
STREAM   up    1 or 2     raw bytes that the context wrote to standard output (1) or standard error (2)
LOG      up    0          tuple: logger name, level (int), message, time (float, seconds since 1970), file name, line
                          (int), thread name, traceback text or None
GOODBYE  down  0          raw, empty: end in order. up: all that was printed and logged was sent before; nothing follows
PING     both  fresh      raw; PONG answers with the same id and body
PONG     both  PING's     raw
PART     down  0          str: the last name of a module weft.wire.*, a part of this package that is no piece of the payload
                          because few contexts need it. It came by MODULES before; it is imported and its install(child)
                          called, in the thread that reads, before the next frame is looked at. It may take kinds of its own
PIECE    down  a file's   raw: "+" and more of the zlib stream of that shared object, nothing more if it is on its way; or "!"
                          and why it cannot come (UTF-8)
         up    a file's   raw, empty: an import waits for the file, which a bundle has announced
CHANNEL  both  channel's  raw, see weft.wire.channels: what happens to a channel that was given to the context

What a call printed or logged arrives before its RESULT or ERROR; what its child processes printed does, if it was in
the pipe by then.

KIND_MORE in the kind byte: the body is a piece of a message that goes on in the next frame of the same source, id and kind,
see weft.wire.series. Whoever passes frames on treats it like any other.
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
KIND_MORE = 0x80

KIND_NAMES = (
    "", "HELLO", "CONFIG", "MODULES", "WANT", "CALL", "RESULT", "ERROR", "CANCEL", "STREAM", "LOG", "GOODBYE", "PING", "PONG",
    "PART", "PIECE", "CHANNEL",
)  # fmt: skip
LAST_KIND = len(KIND_NAMES) - 1

# Why a call failed: the word "reason" of ERROR.
ERROR_RAISED = "raised"  # the function raised; SystemExit and its like included
ERROR_IMPORT = "import"  # the function's module could not be imported
ERROR_FUNCTION = "function"  # the module is there, the function is not
ERROR_RESULT = "result"  # the function returned something that cannot travel; text names the path inside it
ERROR_CANCELLED = "cancelled"  # CANCEL came before the call had started
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
    """The other side sent what no weft of this version sends. The link is unusable from here on."""


def frame(destination, source, identifier, kind, body):
    """Return header + body as one bytes object. Raises ProtocolError when the body is longer than MAX_BODY."""
    if len(body) > MAX_BODY:
        raise ProtocolError(
            "a %s message of %d bytes is longer than the limit of %d bytes; send it in parts"
            % (kind_name(kind), len(body), MAX_BODY)
        )
    return HEADER.pack(destination, source, identifier, len(body), kind) + body


def kind_name(kind):
    """Return the name of a kind for messages, whatever number it is."""
    plain = kind & ~KIND_MORE
    if not 0 < plain < len(KIND_NAMES):
        return "unknown kind %d" % kind
    return KIND_NAMES[plain] if plain == kind else "piece of " + KIND_NAMES[plain]


def start_line(token, status, text=""):
    """Return the start line as bytes: what a target prints before its first frame."""
    return ("%s%d %s\n" % (token, status, text)).encode("utf-8")


class FrameReader(object):
    """Cut a stream of bytes into frames. Not thread-safe: one reader at a time.

    Holds at most one incomplete frame; a length above MAX_BODY is refused before its body is stored, and what is stored
    is never more than what has arrived.
    """

    def __init__(self):
        self._parts = []
        self._have = 0
        self._need = HEADER_SIZE

    def feed(self, data):
        """Return the frames that `data` (bytes, not empty) completes: a list of (destination, source, id, kind, body).

        Raises ProtocolError on a kind or a length that cannot be; the reader is of no use after that.
        """
        if self._parts:
            self._parts.append(data)
            self._have += len(data)
            if self._have < self._need:
                return ()
            data = b"".join(self._parts)
            self._parts = []
        frames = []
        position = 0
        end = len(data)
        need = HEADER_SIZE
        while end - position >= HEADER_SIZE:
            destination, source, identifier, length, kind = HEADER.unpack_from(data, position)
            if length > MAX_BODY or not HELLO <= kind & ~KIND_MORE <= LAST_KIND:
                raise ProtocolError(
                    "context %d sent a frame that is none: %s, %d bytes (limit %d); something else writes to the "
                    "descriptors of the link" % (source, kind_name(kind), length, MAX_BODY)
                )
            stop = position + HEADER_SIZE + length
            if stop > end:
                need = stop - position
                break
            frames.append((destination, source, identifier, kind, data[position + HEADER_SIZE : stop]))
            position = stop
        if position < end:
            self._parts = [data[position:]]
            self._have = end - position
            self._need = need
        return frames

    def incomplete(self):
        """Return how many bytes of an unfinished frame are held: not 0 at the end of a stream means that it was cut."""
        return self._have if self._parts else 0
