"""The bundle cache of an intermediary: bundles and pieces of files for the contexts behind this one, passed on while they arrive.

See roamlet.wire.protocol: KEEP and INSERT. Only the thread that reads the link uses this, but for `body_of` and `frames_of`.
"""

from roamlet.wire import codec, protocol
from roamlet.wire.link import link
from roamlet.wire.modules import bundle
from roamlet.wire.protocol import HEADER, HEADER_SIZE, KIND_CUT

_LEVEL = 6  # of a bundle that is put together here


class BundleCache(object):
    """All bundles and pieces that this intermediary keeps."""

    def __init__(self):
        self._bundles = {}  # number -> CachedBundle

    def keep(self, identifier, length, last):
        """Return what takes the bytes of a KEEP frame as they come, header included; `last`: the bundle ends with it."""
        if not identifier:
            return self._forgetting(length)
        one = self._bundles.get(identifier)
        if one is None or one.body is not None:
            one = self._bundles[identifier] = CachedBundle()
        return one.sink(length, last)

    def _forgetting(self, length):
        parts = []

        def take(data):
            parts.append(data)
            whole = b"".join(parts)
            if len(whole) == HEADER_SIZE + length:
                try:
                    keys = codec.loads(whole[HEADER_SIZE:])
                except codec.CodecError as error:
                    raise protocol.ProtocolError("a KEEP frame with id 0 cannot be used: %s" % (error,))
                for key in keys:
                    self._bundles.pop(key, None)

        return take

    def insert(self, said, write, make):
        """Do what the body of INSERT says. Raises KeyError for a bundle that was neither kept nor announced.

        `write` (None: it must be whole) is given the frames of a bundle that is still coming, bytes after bytes. Of any other,
        as soon as all is there, `make` gets the list of what `frames_of` takes.
        """
        goal, identifier, kind, main = said[:4]
        main = self._bundles[main]
        picks = [(self._bundles[key], start, stop) for key, start, stop in said[4]] if len(said) > 4 else ()
        if write is not None and len(said) == 4 and main.body is None:
            main.follow(_cut_into(write, goal, identifier, kind))
            return

        def whole():
            made = [goal, identifier, kind, main.body]
            if len(said) > 4:
                made.append([(one.body, start, stop) for one, start, stop in picks])
            make(made)

        _when_whole([main] + [one for one, _, _ in picks], whole)


class CachedBundle(object):
    """One bundle, from before its first byte on. `body` is None until the last one has come."""

    def __init__(self):
        self.body = None
        self._parts = []
        self._followers = []

    def sink(self, length, last):
        """See BundleCache.keep."""
        left = [HEADER_SIZE + length]

        def take(data):
            piece = data if left[0] <= length else data[HEADER_SIZE:]  # the header comes whole, with what comes first
            left[0] -= len(data)
            self._take(piece, last and not left[0])

        return take

    def _take(self, piece, last):
        if not piece and not last:
            return
        self._parts.append(piece)
        followers = self._followers
        if last:
            self.body = b"".join(self._parts)
            self._parts = self._followers = None
        for follower in followers:
            follower(piece, last)

    def follow(self, follower):
        """Call `follower(piece, last)` for each piece that has come, and for each that will. Only before the last one."""
        for piece in self._parts:
            follower(piece, False)
        self._followers.append(follower)


def _when_whole(bundles, function):
    """Call `function()` as soon as all these are whole: now, perhaps."""
    for one in bundles:
        if one.body is None:
            # When this one is whole, the others are looked at.
            one.follow(lambda piece, last: _when_whole(bundles, function) if last else None)
            return
    function()


def _cut_into(write, goal, identifier, kind):
    """Return a follower that makes each piece a frame of its own, to be joined by `goal`: others may come in between."""

    def follower(piece, last):
        write(HEADER.pack(goal, 0, identifier, len(piece), kind if last else kind | KIND_CUT))
        if piece:
            write(piece)

    return follower


def body_of(main, picks=None):
    """The body of a bundle that is kept, or of one that is put together out of several."""
    if picks is None:
        return main
    unpacked = {}
    modules = []
    for body, start, stop in picks:
        if id(body) not in unpacked:
            unpacked[id(body)] = bundle.unpack(body)[0]
        modules.extend(unpacked[id(body)][start:stop])
    _, absent, reasons, complete = bundle.unpack(main)
    return bundle.pack(modules, absent, reasons, complete, _LEVEL)


def frames_of(goal, identifier, kind, main, picks=None):
    """The frame of INSERT, cut into what a pipe takes: the rest of a large one is not copied with each write."""
    data = protocol.frame(goal, 0, identifier, kind, body_of(main, picks))
    return [data[start : start + link.CHUNK] for start in range(0, len(data), link.CHUNK)]
