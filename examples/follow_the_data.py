"""A tasklet that goes where the data is: it reads a large file on each host, and carries home what it has counted.

    python examples/follow_the_data.py FILE [HOST...]

Counts the words of FILE on every host, whose copies may differ, in one function that moves from host to host in the middle of its
loop. A host is a name for ssh and needs this Python's version; without one, two contexts of this machine are visited. The file
does not travel: only the counts do.
"""

import os
import re
import sys
from collections import Counter
from contextlib import ExitStack

import roamlet
from roamlet import remote


def count(places, path, visits):
    """The words of the file at all places together."""
    words = Counter()
    for place in places:
        roamlet.move_to(place)
        with open(path, encoding="utf-8", errors="replace") as file:  # the file of that host
            for line in file:
                words.update(re.findall(r"\w+", line.lower()))
        visits.send((os.uname().nodename, os.getpid(), sum(words.values())))
    roamlet.move_to(roamlet.home)
    return words


def show(visits):
    for host, process, total in visits:
        print(f"{total:10,} words after {host}, process {process}", flush=True)


def main():
    if len(sys.argv) < 2:
        print("usage: follow_the_data.py FILE [HOST...]", file=sys.stderr)
        return 2
    path, *hosts = sys.argv[1:]
    visits = roamlet.channel()
    with ExitStack() as stack:
        opening = [lambda host=host: remote.ssh(host, tasklets=True) for host in hosts]
        opened = remote.open_all(opening or [lambda: remote.local(tasklets=True)] * 2)
        places = [stack.enter_context(context) for context in opened.contexts]
        for result in opened.failed:
            print(f"{result.host}: {result.error}", file=sys.stderr)
        for here, there in zip(places, [*places[1:], roamlet.home], strict=True):
            here.allow_moves_to(there)  # no context may send a tasklet anywhere else
        counting = roamlet.spawn(count, (places, path, visits))  # in no scope, which could not move along
        with roamlet.scope() as s:
            s.service(show, (visits,))
            words = counting.join()
    for word, times in words.most_common(5):
        print(f"{times:10,} x {word}")
    return 1 if opened.failed else 0


if __name__ == "__main__":
    sys.exit(main())
