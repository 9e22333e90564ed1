"""Images of a snapshot whose contents are damaged and whose digest is right: a forked child loads each, and goes on."""

import hashlib
import os
import random
import resource
import signal
import types
from collections import Counter

import roamlet
from roamlet import snapshot
from roamlet.snapshot import _native
from roamlet.snapshot.image import format

START, DIGEST = format._START.size, 16
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
    """With some other bytes after the header, and the digest of that."""
    chance = random.Random(seed)
    rest = bytearray(data[START:])
    for _ in range(chance.choice([1, 1, 2, 4])):
        rest[chance.randrange(len(rest))] = chance.randrange(256)
    digest = hashlib.blake2b(bytes(rest), digest_size=DIGEST).digest()
    return data[: START - DIGEST] + digest + bytes(rest)


VALUES = (None, 3, "text", [1], (2,), {"a": 1}, {5}, KeyError("key"), iter([1]), types.CellType(7), len, numbers)


def _changed_slots(chance, nulls, slots):
    """With something else, or nothing, in one of them; or with one more or less."""
    slots, number = list(slots), chance.randrange(len(slots) + 1)
    how = chance.randrange(4)
    if how == 0 and isinstance(nulls, int):
        nulls ^= 1 << number
    elif how == 1 and slots:
        del slots[number - 1]
    elif how == 2:
        slots.insert(number, chance.choice(VALUES))
    elif slots:
        slots[number - 1] = chance.choice(VALUES)
    return nulls, tuple(slots)


def _changed_frame(chance, unit, offset, nulls, slots):
    if chance.randrange(2):
        nulls, slots = _changed_slots(chance, nulls, slots)
    else:
        unit, offset = (
            unit + chance.choice([0, 1, -1, chance.randrange(-50, 50)]),
            offset + chance.choice([0, 0, 1, -1, 4]),
        )
    return unit, offset, nulls, slots


def change_frames(seed):
    """Let what is read of a snapshot from now on have another frame than was saved: of a tasklet, or of a generator."""
    chance = random.Random(seed)
    check, generator_set = _native.check, _native.generator_set

    def changed_check(functions, records, *rest):
        records = list(records)
        if records and chance.randrange(3):
            number = chance.randrange(len(records))
            function, *frame, generator = (*records[number][:5], records[number][5:])
            records[number] = (function, *_changed_frame(chance, *frame), *generator)
        return check(functions, records, *rest)

    def changed_generator_set(made, state, unit, offset, nulls, slots, handled):
        if chance.randrange(3):
            unit, offset, nulls, slots = _changed_frame(chance, unit, offset, nulls, slots)
        elif chance.randrange(2):
            state, handled = chance.choice([state, -3, -2, -1]), chance.choice([handled, *VALUES])
        generator_set(made, state, unit, offset, nulls, slots, handled)

    _native.check, _native.generator_set = changed_check, changed_generator_set


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


def outcomes(data, seeds, *, of_frames=False):
    """How many ended how: "refused" or went on, and by which signal; those that had to be stopped are not counted.

    `of_frames`: the bytes are as they were, and frames are changed when they are read.
    """
    found = Counter()
    for seed in seeds:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if of_frames:
                    change_frames(seed)
                _goes_on(data if of_frames else damaged(data, seed))
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
