"""Reads the script that ansible-core makes of a module (AnsiballZ): its parameters, and the files that it brings along.

`read` knows a script exactly or returns None. Coverage, debuggers and other extensions are not known.
"""

import ast
import base64
import binascii
import copy
import datetime
import hashlib
import io
import re
import struct
import zipfile
import zlib

from . import wrappers


class ModuleRun:
    """One run of a module."""

    __slots__ = (
        "date_time",
        "fqn",
        "name",
        "params",
        "payload",
        "profile",
        "rlimit_nofile",
        "shape",
        "zip_data",
    )

    def __init__(
        self,
        fqn: str,
        name: str,
        params: str,
        profile: str | None,
        zip_data: str,
        payload: str,
        date_time: tuple[int, ...],
        rlimit_nofile: int,
        shape: str,
    ) -> None:
        self.fqn = fqn  # "ansible.modules.ping"
        self.name = name  # what the temporary folder of the wrapper is called after: "ping", "ansible.legacy.ping"
        self.params = params  # JSON, as core wrote it; ASCII
        self.profile = profile  # of serialization; None before 2.19
        self.zip_data = zip_data  # base64
        self.payload = payload  # the SHA-256 of zip_data, in hexadecimal
        self.date_time = date_time  # six numbers, of the entries that the wrapper adds to the zip
        self.rlimit_nofile = rlimit_nofile  # 0: leave it
        self.shape = shape  # how the wrapper runs it: "2.16" by runpy, "2.19" by core's own loader

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleRun) and all(getattr(self, one) == getattr(other, one) for one in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


class UnreadablePayload(ValueError):
    """The data in a script is no base64 of a zip."""


class _Known:
    """A script that was read, without its date and its parameters: the next one of its module differs in those alone."""

    __slots__ = ("before", "between", "rest", "run")

    def __init__(self, data: bytes, run: ModuleRun) -> None:
        # As wrappers.cut() finds them, which has found them: each name is first where it is looked for.
        dated = data.index(b",\ndate_time=") + len(b",\ndate_time=")
        dated_end = data.index(_END, dated)
        given = data.index(b",\nparams=", dated_end) + len(b",\nparams=")
        given_end = data.index(_END, given)
        self.before, self.between, self.rest = data[:dated], data[dated_end:given], data[given_end:]
        self.run = run

    def read(self, data: bytes) -> ModuleRun | None:
        """The run of a script that differs from this one in its date and its parameters; None for another one."""
        if not data.startswith(self.before) or not data.endswith(self.rest):
            return None
        dated_end = data.find(_END, len(self.before))
        given = dated_end + len(self.between)
        # The end of each of them is the first one, as cut() takes it.
        if not data.startswith(self.between, dated_end) or data.find(_END, given) != len(data) - len(self.rest):
            return None
        run = copy.copy(self.run)
        run.date_time = _moment(data[len(self.before) : dated_end])
        run.params = _string(data[given : len(data) - len(self.rest)])
        return run


_END = b",\n"
_known: list[_Known] = []  # a loop runs one or two modules again and again
MOST_KNOWN = 4


def read(in_data: bytes) -> ModuleRun | None:
    """Read what core sends to an interpreter's standard input; None unless each byte of it is understood. Does not block."""
    data = bytes(in_data)
    try:
        for known in _known:
            run = known.read(data)
            if run is not None:
                return run
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    run = _read(data)
    if run is not None and run.shape == "2.19":
        known = _Known(data, run)
        if known.read(data) == run:
            _known.insert(0, known)
            del _known[MOST_KNOWN:]
    return run


def _read(data: bytes) -> ModuleRun | None:
    found = wrappers.cut(data)
    if (
        found is None
        or wrappers.KNOWN.get(found.digest) != found.layout.name
        or not _harmless(found.values["shebang"][0])
    ):
        return None
    try:
        values = {name: _same(texts) for name, texts in found.values.items()}
        return _of_call(values) if found.layout.shape == "2.19" else _of_template(values, found.layout.quoted)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def files(zip_data: str | bytes) -> dict[str, bytes]:
    """The files of a payload, by their paths in the zip. Raises UnreadablePayload. Does not block; takes some milliseconds."""
    return {path: source for path, (source, _) in packed_files(zip_data).items()}


def packed_files(zip_data: str | bytes) -> dict[str, tuple[bytes, bytes | None]]:
    """files(), each with what the zip has for it if that is in the format deflate (RFC 1951), else None."""
    try:
        data = base64.b64decode(zip_data, validate=True)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            # Of two entries with one name the last one counts, in zipimport as here. read() compares the checksum.
            return {name: (archive.read(name), _deflated(data, archive.getinfo(name))) for name in archive.namelist()}
    except (
        zipfile.BadZipFile,
        zlib.error,
        binascii.Error,
        NotImplementedError,
        RuntimeError,
        EOFError,
        ValueError,
    ) as error:
        raise UnreadablePayload(
            f"The data of a packed module is damaged: {error}. Ansible's temporary folder may be full."
        ) from error


def _deflated(data: bytes, entry: zipfile.ZipInfo) -> bytes | None:
    if entry.compress_type != zipfile.ZIP_DEFLATED:
        return None
    name, extra = struct.unpack_from("<HH", data, entry.header_offset + 26)  # the lengths of two fields after 30 bytes
    start = entry.header_offset + 30 + name + extra
    return data[start : start + entry.compress_size]


def _of_call(values: dict[str, bytes]) -> ModuleRun:
    if values["extensions"] != b"{}":
        raise ValueError("debuggers and coverage are not known")
    limit = values["rlimit_nofile"]
    return _checked(
        fqn=_string(values["module_fqn"]),
        name=_string(values["ansible_module"]),
        params=_string(values["params"]),
        profile=_name(_string(values["profile"])),
        zip_data=_between(values["zip_data"], b"'"),
        date_time=_moment(values["date_time"]),
        rlimit_nofile=0 if limit == b"0" else _number(limit),
        shape="2.19",
    )


def _of_template(values: dict[str, bytes], quoted: bool) -> ModuleRun:
    return _checked(
        fqn=_string(values["module_fqn"]) if quoted else values["module_fqn"].decode("ascii"),
        name=_string(values["ansible_module"]) if quoted else values["ansible_module"].decode("ascii"),
        params=_string(values["params"]),
        profile=None,
        zip_data=_between(values["zip_data"], b"'" if quoted else b'"""'),
        date_time=_six_numbers(values["date_time"]),
        rlimit_nofile=_number(values["rlimit_nofile"]) if "rlimit_nofile" in values else 0,
        shape="2.16",
    )


def _checked(
    fqn: str,
    name: str,
    params: str,
    profile: str | None,
    zip_data: str,
    date_time: tuple[int, ...],
    rlimit_nofile: int,
    shape: str,
) -> ModuleRun:
    encoded = zip_data.encode("ascii")
    digits = encoded.rstrip(b"=")
    if not digits or len(encoded) % 4 or len(encoded) - len(digits) > 2 or digits.translate(None, _BASE64):
        raise ValueError("no base64")
    payload = hashlib.sha256(encoded).hexdigest()
    return ModuleRun(_name(fqn), _name(name), params, profile, zip_data, payload, date_time, rlimit_nofile, shape)


_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PLAIN = bytes(set(range(0x20, 0x7F)) - set(b"'\\"))  # what repr() writes between single quotes as it is
_ESCAPE = rb"\\(?:[\\'nrt]|x[0-9a-f][0-9a-f])"  # what repr() writes
_DIGITS = b"0123456789"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
_NAMES = frozenset(_LETTERS + ".-")


def _same(texts: list[bytes]) -> bytes:
    if any(text != texts[0] for text in texts):
        raise ValueError("one value in two forms")
    return texts[0]


def _harmless(shebang: bytes) -> bool:
    """Whether the first line is one comment for Python and leaves the encoding of the source alone."""
    try:
        shebang.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not any(part in shebang for part in (b"\r", b"\0", b"coding"))


def _string(text: bytes) -> str:
    """The string that is written as `text`, if that is how repr() writes it, in ASCII: so it is the same string on 2.7."""
    # The usual case, without a parser: parameters may have megabytes.
    if len(text) > 1 and text[:1] == text[-1:] == b"'" and not text[1:-1].translate(None, _PLAIN):
        return text[1:-1].decode("ascii")
    if b"\\" in re.sub(_ESCAPE, b"", text):  # Python would warn about some of the others
        raise ValueError("not as repr() writes it")
    written = text.decode("ascii")
    value = ast.literal_eval(written)
    if type(value) is not str or not value.isascii() or repr(value) != written:
        raise ValueError("not as repr() writes it")
    return value


def _between(text: bytes, quotes: bytes) -> str:
    if not (text.startswith(quotes) and text.endswith(quotes) and len(text) > 2 * len(quotes)):
        raise ValueError("no string between quotes")
    return text[len(quotes) : -len(quotes)].decode("ascii")


def _name(text: str) -> str:
    """A name of modules. Those with other characters exist in theory: they run as the script that they are."""
    if text[:1] not in _LETTERS or not text or not _NAMES.issuperset(text):
        raise ValueError("no name")
    return text


def _number(text: bytes) -> int:
    """A limit of open files. A negative one means something only to the wrapper."""
    if not 0 < len(text) <= 16 or text.translate(None, _DIGITS) or text[:1] == b"0":
        raise ValueError("no limit")
    return int(text)


def _six_numbers(text: bytes) -> tuple[int, ...]:
    numbers = _numbers(text, b"(", b")")
    if len(numbers) != 6 or repr(numbers).encode() != text:
        raise ValueError("no date")
    return numbers


def _numbers(text: bytes, before: bytes, after: bytes) -> tuple[int, ...]:
    """The numbers between two texts; none for other words."""
    within = text.removeprefix(before).removesuffix(after).split(b", ") if len(text) < 128 else []
    return () if any(not word or word.translate(None, _DIGITS) for word in within) else tuple(map(int, within))


def _moment(text: bytes) -> tuple[int, ...]:
    numbers = _numbers(text, b"datetime.datetime(", b", tzinfo=datetime.timezone.utc)")
    if not 5 <= len(numbers) <= 7:
        raise ValueError("no date")
    moment = datetime.datetime(*numbers, tzinfo=datetime.UTC)  # type: ignore[arg-type, misc]
    if repr(moment).encode() != text:
        raise ValueError("no date")
    return tuple(moment.utctimetuple()[:6])
