"""Values that this target keeps for its parent, which names them by numbers in the calls that it sends.

Sent when the parent first lets a value be kept. A number is a tag of its own in a message, beside those of
roamlet.wire.values.values: K, u32 number. It is replaced by the value itself, and not by a copy.
"""

import itertools

from roamlet.wire.codec import _DECODE, CannotTravel, CodecError
from roamlet.wire.values import kinds, values

_kept = {}  # number -> value
_numbers = itertools.count(1)


def put(value):
    """Keep the value, and return its number."""
    number = next(_numbers)
    _kept[number] = value
    return number


def drop(number):
    """Keep the value of this number no longer. A call that has it goes on with it."""
    _kept.pop(number, None)


def _decode_kept(data, position, depth):
    if not kinds.may_import or data.makers is None:
        raise CodecError("a message is garbled: a value that is kept where only data may be")
    number = values._U32.unpack_from(data, position)[0]
    try:
        return _kept[number], position + 4
    except KeyError:
        raise CannotTravel("a value cannot travel: it was kept as number %d, and was released since" % number)


_DECODE[ord("K")] = _decode_kept
