"""The process that a zygote forks before there is a request for it."""

import os
import struct

from roamlet_ansible.host.zygote.child import child, leave_zygote
from roamlet_ansible.host.zygote.language import native


class Spare(object):
    """A process that waits for a request: it has what the zygote had at that time, and is of no use after a change."""

    def __init__(self, pid, link, back, out, err):
        self.pid = pid
        self.link = link
        self.back = back
        self.out = out
        self.err = err


def spare(zygote, out, err, link, back):
    """A process that was forked before there is a request for it, which comes by the pipe `link`. Its exit status.

    It takes the request by a byte in the pipe `back`, before anything of it is done; and it ends without that if the request
    needs more than is here, or if something has changed.
    """
    leave_zygote(zygote, out, err, (link, back))
    sizes = exactly(3, 8)
    if len(sizes) < 8:
        return 0  # it was not needed, or the zygote has gone
    sizes = struct.unpack(">II", sizes)
    text, params = [exactly(3, size) for size in sizes]
    if (len(text), len(params)) != sizes:
        return 0
    try:
        request = zygote.plain(text, len(params))
    except Exception:
        request = None  # the zygote says what is wrong with it
    if request is None:
        return 0
    os.write(4, b"r")
    os.close(3)
    os.close(4)
    request["params"] = params
    return child(zygote, request, zygote.stock.payloads[native(request["payload"])], zygote.place(request["name"]))


def exactly(descriptor, size):
    """So many bytes, or less at the end."""
    data = b""
    while len(data) < size:
        piece = os.read(descriptor, size - len(data))
        if not piece:
            break
        data += piece
    return data
