"""Functions that keep an exception alive, and functions that do not: each is checked as source and run, and both must agree.

A function is called with a marker, which its frame holds, and with `fail`, which raises a ValueError in a frame that holds another.
What it returns or raises is thrown away. `keeps(CODE)`: a marker is still there then, and the check says so; `frees`: neither.
"""

import asyncio
import contextlib
import sys
import traceback

SITUATIONS = {}


def keeps(*codes):
    def noted(function):
        SITUATIONS[function.__name__] = (function, list(codes))
        return function

    return noted


frees = keeps()


class Refused(Exception):
    pass


# The cycle: a traceback in a local of a frame that it holds.


@keeps("RL003")
def exc_info_in_locals(marker, fail):
    try:
        return fail()
    except ValueError:
        kind, value, tb = sys.exc_info()
        return f"{kind} {value} {tb}"


@frees
def exc_info_without_the_value(marker, fail):
    try:
        return fail()
    except ValueError:
        kind = sys.exc_info()[0]
        return str(kind)


@frees
def exc_info_deleted(marker, fail):
    try:
        return fail()
    except ValueError:
        kind, value, tb = sys.exc_info()
        try:
            return f"{kind} {value} {tb}"
        finally:
            del value, tb


@keeps("RL003")
def current_exception_in_a_local(marker, fail):
    try:
        return fail()
    except ValueError:
        error = sys.exception()
    return str(error)


@frees
def exc_info_of_the_caller(marker, fail):
    """Asked outside of a handler of its own: this frame is in no traceback."""

    def said():
        kind, value, tb = sys.exc_info()
        return f"{kind} {value} {tb}"

    try:
        return fail()
    except ValueError:
        return said()


@keeps("RL003")
def traceback_in_a_local(marker, fail):
    try:
        fail()
    except ValueError as error:
        tb = error.__traceback__
    return tb.tb_lineno


@frees
def traceback_as_text(marker, fail):
    try:
        fail()
    except ValueError as error:
        text = "".join(traceback.format_exception(error))
    return text


@keeps("RL003")
def exc_info_in_a_finally_clause(marker, fail):
    try:
        fail()
    finally:
        value = sys.exc_info()[1]
        print(value, end="", file=sys.__stderr__ if value is None else NOWHERE)


class Nowhere:
    def write(self, text):
        pass


NOWHERE = Nowhere()


# Translating one exception into another.


@keeps("RL009")
def translated_and_raised_by_name(marker, fail):
    try:
        fail()
    except ValueError as error:
        new = Refused(str(error))
        raise new from error


@frees
def translated_and_raised_where_it_is_made(marker, fail):
    try:
        fail()
    except ValueError as error:
        raise Refused(str(error)) from error


@frees
def translated_with_a_finally_clause(marker, fail):
    try:
        fail()
    except ValueError as error:
        new = Refused(str(error))
        new.code = 3
        try:
            raise new from error
        finally:
            del new


@keeps("RL004")
def cause_of_a_local(marker, fail):
    try:
        fail()
    except ValueError as error:
        new = Refused(str(error))
        new.__cause__ = error
    return str(new)


# Catching into a local.


@keeps("RL001")
def caught_into_a_local(marker, fail):
    try:
        result = fail()
    except ValueError as error:
        result = error
    return result


@frees
def caught_and_deleted_on_the_way_out(marker, fail):
    try:
        result = fail()
    except ValueError as error:
        result = error
    try:
        return result
    finally:
        del result


@frees
def returned_from_within_the_clause(marker, fail):
    try:
        return fail()
    except ValueError as error:
        return error


@frees
def used_within_the_clause(marker, fail):
    try:
        return fail()
    except ValueError as error:
        return str(error)


@frees
def text_of_it_in_a_local(marker, fail):
    try:
        result = fail()
    except ValueError as error:
        result = str(error), repr(error), error.args, type(error)
    return result


@frees
def overwritten_before_the_end(marker, fail):
    problem = None
    try:
        fail()
    except ValueError as error:
        problem = error
    said = str(problem)
    problem = None
    return said


@keeps("RL001")
def overwritten_on_one_way_only(marker, fail):
    problem = None
    try:
        fail()
    except ValueError as error:
        problem = error
    if marker is None:
        problem = None
    return str(problem)


@frees
def without_its_traceback(marker, fail):
    try:
        fail()
    except ValueError as error:
        problem = error
    problem.__traceback__ = None
    return problem


@frees
def with_traceback_none(marker, fail):
    try:
        fail()
    except ValueError as error:
        problem = error.with_traceback(None)
    return problem


@keeps("RL001")
def frames_cleared_while_one_of_them_runs(marker, fail):
    """clear_frames() passes over a frame that is running, so it does not help in the function that has caught."""
    try:
        fail()
    except ValueError as error:
        problem = error
    traceback.clear_frames(problem.__traceback__)
    return problem


