"""What runs on a target, and how its two sources are started. This file alone runs on the controller too.

`runner.py` is called in a context. It starts a zygote (`zygote/`) for each become command and interpreter, by a command
line that contains `bootstrap()`. Python 2.7 and 3.6+, the standard library only.
"""

import os
import re
import struct
import zlib

# Reads the zygote, as code and as text, and executes the code if it is for this Python's magic number, else the text.
HEAD = b"""\
import marshal, struct, sys, zlib
sizes = LINK.read(12)
magic, code, text = [sizes[8:]] + [LINK.read(size) for size in struct.unpack(">II", sizes[:8])]
LINK.close()
del LINK, sizes
try:
    from _frozen_importlib_external import MAGIC_NUMBER
except ImportError:
    MAGIC_NUMBER = None
try:
    code = marshal.loads(zlib.decompress(code)) if magic == MAGIC_NUMBER and not sys.flags.optimize else None
except (EOFError, ValueError, TypeError, zlib.error):
    code = None
if code is None:
    code = compile(zlib.decompress(text), "<roamlet zygote>", "exec")
del text
exec(code, globals())
"""


def bootstrap(nonce):
    """The program text for `python -c` that reads what zygote_source() gives from its standard input and becomes that.

    One line without a single quote, backslash or dollar sign, so that every shell and every become plugin leaves it
    alone. A terminal is set to raw mode first. Then it writes `ROAMLET-BOOT <nonce>` and a newline: the source must
    not be sent earlier, because what comes before may be a program that asks for a password.
    """
    if not re.match("[0-9A-Za-z]+$", nonce):
        raise ValueError("a nonce consists of letters and digits, not %r" % (nonce,))
    return (
        'import os;[__import__("tty").setraw(i)for i in(0,1)if os.isatty(i)];os.write(1,b"ROAMLET-BOOT %s%%c"%%10);'
        'f=os.fdopen(os.dup(0),"rb");exec(compile(f.read(%d),"<roamlet zygote>","exec"),'
        '{"__name__":"roamlet_zygote","NONCE":"%s","LINK":f})' % (nonce, len(HEAD), nonce)
    )


def zygote_source(code=b"", magic=b"    "):
    """What becomes a zygote: its text, and perhaps its deflated, marshalled code for Pythons of this magic number."""
    text = zlib.compress(zygote_text(), 9)
    return HEAD + struct.pack(">II", len(code), len(text)) + magic + code + text


def zygote_text():
    """The text of the zygote: `zygote/main.py`, with the text of each other file in the place of the first import from it."""
    imports = re.compile(
        br"^from roamlet_ansible\.host\.([a-z_.]+) import (?:\([^)]*\)[^\n]*|[^(\n]*)\n", re.MULTILINE
    )  # fmt: skip
    seen = set()

    def with_imports(name):
        def text_of(found):
            name = found.group(1).decode("ascii")
            if name in seen:
                return b""
            seen.add(name)
            return with_imports(name)

        return imports.sub(text_of, _text(name.replace(".", "/") + ".py"))

    return with_imports("zygote.main")


def _text(name):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), "rb") as file:
        return file.read()
