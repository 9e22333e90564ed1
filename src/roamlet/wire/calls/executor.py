"""What roamlet.executor and roamlet.joblib call on their targets: a function for each of several items, one whose result comes
back as a pickle, and one that comes as a pickle, with large values apart.
"""

import io
import pickle
import threading
import traceback

LIMIT = 600.0  # seconds that a large value may take

_kept = {}  # token -> value
_forgotten = set()  # tokens of what has not come yet
_changed = threading.Condition()


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


def version_of(package):
    """The version of a package that an import finds."""
    return getattr(__import__(package), "__version__", "without a version")


def keep(token, array):
    """Have an array for pickles that refer to it by this token, until `forget`. It can only be read: several calls share it."""
    array.flags.writeable = False
    with _changed:
        if token in _forgotten:
            _forgotten.remove(token)
            return
        _kept[token] = array
        _changed.notify_all()


def lose(token, problem):
    """Fail the calls that wait for this array: it has come, and could not be read."""
    with _changed:
        _kept[token] = pickle.UnpicklingError("an array that the call has cannot be read here: %s" % problem)
        _changed.notify_all()


def forget(tokens):
    """Let go of the values with these tokens, those that are still on their way as well."""
    with _changed:
        for token in tokens:
            if _kept.pop(token, None) is None:
                _forgotten.add(token)


def unpickled(data):
    """Call what a pickle has, and return its result. Waits for values that the pickle refers to: each is on its way."""
    return _Unpickler(io.BytesIO(data)).load()()


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, token):
        with _changed:
            while token not in _kept:
                if not _changed.wait(LIMIT):
                    raise pickle.UnpicklingError("a large value did not come in %g seconds" % LIMIT)
            value = _kept[token]
        if isinstance(value, pickle.UnpicklingError):
            # A new one for each call: an error that is kept would keep frames.
            raise pickle.UnpicklingError(*value.args)
        return value
