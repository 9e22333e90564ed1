"""A tasklet that searches for primes moves to a context in the middle of its search, and its numbers keep coming.

    python examples/move_a_tasklet.py [HOST...]

One search for each host, which is reached by ssh and needs this Python's version; without one, for two contexts of this machine.
"""

import os
import socket
import sys

import roamlet
from roamlet import remote


def primes(wanted, found):
    """Send a prime for each value that comes, and where it was found."""
    number, known = 1, []
    for _ in wanted:
        while True:
            number += 1
            if all(number % prime for prime in known):
                known.append(number)
                break
        found.send((number, socket.gethostname(), os.getpid()))
    return known


def show(number, host, process):
    print(f"{number:5}  on {host}, process {process}")


def main(hosts):
    wanted, found = roamlet.channel(), roamlet.channel()
    for host in hosts or ["local", "local"]:
        searching = roamlet.tasklet(primes)(wanted, found)
        for _ in range(3):  # here
            wanted.send(None)
            show(*found.receive())
        with remote.local(tasklets=True) if host == "local" else remote.ssh(host, tasklets=True) as context:
            call = context.move(searching)
            for _ in range(3):  # there, with the primes that are known already
                wanted.send(None)
                show(*found.receive())
            wanted.close()
            print("      ", call.join())
        wanted.open()


if __name__ == "__main__":
    main(sys.argv[1:])
