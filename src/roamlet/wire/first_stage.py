# The first stage: the Python code that is passed in argv, reads the payload from stdin and runs it.
#
# roamlet.wire.build strips this file, turns its newlines into "@" and passes it as one argument, inside double quotes inside
# single quotes. So: no quotes, no backslash, no dollar, no backquote, no "!", no "@", no "%"; strings are made by chr().
# It must parse on any Python that ever was, so that one that is too old can say so.
#
# ruff: noqa: F821
#
# Arguments: this file, the two halves of the token. The payload begins with its size, in eight digits: the process can be started
# before it is made.
import os
import sys

token = sys.argv[2] + sys.argv[3]
space = chr(32)


def say(status, text):
    os.write(1, (token + str(status) + space + space.join(text.split()) + chr(10)).encode())


def take(size):
    data = bytes()
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


version = sys.version_info[:3]
if version < (2, 7) or (3,) < version < (3, 6):
    say(1, chr(46).join([str(number) for number in version]))
    sys.exit(1)
try:
    import zlib

    size = take(8)
    data = take(int(size))
    parts = zlib.decompress(data).decode().split(chr(0))
    data = size + data
    exec(parts[0])
except Exception:
    say(2, repr(sys.exc_info()[1]))
    sys.exit(1)
main(token)
