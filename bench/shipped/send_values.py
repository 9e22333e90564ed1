"""What runs on the target for a stream of Mitogen's: a function that is given a sender."""

import mitogen.core


def values(sender: mitogen.core.Sender, count: int, size: int) -> None:
    """`count` values: blocks of `size` bytes, or small tuples when it is 0. Bytes go as its own file service sends them."""
    block = b"." * size
    for number in range(count):
        if block:
            sender.send(block, mitogen.core.Message.ENC_BIN)
        else:
            sender.send((number, "a value"))
    sender.close()
