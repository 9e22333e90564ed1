"""Functions of the standard library that block, as they were when roamlet was imported: roamlet.patch puts others in their places.

What is in roamlet and needs one that really blocks its thread, or that answers at once, takes it from this module.
"""

import select as _select
from os import waitpid
from select import select
from socket import getaddrinfo, gethostbyaddr, gethostbyname, gethostbyname_ex, getnameinfo
from time import sleep
from typing import Any

__all__ = [
    "epoll",
    "getaddrinfo",
    "gethostbyaddr",
    "gethostbyname",
    "gethostbyname_ex",
    "getnameinfo",
    "poll",
    "select",
    "sleep",
    "waitpid",
]

# None where the platform has none.
poll: Any = getattr(_select, "poll", None)
epoll: Any = getattr(_select, "epoll", None)
