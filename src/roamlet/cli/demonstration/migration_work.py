"""What moves in `roamlet demo`: sent to its contexts, so it imports nothing that they lack."""

import os
from typing import Any

import roamlet


def primes(places: list[Any], each: int, wanted: Any, found: Any) -> None:
    """Search for primes in one loop that goes on in each of the places. Sends each of them, and the process that has found it."""
    known: list[int] = []
    number = 1
    for place in places:
        roamlet.move_to(place)
        for _ in range(each):
            wanted.receive()
            number += 1
            while not all(number % prime for prime in known):
                number += 1
            known.append(number)
            found.send((number, os.getpid()))
