"""A program for test_codec_versions: encodes, decodes and compares with one interpreter's copy of the codec.

Written in the common syntax of 2.7 and 3.6+. Reads "command size newline bytes" from stdin and answers "size newline bytes".
    samples    answer this interpreter's samples, encoded one by one: a list of bytes, itself encoded
    again      decode each of such a list and encode it anew
    compare    check each of such a list against this interpreter's samples; answer the text of the first difference
"""

from __future__ import unicode_literals

import sys
import types

root = sys.argv[1]
for name in ("roamlet", "roamlet.wire"):
    module = types.ModuleType(str(name))
    module.__path__ = [root + "/" + name.replace(".", "/")]
    sys.modules[name] = module
from roamlet.wire import codec  # noqa: E402

if codec.PY2:
    unichr_ = unichr  # noqa: F821
else:
    unichr_ = chr

SAMPLES = [
    None, True, False, 0, 1, -1, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64, 10**40, -(10**40), 2**1000,
    0.0, -0.0, 1.5, 1e308, 5e-324, float("inf"), -float("inf"), 2.5j, b"\xff\xfe\x00", b"\x80", bytearray(b"ab\xff"), bytearray(),
    u"", u"abc", u"h\xe9llo \u20ac", u"\U0001f600 wide", u"x" * 300, u"lone \udc80", u"nul \x00",
    [], (), {}, set(), frozenset(), [1, [2, (3, {u"k": [None]})]], {u"a": 1, 2: u"b", (1, u"x"): None, None: 0.5},
    set([1, u"a", None]), frozenset([frozenset([1]), 2.5]), list(range(50)), tuple(range(9)), [0.5] * 20, (1.25,) * 8,
    [u"a", u"\xe9", u""] * 5, (u"t",) * 10, [2**70] * 9, [1, 2**63] * 9, [True, False] * 8, [u"\udc80"] * 8, [b"\xff"] * 9,
]  # fmt: skip


def same(one, other):
    if codec.PY2 and type(one) in (int, long) and type(other) in (int, long):  # noqa: F821
        return one == other
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other))
    if isinstance(one, dict):
        return sorted(one, key=repr) == sorted(other, key=repr) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float):
        return repr(one) == repr(other)
    return one == other


def run(command, data):
    if command == "samples":
        return codec.dumps([bytearray(codec.dumps(sample)) for sample in SAMPLES])
    values = [codec.loads(bytes(item)) for item in codec.loads(data)]
    if command == "again":
        return codec.dumps([bytearray(codec.dumps(value)) for value in values])
    for sample, value in zip(SAMPLES, values):
        if not same(sample, value):
            return codec.dumps(u"%r is not %r" % (value, sample))
    return codec.dumps(u"" if len(values) == len(SAMPLES) else u"%d values" % len(values))


source = getattr(sys.stdin, "buffer", sys.stdin)
target = getattr(sys.stdout, "buffer", sys.stdout)
while True:
    words = source.readline().split()
    if not words:
        break
    answer = run(words[0].decode(), source.read(int(words[1])))
    target.write(("%d\n" % len(answer)).encode() + answer)
    target.flush()