@keeps("RL001")
def in_a_tuple(marker, fail):
    try:
        fail()
    except ValueError as error:
        outcome = ("failed", error)
    return outcome


@keeps("RL001")
def bound_by_an_expression(marker, fail):
    try:
        fail()
    except ValueError as error:
        if (problem := error).args:
            return str(problem)
    return None


@keeps("RL001")
def raised_behind_the_clause(marker, fail):
    problem = None
    try:
        fail()
    except ValueError as error:
        problem = error
    if problem is not None:
        raise problem


@frees
def raised_behind_the_clause_with_a_finally(marker, fail):
    problem = None
    try:
        fail()
    except ValueError as error:
        problem = error
    if problem is not None:
        try:
            raise problem
        finally:
            del problem
    return "well"


@keeps("RL001")
def kept_from_one_attempt_to_the_next(marker, fail):
    last = None
    for _ in range(3):
        try:
            return fail()
        except ValueError as error:
            last = error
    raise last


@keeps("RL001")
async def in_a_coroutine(marker, fail):
    try:
        await asyncio.sleep(0)
        fail()
    except ValueError as error:
        result = error
    return result


@keeps("RL001")
def in_a_generator(marker, fail):
    try:
        yield fail()
    except ValueError as error:
        result = error
    yield str(result)


@frees
async def in_a_coroutine_that_clears(marker, fail):
    try:
        await asyncio.sleep(0)
        fail()
    except ValueError as error:
        result = error
    try:
        return str(result)
    finally:
        result = None


@keeps("RL008")
def into_a_variable_of_the_function_around(marker, fail):
    problem = None

    def attempt():
        nonlocal problem
        try:
            fail()
        except ValueError as error:
            problem = error

    attempt()
    return str(problem)


@frees
def into_a_variable_that_the_function_around_clears(marker, fail):
    problems = []

    def attempt():
        try:
            fail()
        except ValueError as error:
            problems.append(error)

    try:
        attempt()
        return len(problems)
    finally:
        problems.clear()


@keeps("RL001")
def of_a_group(marker, fail):
    try:
        try:
            fail()
        except ValueError as error:
            raise ExceptionGroup("several", [error]) from None
    except* ValueError as group:
        problems = group
    return str(problems)


# Re-raising, with and without the finally clause.


def reraise(tp, value, tb=None):
    if value is None:
        value = tp()
    if value.__traceback__ is not tb:
        raise value.with_traceback(tb)
    raise value


def reraise_and_forget(tp, value, tb=None):
    try:
        if value is None:
            value = tp()
        if value.__traceback__ is not tb:
            raise value.with_traceback(tb)
        raise value
    finally:
        del value, tb


@keeps("RL003")
def reraised_by_a_function_and_held_here(marker, fail):
    try:
        fail()
    except ValueError:
        caught = sys.exc_info()
    reraise_and_forget(*caught)


@frees
def reraised_by_a_function_and_cleared_here(marker, fail):
    try:
        fail()
    except ValueError:
        caught = sys.exc_info()
    try:
        reraise_and_forget(*caught)
    finally:
        del caught


@keeps("RL002")
def raised_from_a_parameter(marker, fail, problem=None):
    def raises(error):
        raise error

    raises(Refused(marker))


@frees
def raised_from_a_parameter_and_deleted(marker, fail):
    def raises(error):
        try:
            raise error
        finally:
            del error

    raises(Refused(marker))


@frees
def raised_from_a_parameter_that_is_a_class(marker, fail):
    def raises(error_type):
        raise error_type

    raises(Refused)


@frees
def raised_by_a_bare_raise(marker, fail):
    try:
        fail()
    except ValueError as error:
        if marker is not None:
            raise
        return error


@frees
def raised_by_its_name_within_the_clause(marker, fail):
    try:
        fail()
    except ValueError as error:
        raise error


@keeps("RL009")
def raised_out_of_a_box(marker, fail):
    box = [Refused("no")]
    problem = box.pop()
    raise problem


@keeps("RL007")
def raised_while_it_stays_in_a_box(marker, fail):
    errors = [Refused("no")]
    raise errors[0]


@keeps("RL009")
def raised_and_caught_by_the_same_function(marker, fail):
    problem = Refused("no")
    try:
        raise problem
    except Refused:
        return "refused"


# Stored on objects.


class Job:
    error = None

    def __init__(self):
        self.errors = []

    def run(self, fail):
        try:
            fail()
        except ValueError as error:
            self.problem = error

    def run_and_gather(self, fail):
        try:
            fail()
        except ValueError as error:
            self.errors.append(error)

    def run_for_text(self, fail):
        try:
            fail()
        except ValueError as error:
            self.text = str(error)

    def run_without_frames(self, fail):
        try:
            fail()
        except ValueError as error:
            self.problem_alone = error.with_traceback(None)

    def run_and_let_go(self, fail):
        try:
            fail()
        except ValueError as error:
            self.passing = error
        finally:
            self = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, tb):
        self.left_with = error
        return True


