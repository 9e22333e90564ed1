"""Programs that keep exceptions alive, each way once, and the same ones mended.

A comment `# leak: CODE name` stands on the line that is to be reported. `raiser` is what fails in all of them; a situation takes no
argument and ends by itself.
"""

import asyncio
import logging
import sys
import traceback
from concurrent.futures import Future

errors_of_the_module = []
last_error = None


class Payload:
    """What a frame that raises has as a local: it is to die at once."""


def raiser():
    payload = Payload()
    raise ValueError(str(payload)[:1])


def use(*things):
    pass


# Caught into a local ------------------------------------------------------------------------------------------------


def into_a_local():
    try:
        result = raiser()
    except ValueError as error:
        result = error  # leak: RL001 result
    return result


def into_a_local_mended():
    try:
        result = raiser()
    except ValueError as error:
        result = error
    try:
        return result
    finally:
        del result


def only_returned():
    try:
        return raiser()
    except ValueError as error:
        return error


def into_a_local_of_the_caller():
    found = only_returned()  # leak: RL001 found
    return str(found)


def into_a_cell():
    try:
        result = raiser()
    except ValueError as error:
        result = error  # leak: RL001 result
    return lambda: result


def second_of_two_handlers():
    try:
        outcome = raiser()
    except KeyError as error:
        outcome = error
    except ValueError as error:
        use(error)
        outcome = error  # leak: RL001 outcome
    return outcome


def with_a_context():
    failure = None
    try:
        try:
            raiser()
        except ValueError as error:
            raise KeyError(1) from error
    except KeyError as error:
        failure = error  # leak: RL001 failure
    return failure


def only_printed():
    try:
        return raiser()
    except ValueError as error:
        return str(error)


def without_its_traceback():
    try:
        result = raiser()
    except ValueError as error:
        error.__traceback__ = None
        result = error
    return result


def with_cleared_frames():
    try:
        result = raiser()
    except ValueError as error:
        traceback.clear_frames(error.__traceback__)
        result = str(error)
    return result


# The traceback ------------------------------------------------------------------------------------------------------


def with_exc_info():
    try:
        return raiser()
    except ValueError:
        kind, value, tb = sys.exc_info()  # leak: RL003 value, tb
        return kind.__name__, str(value), bool(tb)


def with_exc_info_in_one():
    try:
        return raiser()
    except ValueError:
        info = sys.exc_info()  # leak: RL003 info
        return str(info[1])


def with_exc_info_mended():
    try:
        return raiser()
    except ValueError:
        kind, value, tb = sys.exc_info()
        try:
            return kind.__name__, str(value), bool(tb)
        finally:
            del value, tb


def with_the_traceback_alone():
    try:
        return raiser()
    except ValueError as error:
        tb = error.__traceback__  # leak: RL003 tb
        return bool(tb)


def without_the_traceback():
    try:
        return raiser()
    except ValueError:
        kind, value = sys.exc_info()[:2]
        try:
            return kind, str(value)
        finally:
            del value


# Translating and raising again --------------------------------------------------------------------------------------


def translate(value, tb):
    # Its new traceback leads to `tb`, and nothing in that leads back here: Python 3 needs no finally clause for this one.
    raise KeyError(str(value)).with_traceback(tb)


def translating():
    try:
        raiser()
    except ValueError as error:
        try:
            translate(error, error.__traceback__)
        except KeyError:
            pass


def translating_what_exc_info_says():
    try:
        try:
            raiser()
        except ValueError:
            _, value, tb = sys.exc_info()  # leak: RL003 value, tb
            translate(value, tb)
    except KeyError:
        pass


def translating_what_exc_info_says_mended():
    try:
        try:
            raiser()
        except ValueError:
            _, value, tb = sys.exc_info()
            try:
                translate(value, tb)
            finally:
                del value, tb
    except KeyError:
        pass


def reraise(kind, value, tb=None):
    if value is None:
        value = kind()
    if value.__traceback__ is not tb:
        raise value.with_traceback(tb)
    raise value  # leak: RL002 value, tb


def raised_again():
    try:
        raiser()
    except ValueError as error:
        try:
            reraise(type(error), error, error.__traceback__)
        except ValueError:
            pass


def reraise_mended(kind, value, tb=None):
    if value is None:
        value = kind()
    try:
        if value.__traceback__ is not tb:
            raise value.with_traceback(tb)
        raise value
    finally:
        del value, tb


def raised_again_mended():
    try:
        raiser()
    except ValueError as error:
        try:
            reraise_mended(type(error), error, error.__traceback__)
        except ValueError:
            pass


