"""Functions for test_chains.py. They run on any target, 2.7 too, so they use what every version knows."""

import gc

_noted = []


def note(value, *ignored):
    _noted.append(value)
    return value


def note_size(data):
    _noted.append(len(data))


def noted():
    found = list(_noted)
    del _noted[:]
    return found


def receive_and_note(channel):
    value = channel.receive()
    _noted.append(value)
    return value


def fail(text):
    raise ValueError(text)


def hold_until_closed(channel):
    """Begin, say so, and end when the channel is closed."""
    _noted.append("begun")
    try:
        for _ in channel:
            pass
    finally:
        _noted.append("ended")


def give_generator():
    return (n for n in ())


def _chains():
    return [thing for thing in gc.get_objects() if type(thing).__name__ == "Chains"][0]


def remembered():
    """How many chains, and calls of them, are known on the target."""
    chains = _chains()
    return len(chains._chains), len(chains._members)


def lie():
    """From now on, answer each call of a chain as if one before it had failed."""
    chains = _chains()
    chains._go_on = chains._break
