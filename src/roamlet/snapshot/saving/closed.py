"""Files and sockets that are closed: values, which are made again closed. Open ones are refused."""

import io
import os
import socket
from typing import Any


def file(item: Any) -> tuple[Any, ...]:
    """How a file is written. TypeError for one that is open."""
    if not item.closed:
        raise TypeError(
            f"cannot pickle '{type(item).__module__}.{type(item).__name__}' object, which is open, and only a closed one can "
            "be saved: close it before, and open it again after"
        )
    if isinstance(item, (io.StringIO, io.BytesIO)):
        return closed_in_memory, (type(item),)
    raw = item if isinstance(item, io.FileIO) else item.raw if not isinstance(item, io.TextIOWrapper) else None
    mode = str(getattr(item, "mode", "r") if raw is None else getattr(raw, "mode", "rb"))
    encoding = item.encoding if isinstance(item, io.TextIOWrapper) else None
    name = getattr(item, "name", None)
    return closed_file, (type(item), name if isinstance(name, (str, bytes, int)) else None, mode, encoding)


def opened(item: Any) -> tuple[Any, ...]:
    """How a socket is written. TypeError for one that is open."""
    if item.fileno() >= 0:
        raise TypeError(
            "cannot pickle 'socket' object, which is open, and only a closed one can be saved: close it before, and connect "
            "again after"
        )
    return closed_socket, (int(item.family), int(item.type), item.proto)


def closed_file(kind: type, name: object, mode: str, encoding: str | None) -> Any:
    """A closed file of this kind, with this name: none of that name is opened."""
    mode = mode.replace("x", "w")
    made: Any
    if kind is io.FileIO:
        made = io.FileIO(os.devnull, mode.replace("b", ""))
    elif kind is io.TextIOWrapper:
        made = open(os.devnull, mode.replace("b", ""), encoding=encoding)  # noqa: SIM115 - closed below
    else:
        made = open(os.devnull, mode if "b" in mode else mode + "b")  # noqa: SIM115 - closed below
    made.close()
    raw = made.buffer.raw if kind is io.TextIOWrapper else made if kind is io.FileIO else made.raw
    if name is not None:
        raw.name = name
    return made


def closed_in_memory(kind: type) -> Any:
    """A closed StringIO or BytesIO."""
    made = kind()
    made.close()
    return made


def closed_socket(family: int, kind: int, protocol: int) -> socket.socket:
    """A closed socket."""
    made = socket.socket(family, kind, protocol)
    made.close()
    return made


FILES = (io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.FileIO)
IN_MEMORY = (io.StringIO, io.BytesIO)
