"""What runs on a target, and how its two sources are started. This file alone runs on the controller too.

`runner.py` is called in a context. It starts a zygote (`zygote.py`) for each become command and interpreter, by a command
line that contains `bootstrap()`. Python 2.7 and 3.6+, the standard library only.
"""

import os
import re


def bootstrap(length, nonce):
    """The program text for `python -c` that reads a zygote of `length` bytes from its standard input and becomes it.

    One line without a single quote, backslash or dollar sign, so that every shell and every become plugin leaves it
    alone. A terminal is set to raw mode first. Then it writes `ROAMLET-BOOT <nonce>` and a newline: the source must
    not be sent earlier, because what comes before may be a program that asks for a password.
    """
    if not re.match("[0-9A-Za-z]+$", nonce):
        raise ValueError("a nonce consists of letters and digits, not %r" % (nonce,))
    return (
        'import os;[__import__("tty").setraw(i)for i in(0,1)if os.isatty(i)];os.write(1,b"ROAMLET-BOOT %s%%c"%%10);'
        'exec(compile(os.fdopen(os.dup(0),"rb").read(%d),"<roamlet zygote>","exec"),'
        '{"__name__":"roamlet_zygote","NONCE":"%s"})' % (nonce, length, nonce)
    )


def zygote_source():
    """The source of the zygote, whose length `bootstrap` takes: one text, with that of `accounts.py` in the place of its import."""
    before, mark, after = _text("zygote.py").partition(b"from roamlet_ansible.host.accounts import ")
    return before + (_text("accounts.py") + after.partition(b"\n")[2] if mark else b"")


def _text(name):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), "rb") as file:
        return file.read()
