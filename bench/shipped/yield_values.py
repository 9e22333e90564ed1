"""What runs on the target for a stream of roamlet's: a generator function."""

from collections.abc import Iterator


def values(count: int, size: int) -> Iterator[object]:
    """`count` values: blocks of `size` bytes, or small tuples when it is 0."""
    block = b"." * size
    for number in range(count):
        yield block or (number, "a value")
