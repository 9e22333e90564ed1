"""Jobs that write checkpoints in all kinds of places; each returns what it computed, and whether it was resumed where."""

import contextlib

import roamlet

LIMIT = 6


def inside_loops(path):
    seen, total = [], 0
    for a in range(3):
        for b, letter in enumerate("xy"):
            total += a * b
            seen.append((letter, roamlet.checkpoint(path)))
    return total, seen


@contextlib.contextmanager
def noting(seen):
    seen.append("enter")
    try:
        yield seen
    finally:
        seen.append("exit")


def inside_with(path):
    seen = []
    with noting(seen) as same:
        seen.append(roamlet.checkpoint(path))
        assert same is seen
    seen.append(roamlet.checkpoint(path))
    return seen


def inside_try(path):
    seen = []
    try:
        try:
            raise KeyError("a")
        except KeyError:
            seen.append(roamlet.checkpoint(path))
            raise
        finally:
            seen.append(roamlet.checkpoint(path))
    except KeyError as error:
        seen.append((repr(error), roamlet.checkpoint(path)))
    return seen


def numbers(path, seen):
    for number in range(3):
        seen.append(roamlet.checkpoint(path))
        yield number


def inside_a_generator(path):
    seen = []
    return [number * 10 for number in numbers(path, seen)], seen


def beside_a_generator(path):
    seen, squares = [], (number**2 for number in range(4))
    for square in squares:
        seen.append((square, roamlet.checkpoint(path)))
    return seen


class Account:
    def __init__(self, path):
        self.seen = [roamlet.checkpoint(path)]
        self.path = path

    def __enter__(self):
        self.seen.append(roamlet.checkpoint(self.path))
        return self

    def __exit__(self, *error):
        self.seen.append(roamlet.checkpoint(self.path))

    def __call__(self, depth):
        if depth:
            return self(depth - 1)
        return roamlet.checkpoint(path=self.path, every=0)


def inside_methods(path):
    account = Account(path)
    with account:
        account.seen.append(account(3))
    return account.seen


def with_unpacked_arguments(path):
    return [roamlet.checkpoint(*(path,), every=None) for _ in range(3)]


JOBS = [
    inside_loops,
    inside_with,
    inside_try,
    beside_a_generator,
    inside_methods,
    with_unpacked_arguments,
]
IN_GENERATORS = [inside_a_generator]  # from 3.12 on
