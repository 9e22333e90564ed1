"""Functions that use channels on the target. In the syntax that 2.7 and 3.6+ share."""

import os
import signal
import sys
import threading
import time


def double(jobs, results):
    for job in jobs:
        results.send(job * 2)
    return "done"


def receive(channel, count=1):
    return [channel.receive() for _ in range(count)]


def send_all(channel, values):
    for value in values:
        channel.send(value)
    return len(values)


def send_sequence(channel, count):
    return channel.send_sequence(range(count))


def send_until_error(channel, count):
    """The value after so many cannot travel."""
    try:
        channel.send_sequence([object() if number == count else number for number in range(count + 2)])
    except TypeError as error:
        return str(error)


def take_some(channel, count):
    """Leave the loop early."""
    taken = []
    for value in channel:
        taken.append(value)
        if len(taken) == count:
            break
    return taken


def die_after(channel, count):
    for index, _ in enumerate(channel):
        if index + 1 == count:
            os.kill(os.getpid(), signal.SIGKILL)


def same(first, second):
    return first is second, first.buffer


def buffer_of(channel):
    return channel.buffer, channel.buffered


def give(channel):
    return {"back": [channel]}


def forward(channels):
    """Send a channel into a channel."""
    channels["out"].send(channels["carried"])


def receive_channel_and_send(channel, value):
    channel.receive().send(value)


def receive_error(channel):
    try:
        channel.receive()
    except Exception as error:
        return type(error).__name__, error.args


def send_error(channel):
    channel.send_exception(KeyError, "k", 3)
    channel.send_exception(type("Own", (Exception,), {"__module__": "there"})("text"))


def state(channel):
    return channel.balance, channel.closing, channel.closed


def close(channel):
    channel.close()


def send_to_closed(channel):
    import roamlet

    try:
        channel.send(1)
    except roamlet.ChannelClosed as error:
        return str(error)


def send_later(seconds):
    timer = threading.Timer(seconds, kept.send, ("later",))
    timer.daemon = True
    timer.start()


def hold_wide_loop(channel, stop):
    """Ask for 64 values at once; take one, and the others when it was told twice that the first one is there."""
    from roamlet.wire import channels

    channels.FIRST_WINDOW = 64
    count = 0
    for _ in channel:
        count += 1
        if count < 3:
            stop.send(count)
    return count


def receive_and_die(channel):
    channel.receive()
    os.kill(os.getpid(), signal.SIGKILL)


def in_threads(channel, count):
    """Receive in several threads of one call, at once."""
    got = []
    threads = [threading.Thread(target=lambda: got.append(channel.receive())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(got)


class Overtaken(object):
    """A link where all answers about the first epoch come after the first question of the next one."""

    def __init__(self, link):
        self.busy = link.busy
        self._send = link.send
        self._epoch = None
        self._late = []

    def send(self, kind, number, frame, *more):
        from roamlet.wire import channels

        epoch = channels.VERB.unpack_from(frame)[1] if frame[:1] in (b"A", b"B") else None
        self._epoch = self._epoch or epoch
        if epoch == self._epoch and (frame[:1] == b"B" or channels.ASK.unpack(frame)[3]):
            self._late.append((kind, number, frame) + more)
            return
        self._send(kind, number, frame, *more)
        while epoch != self._epoch and self._late:
            self._send(*self._late.pop(0))


def take_one_and_then_another(channel):
    """Leave a loop, whose last words come late, and receive again."""
    home = channel._home
    link, home._link = home._link, Overtaken(home._link)
    try:
        loop = iter(channel)
        first = next(loop)
        loop.close()
        return first, channel.receive()
    finally:
        home._link = link


def send_what_cannot_travel(channel):
    channel.send(object())


def keep(channel):
    global kept
    kept = channel


def drop():
    global kept
    kept = None


kept = None


def count(start, stop):
    for number in range(start, stop):
        yield number


def count_slowly(seconds):
    number = 0
    while True:
        yield number
        number += 1
        time.sleep(seconds)


def count_and_fail(stop):
    for number in range(stop):
        yield number
    raise KeyError("enough")


def count_for_ever(closed):
    number = 0
    try:
        while True:
            yield number
            number += 1
    finally:
        closed.send("generator closed")


def count_and_end_late(closed):
    """Its `finally` takes longer than any message on its way."""
    number = 0
    try:
        while True:
            yield number
            number += 1
    finally:
        time.sleep(0.2)
        closed.send("generator closed")


def ask(questions, answers, number):
    """Use a service of the parent's."""
    questions.send((number, answers))
    return answers.receive()


ahead = {"made": 0, "most": 0}


def blocks(count, size):
    """Count how many were made beyond those that `taken` was told of."""
    ahead.update(made=0, most=0)
    for _ in range(count):
        ahead["made"] += 1
        yield b"x" * size


def taken(number):
    ahead["most"] = max(ahead["most"], ahead["made"] - number)
    return ahead["most"]


def wait_until_killed(channel, told):
    import roamlet

    try:
        channel.receive()
    except roamlet.TaskletExit:
        told.send("killed")
        raise


def compute_until_killed(started):
    from roamlet.wire import channels

    started.send(os.getpid())
    while True:
        channels.check()


def receive_if_kept():
    return kept.receive() if kept is not None else "nothing"


def square_and_pid(number):
    return number * number, os.getpid()


def die_if(pid):
    if os.getpid() == pid:
        os.kill(pid, signal.SIGKILL)
    return pid


def take_all(channel):
    return sum(1 for _ in channel)


def end_in_two_steps(channel, told):
    try:
        channel.receive()
    finally:
        told.send("one")
        told.send("two")


_frames = []
_looking = threading.Event()
_letting_go = threading.Event()
_arrived = threading.Event()


def return_while_frames_are_looked_at(channel):
    """What this thread lets go of from now on, up to `look_away`, is kept, as a debugger would that shows local variables."""

    def look(frame, event, arg):
        if _looking.is_set():
            _frames.append(dict(frame.f_locals))
        else:
            sys.settrace(None)

    _looking.set()
    sys.settrace(look)


def look_away():
    _looking.clear()
    count = len(_frames)
    del _frames[:]
    return count


def return_and_let_go_slowly(channel):
    """This thread waits where it has begun to let go of the channel, until `arrive` has been called."""

    def pause(frame, event, arg):
        if frame.f_code.co_name in ("__del__", "forget") and "channels" in frame.f_code.co_filename:
            sys.settrace(None)
            _letting_go.set()
            _arrived.wait(10)

    sys.settrace(pause)


def until_let_go():
    """Wait until that thread lets go of the channel; whether it does."""
    return _letting_go.wait(10)


def arrive(channel):
    """Use a channel that another thread lets go of at this moment."""
    _arrived.set()
    time.sleep(0.01)  # until the other thread has let go of it
    channel.send("arrived")
