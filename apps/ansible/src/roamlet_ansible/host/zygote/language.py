"""What differs between Python 2.7 and 3, for the other files of a zygote."""

import sys

PY3 = sys.version_info[0] >= 3
FILE = "<roamlet zygote>"  # in tracebacks, which leave out its frames


if PY3:
    text_type = str
    # The place of bytecode, which a module can see, where nothing but its name says it.
    CACHE_TAG = None if sys.flags.optimize or getattr(sys, "pycache_prefix", None) else sys.implementation.cache_tag
else:
    text_type = type(b"".decode())


def native(text):
    """`text` as this Python's str."""
    if PY3 or not isinstance(text, text_type):
        return text
    return text.encode("utf-8")
