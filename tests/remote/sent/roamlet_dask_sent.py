"""What tasks of Dask call in the tests: found by name, so it travels when a worker imports it."""

import os
import time


def square(number: int) -> int:
    return number * number


def slow_square(number: int, seconds: float = 0.02) -> int:
    time.sleep(seconds)
    return number * number


def large(number: int, size: int) -> bytes:
    return bytes([number % 256]) * size


def process() -> tuple[int, str]:
    return os.getpid(), __file__


def files() -> tuple[list[str], bytes, bytes]:
    """Where the descriptors of this process lead, its command line and its environment."""
    leads = []
    for number in os.listdir("/proc/self/fd"):
        try:
            leads.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    with open("/proc/self/cmdline", "rb") as file, open("/proc/self/environ", "rb") as other:
        return leads, file.read(), other.read()


def folder(dask_worker: object) -> str:
    return str(dask_worker.local_directory)  # type: ignore[attr-defined]


def log(text: str) -> None:
    import logging

    logging.getLogger("distributed.worker").warning(text)


def hold(seconds: int) -> None:
    """Keep the interpreter's lock."""
    import ctypes

    ctypes.PyDLL(None).sleep(seconds)


def reaches_nothing(address: str, port: int, seconds: float) -> str:
    return "no route"
