"""Generators that several test files use, and things whose end weak references tell."""

import roamlet
from roamlet import yield_


@roamlet.generator
def numbers(count):
    """Count."""
    for number in range(count):
        deeper(number, 3)
    return "returned"


def deeper(number, depth):
    if depth:
        deeper(number, depth - 1)
    else:
        yield_(number)


@roamlet.generator
def echo(log):
    """Yield what is sent or thrown in; note how it ends."""
    got = "first"
    try:
        while True:
            try:
                got = yield_(got)
            except ValueError as error:
                got = str(error)
    finally:
        log.append("finally")


class Value:
    """Something that weak references can follow."""


class Error(Exception):
    """An error that weak references can follow."""
