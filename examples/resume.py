"""A job that goes on after a crash: each time it is killed, and started again, it is further.

python examples/resume.py [LIMIT]      in a fresh folder; kill it (kill -9, too), and start it again; 20000 leaves time for that
roamlet show perfect.roamlet                 where it is
roamlet resume perfect.roamlet               goes on without this script
"""

import os
import sys

import roamlet
from roamlet import snapshot

FILE = "perfect.roamlet"


def divisors(number):
    for divisor in range(1, number):
        if number % divisor == 0:
            yield divisor


def find_perfect(limit, every):
    """Print all perfect numbers below the limit: 6 is one, since 6 = 1 + 2 + 3."""
    found = []
    for number in range(1, limit):
        if sum(divisors(number)) == number:
            found.append(number)
        if roamlet.checkpoint(FILE, every=every):
            print(f"went on behind {number}, with {found}", file=sys.stderr)
    print("perfect:", *found)
    os.unlink(FILE)  # it is done: nothing is left to go on with


if __name__ == "__main__":
    if os.path.exists(FILE):
        snapshot.resume(FILE)
    else:
        limit = int(sys.argv[1]) if sys.argv[1:] else 400
        roamlet.tasklet(find_perfect)(limit, 1)
    roamlet.run()