def raised_again_from_a_tuple():
    try:
        try:
            raiser()
        except ValueError:
            info = sys.exc_info()  # leak: RL003 info
        reraise_mended(*info)
    except ValueError:
        pass


def raised_again_from_a_tuple_mended():
    try:
        try:
            raiser()
        except ValueError:
            info = sys.exc_info()
        try:
            reraise_mended(*info)
        finally:
            del info
    except ValueError:
        pass


# On objects and in containers ---------------------------------------------------------------------------------------


class Job:
    error = None

    def run(self):
        try:
            raiser()
        except ValueError as error:
            self.error = error  # leak: RL004 self.error

    def fail(self, error):
        self.error = error

    def run_and_fail(self):
        try:
            raiser()
        except ValueError as error:
            self.fail(error)  # leak: RL004 self.error

    def run_mended(self):
        try:
            raiser()
        except ValueError as error:
            self.error = "".join(traceback.format_exception(error))


class Slotted:
    __slots__ = ("error",)

    def run(self):
        try:
            raiser()
        except ValueError as error:
            self.error = error  # leak: RL004 self.error


def on_an_object():
    Job().run()


def on_an_object_by_a_method():
    Job().run_and_fail()


def on_an_object_mended():
    Job().run_mended()


def in_a_slot():
    Slotted().run()


def gathered():
    errors = []
    for _ in range(3):
        try:
            raiser()
        except ValueError as error:
            errors.append(error)  # leak: RL007 errors
    return len(errors)


def gathered_as_text():
    errors = []
    for _ in range(3):
        try:
            raiser()
        except ValueError as error:
            errors.append(str(error))
    return errors


def into_a_future():
    future = Future()
    try:
        raiser()
    except ValueError as error:
        future.set_exception(error)  # leak: RL004 future._exception


def into_a_future_mended():
    future = Future()
    try:
        raiser()
    except ValueError as error:
        future.set_exception(error)
    finally:
        del future


# The loop -----------------------------------------------------------------------------------------------------------


def a_loop(turn):
    for _ in range(3):
        try:
            raiser()
        except ValueError as error:
            use(error)
        turn()


def a_loop_that_remembers(turn):
    for _ in range(3):
        try:
            raiser()
        except ValueError as error:
            last = error  # leak: RL006 last
        turn()
    del last


def a_loop_that_handles(turn):
    try:
        raiser()
    except ValueError as error:
        kept = error
        turn()
        del kept


def a_generator_that_remembers():
    try:
        raiser()
    except ValueError as error:
        kept = error  # leak: RL008 kept
    yield 1
    del kept


def a_generator_that_handles():
    try:
        raiser()
    except ValueError as error:
        yield error


# What lives on ------------------------------------------------------------------------------------------------------


class Service:
    failures = []

    def __init__(self):
        self.last = None
        self.by_name = {}

    def serve(self):
        try:
            raiser()
        except ValueError as error:
            self.last = error  # leak: RL004 Service.last

    def serve_by_name(self):
        try:
            raiser()
        except ValueError as error:
            self.by_name["one"] = error  # leak: RL004 Service.by_name

    def serve_for_all(self):
        try:
            raiser()
        except ValueError as error:
            self.failures.append(error)  # leak: RL005 Service.failures

    def serve_without_traceback(self):
        try:
            raiser()
        except ValueError as error:
            self.last = error.with_traceback(None)

    def serve_with_cleared_frames(self):
        try:
            raiser()
        except ValueError as error:
            traceback.clear_frames(error.__traceback__)
            self.last = error


def into_a_list_of_the_module():
    try:
        raiser()
    except ValueError as error:
        errors_of_the_module.append(error)  # leak: RL005 errors_of_the_module


def into_a_global():
    global last_error
    try:
        raiser()
    except ValueError as error:
        last_error = error  # leak: RL005 last_error


def for_a_closure():
    kept = None

    def ask():
        return kept

    try:
        raiser()
    except ValueError as error:
        kept = error  # leak: RL008 kept
    return ask


class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


async def a_task_that_fails():
    raiser()


def a_future_that_nobody_has_asked_yet():
    future = Future()
    try:
        raiser()
    except ValueError as error:
        future.set_exception(error)
    try:
        return future
    finally:
        del future


def a_loop_of_asyncio():
    loop = asyncio.new_event_loop()
    task = loop.create_task(a_task_that_fails())
    loop.run_until_complete(asyncio.wait([task]))
    try:
        return loop, task
    finally:
        del task
