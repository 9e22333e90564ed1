"""Bytes that are no message, or one no more: sound ones with flipped, cut, repeated and foreign pieces, and random ones."""

import struct

TAGS = b"NTFiIfcsSbaltdezqQgGuUrVkoB"


def damaged(chance, sound):
    data = bytearray(chance.choice(sound))
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data) + 1)
        how = chance.randrange(6)
        if how == 0 and data:
            data[at % len(data)] = chance.randrange(256)
        elif how == 1:
            del data[at:]
        elif how == 2:
            data[at:at] = data[at : at + chance.randrange(1, 20)]
        elif how == 3:
            data[at:at] = chance.choice(sound)[:200]
        elif how == 4:
            data[at : at + 4] = struct.pack(">I", chance.choice((0, 1, 2**31, 2**32 - 1, chance.randrange(300))))
        elif data:
            data[at % len(data)] = chance.choice(TAGS)
    return bytes(data)


def random_bytes(chance):
    return bytes(chance.choice((chance.choice(TAGS), 0, chance.randrange(256))) for _ in range(chance.randrange(1, 60)))
