"""The layout of a bundle, which the parent packs and the target reads: modules in one compressed stream, and names that are absent.

What goes into a bundle is decided elsewhere.

Layout: one zlib, xz or zstd stream, which says by its first bytes what it is, over ``>I`` size of head, head
(roamlet.wire.codec), sources one after another. The head is a dict:

    modules   list of tuple: name (str), kind, size of its source in bytes (int), origin (str: where the parent has it, for
              tracebacks). In the order of the sources; dependencies first. Kinds: MODULE, PACKAGE, NAMESPACE; the first two
              with CODE added hold marshalled bytecode of the target's own magic in place of the source. A DATA is no
              module: a data file "package/path in it"; what lies in a folder, "package/path/" (see
              roamlet.wire.modules.resources); or what "@..." asks for (see roamlet.wire.modules.metadata). Of an
              EXTENSION the source is a codec value: (is a package, list of (number of a file, the name that others need
              it by, its size, the name that it gives itself), whether a Python file can take its place); libraries in
              the order in which the linker is to search them, the module last; the files come as PIECEs.
              A DATA with one of the names ANNOUNCED and DONE says only that another bundle follows, and that it has come, or does
              not come: what is missed in between waits for it, as the answer to a question would come after it. Its bytes, the same
              in both, tell which bundle that is; a DONE for a bundle that was not announced says nothing
    absent    list of str: full names that an import may ask for and that are nowhere; they cost no round trip
    reasons   dict: absent name -> a sentence that ends the message of its ImportError (which Python has it, say)
    complete  dict: package -> list of str, the last parts of all its submodules at the parent: any other submodule is
              absent. A package that is not listed here is asked about

Sources are the bytes of the file, with whatever coding line they carry. One stream for all of them is a tenth smaller than
one for each, and the names and origins cost next to nothing in it.
"""

import struct
import zlib

from roamlet.wire import codec

MODULE = 0
PACKAGE = 1
NAMESPACE = 2  # a package without a source
DATA = 3  # no module
EXTENSION = 4  # an extension module, a package or not; its files follow, see roamlet.wire.modules.extensions
ANNOUNCED = "+"
DONE = "-"
CODE = 8  # added to MODULE or PACKAGE: bytecode
PACKERS = ("zlib", "xz", "zstd")

_SIZE = struct.Struct(">I")


def pack(modules, absent=(), reasons=None, complete=None, level=9, packer="zlib"):
    """Return the body of a MODULES frame. Takes about 60 ms for each megabyte of source at level 9.

    `modules`: iterable of (name, kind, source bytes, origin), dependencies first; a NAMESPACE has b"" as its source. `packer`: one
    of PACKERS; `level` is in its own terms.
    """
    modules = list(modules)
    head = codec.dumps(
        {
            "modules": [(name, kind, len(source), origin) for name, kind, source, origin in modules],
            "absent": list(absent),
            "reasons": dict(reasons or {}),
            "complete": dict(complete or {}),
        },
        "bundle",
    )
    stream = compressor(packer, level)
    parts = [stream.compress(_SIZE.pack(len(head)) + head)]
    parts.extend(stream.compress(source) for _, _, source, _ in modules)
    parts.append(stream.flush())
    return b"".join(parts)


def compressor(packer, level):
    """Return what compresses a stream: an object with compress(data) and flush(). `packer`: one of PACKERS."""
    # Imported here because a target has neither unless it needs it.
    if packer == "xz":
        import lzma

        return lzma.LZMACompressor(preset=level)
    if packer == "zstd":
        from compression import zstd

        return zstd.ZstdCompressor(level)
    return zlib.compressobj(level)


def packer_of(body):
    """Return which of PACKERS has made this body."""
    return {b"\xfd": "xz", b"\x28": "zstd"}.get(body[:1], "zlib")


def decompressor(first):
    """Return what takes a stream apart that begins with these bytes: an object with decompress(data) and eof. zlib or zstd."""
    if packer_of(first) == "zstd":
        from compression import zstd

        return zstd.ZstdDecompressor()
    return zlib.decompressobj()


def _unpacked(body):
    packer = packer_of(body)
    if packer == "xz":
        import lzma

        return lzma.decompress(body)
    if packer == "zstd":
        from compression import zstd

        return zstd.decompress(body)
    return zlib.decompress(body)


def unpack(body):
    """Return (modules, absent, reasons, complete) as they were given to `pack`; modules is a list, sources are bytes.

    Raises codec.CodecError or zlib.error when `body` is no bundle. Only for what comes from the parent: a stream may unpack
    to a thousand times its size.
    """
    data = _unpacked(body)
    modules = []
    try:
        position = 4 + _SIZE.unpack_from(data)[0]
        head = codec.loads(data[4:position])
        for name, kind, size, origin in head["modules"]:
            modules.append((name, kind, data[position : position + size], origin))
            position += size
        result = modules, head["absent"], head["reasons"], head["complete"]
    except (struct.error, LookupError, TypeError, ValueError) as error:
        raise codec.CodecError("a bundle of %d bytes is garbled: %s" % (len(data), error))
    if position != len(data):
        raise codec.CodecError("a bundle of %d bytes is garbled: its sources end at %d" % (len(data), position))
    return result
