"""Which modules are Python's own, and which Python has them; they never travel. Nothing here imports what it names."""

import sys
from collections.abc import Iterator

# The public modules that came or went since 2.7: (first version that has it, first version that no longer does).
# Source: the "What's New" pages and the module indexes of the versions themselves. Private ones are not listed.
_HISTORY: dict[str, tuple[str | None, str | None]] = {
    **dict.fromkeys(
        ("asyncio", "enum", "ensurepip", "pathlib", "selectors", "statistics", "tracemalloc"), ("3.4", None)
    ),
    **dict.fromkeys(("typing", "zipapp"), ("3.5", None)),
    "secrets": ("3.6", None),
    **dict.fromkeys(("contextvars", "dataclasses"), ("3.7", None)),
    **dict.fromkeys(("graphlib", "zoneinfo"), ("3.9", None)),
    "tomllib": ("3.11", None),
    **dict.fromkeys(("annotationlib", "compression"), ("3.14", None)),
    **dict.fromkeys(
        ("concurrent", "lzma", "ipaddress", "faulthandler", "venv", "html", "http", "builtins"), ("3", None)
    ),
    **dict.fromkeys(("configparser", "copyreg", "queue", "reprlib", "socketserver", "tkinter", "xmlrpc"), ("3", None)),
    **dict.fromkeys(("formatter", "parser", "symbol"), (None, "3.10")),
    "macpath": (None, "3.8"),
    "macurl2path": (None, "3.7"),
    "dummy_threading": (None, "3.9"),
    "binhex": (None, "3.11"),
    **dict.fromkeys(("asynchat", "asyncore", "distutils", "imp", "smtpd"), (None, "3.12")),
    **dict.fromkeys(("aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "lib2to3"), (None, "3.13")),
    **dict.fromkeys(("mailcap", "msilib", "nis", "nntplib", "ossaudiodev", "pipes", "sndhdr"), (None, "3.13")),
    **dict.fromkeys(("spwd", "sunau", "telnetlib", "uu", "xdrlib"), (None, "3.13")),
    **dict.fromkeys(("BaseHTTPServer", "CGIHTTPServer", "ConfigParser", "Cookie", "HTMLParser", "Queue"), (None, "3")),
    **dict.fromkeys(
        ("SimpleHTTPServer", "SocketServer", "StringIO", "UserDict", "UserList", "UserString"), (None, "3")
    ),
    **dict.fromkeys(
        ("__builtin__", "commands", "compiler", "cookielib", "copy_reg", "cPickle", "cStringIO"), (None, "3")
    ),
    **dict.fromkeys(("htmlentitydefs", "httplib", "md5", "mimetools", "popen2", "repr", "rfc822"), (None, "3")),
    **dict.fromkeys(
        ("robotparser", "sets", "sgmllib", "sha", "thread", "urllib2", "urlparse", "xmlrpclib"), (None, "3")
    ),
}

# Where Python is installed in parts, a standard module can be missing although its version has it.
_APART = {
    **dict.fromkeys(("tkinter", "turtle", "idlelib", "turtledemo"), "python3-tk"),
    **dict.fromkeys(("ensurepip", "venv"), "python3-venv"),
    **dict.fromkeys(("distutils", "lib2to3"), "python3-distutils"),
}

OWN = "roamlet"
_BESIDE = ("roamlet_command",)  # an entry point, which is beside the package

# What standard modules of one version or another try to import and hardly any machine has. (What they find missing
# of each other is in sys.stdlib_module_names already.)
_TRIED = (
    *("Carbon", "EasyDialogs", "MacOS", "SOCKS", "_dummy_threading", "_emx_link", "_subprocess", "_winreg", "_wmi"),
    *("_xmlplus", "_xmlrpclib", "ce", "gestalt", "java", "netbios", "org", "os2", "riscos", "riscosenviron"),
    *("sunaudiodev", "vms_lib", "win32evtlog", "win32evtlogutil", "win32pipe", "win32wnet"),
)


def is_standard(name: str) -> bool:
    """True when the top-level package of `name` is one of Python's own here, or was in a version that targets may have."""
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names or top in _HISTORY


def stays_here(name: str) -> bool:
    """True for what is never sent: Python's own modules, and roamlet's, in whose place the target has the payload."""
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names or top in (OWN, *_BESIDE)


def tried_in_vain() -> Iterator[str]:
    """Top-level names that standard modules ask for, wherever they run, and that no target can be sent."""
    yield from (name for name in sys.stdlib_module_names if name not in sys.builtin_module_names)
    yield from _HISTORY
    yield from _TRIED


def why_absent(name: str) -> str:
    """One sentence for users whose target lacks the standard module `name`: which Python has it, as far as known."""
    top = name.partition(".")[0]
    since, until = _HISTORY.get(top, (None, None))
    if since is not None and "." not in since:
        history = f"is Python {since}'s, 2.7 has none"
    elif since is not None:
        history = f"is new in Python {since}"
    elif until is not None:
        history = f"was removed in Python {until}"
    elif top in _APART:
        history = f"comes in a package of its own on Debian ({_APART[top]})"
    else:
        history = "is not in every build of Python"
    return f"{top} is a standard module, which is never sent, and {history}"
