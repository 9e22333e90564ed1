"""What roamlet.executor calls on its targets: a function for each of several items, and one whose result comes back as a pickle."""

import pickle
import traceback


def each(function, items):
    """The results of function(*item), for one item after the other."""
    return [function(*item) for item in items]


def pickled(function, args, kwargs):
    """What the function returns or raises, as a pickle: (True, value), or (False, exception, its traceback)."""
    try:
        answer = (True, function(*args, **kwargs))
    except Exception as error:  # it is raised in the parent
        try:
            answer = pickle.dumps((False, error, traceback.format_exc()), 2)
            pickle.loads(answer)  # its class may want other arguments than it keeps
        except Exception:  # pickle does not know it: then it comes as every error does
            answer = None
        if answer is None:
            raise
        return answer
    return pickle.dumps(answer, min(pickle.HIGHEST_PROTOCOL, 5))