class Leaving:
    """What unittest does: without the traceback there is no frame that would hold this object."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, tb):
        self.left_with_alone = error.with_traceback(None)
        return True


def reraised(marker, fail):
    try:
        fail()
    except ValueError as error:
        reraise(None, error, None)


def left_with(marker, fail):
    with Job() as job:
        fail()
    return str(job)


# What these keep is found in a function that they call.
SITUATIONS["Job.run"] = (lambda marker, fail: Job().run(fail), ["RL004"])
SITUATIONS["Job.run_and_gather"] = (lambda marker, fail: Job().run_and_gather(fail), ["RL004"])
SITUATIONS["Job.__exit__"] = (left_with, ["RL004"])
SITUATIONS["reraise"] = (reraised, ["RL002"])


@frees
def stored_as_text(marker, fail):
    Job().run_for_text(fail)


@frees
def stored_without_frames(marker, fail):
    Job().run_without_frames(fail)


@frees
def stored_while_nobody_holds_the_object(marker, fail):
    Job().run_and_let_go(fail)


@frees
def left_with_but_without_frames(marker, fail):
    with Leaving() as leaving:
        fail()
    return str(leaving)


@keeps("RL004")
def put_into_a_future(marker, fail, future=None):
    future = marker.future()
    try:
        future.set_result(fail())
    except ValueError as error:
        future.set_exception(error)


@frees
def put_into_a_future_and_let_go(marker, fail):
    future = marker.future()
    try:
        future.set_result(fail())
    except ValueError as error:
        future.set_exception(error)
    finally:
        del future


# Gathered.


@keeps("RL007")
def gathered_in_a_list(marker, fail):
    errors = []
    for _ in range(2):
        try:
            fail()
        except ValueError as error:
            errors.append(error)
    return len(errors)


@frees
def gathered_and_raised_and_cleared(marker, fail):
    errors = []
    for _ in range(2):
        try:
            fail()
        except ValueError as error:
            errors.append(error)
    if errors:
        try:
            raise ExceptionGroup("several", errors)
        finally:
            errors.clear()
    return "well"


@keeps("RL007")
def gathered_by_key(marker, fail):
    outcomes = {}
    try:
        outcomes["a"] = fail()
    except ValueError as error:
        outcomes["a"] = error
    return outcomes


@frees
def gathered_as_text(marker, fail):
    errors = []
    try:
        fail()
    except ValueError as error:
        errors.append(str(error))
    return errors


# Loops that do not end.


@keeps("RL006")
def last_error_of_a_main_loop(marker, fail):
    while True:
        try:
            fail()
        except ValueError as error:
            last = error
        yield str(last)


@frees
def main_loop_that_reports(marker, fail):
    while True:
        try:
            fail()
        except ValueError as error:
            str(error)
        yield


@frees
def main_loop_that_clears(marker, fail):
    while True:
        try:
            fail()
        except ValueError as error:
            last = error
        str(last)
        last = None
        yield


# Ways that need following.


@frees
def one_of_two_is_none(marker, fail):
    problem = None
    try:
        fail()
    except ValueError as error:
        problem = error
    if not problem:
        return "well"
    if isinstance(problem, Exception):
        said = str(problem)
        del problem
        return said
    return "never"


@frees
def cleared_by_a_finally_around_all(marker, fail):
    problem = None
    try:
        for _ in range(3):
            try:
                return fail()
            except ValueError as error:
                problem = error
        raise problem
    finally:
        problem = None


@frees
def raised_and_cleared_beneath_another_handler(marker, fail):
    try:
        problem = None
        try:
            fail()
        except ValueError as error:
            problem = error
        if problem is not None:
            try:
                raise problem
            finally:
                problem = None
    except BaseException:
        marker.future()
        raise


@frees
def thrown_and_cleared_beneath_another_handler(marker, fail):
    def receiver():
        with contextlib.suppress(ValueError):
            yield

    generator = receiver()
    next(generator)
    try:
        try:
            fail()
        except ValueError as error:
            problem = error
        try:
            generator.throw(problem)
        finally:
            del problem
    except StopIteration:
        return "ended"


@frees
def gathered_and_another_one_raised(marker, fail):
    gathered = {}
    for key in ("a", "b"):
        problem = Refused(key)
        gathered[key] = problem
        if key == "b":
            raise Refused("c")
    return gathered


@frees
def suppressed(marker, fail):
    with contextlib.suppress(ValueError):
        fail()
    return "well"


@frees
def matched(marker, fail):
    try:
        fail()
    except ValueError as error:
        match error.args:
            case [str(text)]:
                return text
            case _:
                return None
