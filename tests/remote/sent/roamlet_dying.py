"""Functions that fail on the target, each with a witness in its frame. The common syntax of 2.7 and 3.6+, standard modules only."""

import gc
import logging
import os
import sys
import threading
import time
import weakref

_witnesses = []


class OwnError(Exception):
    pass


class Witness(object):
    def __init__(self, name):
        self.name = name
        _witnesses.append((weakref.ref(self), name))


class Unsendable(object):
    """What cannot travel, by order; `witness` goes with it."""

    def __init__(self):
        self.witness = Witness("what was returned")

    def __reduce_ex__(self, protocol):
        raise TypeError("stays here")


def begin(folder):
    """Forget the witnesses of before, let nothing be freed by the cyclic collector from now on, and be asked in `folder`.

    The test asks without a call: a call would replace the last one wherever a thread still has something of that.
    """
    gc.disable()
    gc.collect()
    del _witnesses[:]
    thread = threading.Thread(target=_be_asked, args=(folder,))
    thread.daemon = True
    thread.start()


def begin_without_asking():
    gc.disable()


def _be_asked(folder, seconds=5.0):
    question, answer = os.path.join(folder, "question"), os.path.join(folder, "answer")
    while not os.path.exists(question):
        time.sleep(0.002)
    end = time.time() + seconds
    while alive() and time.time() < end:  # a thread that has answered a call may need a moment to be done with it
        time.sleep(0.002)
    while _held_by_threads() and time.time() < end:
        time.sleep(0.002)
    with open(answer + ".new", "w") as file:
        file.write("%d;%s" % (len(_witnesses), ", ".join(alive() + _held_by_threads())))
    os.rename(answer + ".new", answer)


def alive():
    """The names of the witnesses that live."""
    assert not gc.isenabled()
    return sorted(name for witness, name in list(_witnesses) if witness() is not None)


MARK = b"some bytes of an argument " * 400


def _held_by_threads():
    """Where frames of threads hold bytes of a message with a marked argument; and of tasklets' calls, that there are any."""
    found, here = [], sys._getframe().f_back
    for frame in sys._current_frames().values():
        while frame is not None and frame is not here:
            for name, value in list(frame.f_locals.items()):
                if _is_marked(value, 3):
                    found.append("%s in %s" % (name, frame.f_code.co_name))
            frame = frame.f_back
    return found + ["a call"] * sum(type(one).__name__ == "_Call" for one in gc.get_objects())


def _is_marked(value, depth):
    if isinstance(value, bytes):
        return MARK[:100] in value
    return depth > 0 and isinstance(value, (tuple, list)) and any(_is_marked(part, depth - 1) for part in value)


def fail(*args):
    local = Witness("the frame that raised")
    raise ValueError("below %s" % local.name)


def fail_deeper(*args):
    local = Witness("a frame on the way")
    try:
        fail(*args)
    finally:
        local.name = "passed"


def fail_with_own_error():
    local = Witness("the frame that raised")
    raise OwnError("only known on the target", local)


def fail_with_fields():
    local = Witness("the frame that raised")
    error = OwnError("its fields cannot travel")
    error.local = local
    try:
        raise error
    finally:
        del error


def exit_program():
    local = Witness("the frame that raised")
    sys.exit("ended: %s" % local.name)


def interrupt():
    local = Witness("the frame that raised")
    raise KeyboardInterrupt("on the target: %s" % local.name)


def handle_and_fail():
    local = Witness("the frame that handled")
    try:
        fail()
    except ValueError:
        raise KeyError(local.name)


def handle():
    """The frame that has handled an exception returns."""
    local = Witness("the frame that handled")
    try:
        fail()
    except ValueError:
        return local.name


def handle_and_log():
    local = Witness("the frame that handled")
    try:
        fail()
    except ValueError:
        logging.getLogger("dying").exception("failed")
        return local.name


def handle_in_a_thread():
    """A thread that handles an exception and has ended when this returns."""
    thread = threading.Thread(target=handle)
    thread.start()
    thread.join()
    return "the thread has ended"


def return_what_cannot_travel():
    local = Witness("the frame that returned")
    return [threading.Lock(), Unsendable(), local.name]


def return_what_fails():
    return Unsendable()


def take(*args, **kwargs):
    local = Witness("the frame that was called")
    fail(local, args, kwargs)


def values(count):
    local = Witness("the generator's frame")
    for number in range(count):
        yield number
    fail(local)


def receive_and_fail(channel):
    local = Witness("the frame that received")
    value = channel.receive()
    fail(local, value)


def receive_an_error(channel):
    local = Witness("the frame that received")
    try:
        channel.receive()
    except ValueError:
        return local.name


def let_an_error_pass(channel):
    local = Witness("the frame that received")
    for value in channel:
        local.name = value


def wait(channel):
    local = Witness("the frame that waited")
    channel.send(local.name)
    channel.receive()


def send_an_error(channel):
    local = Witness("the frame that sent")
    try:
        fail()
    except ValueError:
        channel.send_exception(sys.exc_info()[1])
    return local.name


def send_what_cannot_travel(channel):
    local = Witness("the frame that sent")
    channel.send([threading.Lock(), local])


def send_to_a_closed_channel(channel):
    local = Witness("the frame that sent")
    channel.send(local.name)


def import_what_fails():
    local = Witness("the frame that imported")
    import roamlet_fails_when_imported  # noqa: F401

    return local


def import_what_is_nowhere():
    local = Witness("the frame that imported")
    import roamlet_is_nowhere_at_all  # noqa: F401

    return local


def import_in_a_try():
    local = Witness("the frame that imported")
    try:
        import roamlet_is_nowhere_at_all  # noqa: F401
    except ImportError:
        return local.name
