"""One search for primes goes from place to place in the middle of its loop, and comes home with what it has found.

    python examples/go_places.py [PLACE...]

A place is "local", "sudo", or a host that ssh reaches, with this Python's version; "first/second" is the second, through the
first. Without any: a context of this machine, another one, and one through that.
"""

import getpass
import os
import socket
import sys
from contextlib import ExitStack

import roamlet
from roamlet import remote


def primes(places, wanted, found):
    """At each place, send three primes with the account, host and process that found them."""
    number, known = 1, []
    for place in places:
        roamlet.move_to(place)
        here = f"{getpass.getuser()} on {socket.gethostname()}, process {os.getpid()}"
        for _ in range(3):
            wanted.receive()
            while True:
                number += 1
                if all(number % prime for prime in known):
                    known.append(number)
                    break
            found.send((number, here))
    return known


def opened(place, contexts, via=None):
    """A context for each part of a place; returns the last one."""
    first, _, behind = place.partition("/")
    options = {"tasklets": True, "via": via}
    if first == "local":
        context = remote.local(**options)
    else:
        context = remote.sudo(**options) if first == "sudo" else remote.ssh(first, **options)
    contexts.enter_context(context)
    return opened(behind, contexts, context) if behind else context


def main(names):
    wanted, found = roamlet.channel(), roamlet.channel()
    with ExitStack() as contexts:
        places = [opened(name, contexts) for name in names or ["local", "local", "local/local"]]
        for place, following in zip(places, [*places[1:], roamlet.home], strict=True):
            place.allow_moves_to(following)  # a grant: whoever controls the place can run code in the one that follows
        searching = roamlet.spawn(primes, ([roamlet.home, *places, roamlet.home], wanted, found))
        for _ in range(3 * (len(places) + 2)):
            wanted.send(None)
            number, where = found.receive()
            print(f"{number:5}  found by {where}")
        print(searching.join())


if __name__ == "__main__":
    main(sys.argv[1:])
