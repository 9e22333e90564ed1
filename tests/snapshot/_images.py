"""Images of a snapshot whose contents are damaged and whose digest is right: a forked child loads each, and goes on."""

import hashlib
import os
import random
import resource
import signal
from collections import Counter

import roamlet
from roamlet import snapshot
from roamlet.snapshot import _format

START, DIGEST = _format._START.size, 16
MEMORY, SECONDS = 1 << 31, 20  # of a child: damaged numbers may ask for more than there is


class Block:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def numbers(count):
    try:
        yield from range(count)
    finally:
        pass


def inner(ch, out, first):
    total = [0]

    def add(number):
        total[0] += number
        return total

    for _ in zip([1, 2, 3], "abc", strict=True):
        with Block():
            try:
                out.append([add(each) for each in (first, ch.receive())])
            except ValueError:
                raise
    return {**dict(first=first), **dict(last=ch.receive())}  # noqa: C408 - displays that are filled


def job(ch, out):
    source = numbers(5)
    next(source)
    for _ in range(3):
        out.append({number: inner(ch, out, number) for number in source})


def image(*, by_value):
    """One in the middle of a with block, two loops and a generator."""
    ch, out = roamlet.channel(), []
    tasklet = roamlet.tasklet(job)(ch, out)
    ch.send(1)
    ch.send(2)
    data = snapshot.dumps((ch, out, tasklet), by_value=[__name__] if by_value else [])
    tasklet.kill()
    return data


def damaged(data, seed):
    """With some other bytes behind the header, and the digest of that."""
    chance = random.Random(seed)
    rest = bytearray(data[START:])
    for _ in range(chance.choice([1, 1, 2, 4])):
        rest[chance.randrange(len(rest))] = chance.randrange(256)
    digest = hashlib.blake2b(bytes(rest), digest_size=DIGEST).digest()
    return data[: START - DIGEST] + digest + bytes(rest)


def _goes_on(data):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    ch, *_ = snapshot.loads(data)
    for number in range(6):
        if ch.balance < 0:
            ch.send(number)
    roamlet.run()


def outcomes(data, seeds):
    """How many ended how: "refused" or went on, and by which signal; those that had to be stopped are none of that."""
    found = Counter()
    for seed in seeds:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _goes_on(damaged(data, seed))
                code = 0
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status):
            found["refused" if os.WEXITSTATUS(status) else "went on"] += 1
        elif os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
            found["stopped"] += 1
        else:
            found[f"seed {seed}: {signal.Signals(os.WTERMSIG(status)).name}"] += 1
    return found
