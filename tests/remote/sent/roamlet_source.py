"""A module that shows what it looks like on the target, in whatever form it came. For 3.6 and later."""

import inspect
import linecache
import os
import pickle
import sys
import traceback
import warnings


class Thread:
    """A class to pickle.

    >>> Thread("warp")
    Thread('warp')
    """

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return "Thread(%r)" % self.name


def fails():
    raise ValueError("a thread broke")  # the line that tracebacks show


def shown():
    try:
        fails()
    except ValueError:
        return traceback.format_exc()


def source():
    return inspect.getsource(fails), inspect.getsourcefile(fails)


def warned():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("too loose", UserWarning, stacklevel=1)  # the line that warnings show
        (one,) = caught
        return warnings.formatwarning(one.message, one.category, one.filename, one.lineno)


def tested():
    import doctest

    return tuple(doctest.testmod(sys.modules[__name__]))


def pickled():
    return repr(pickle.loads(pickle.dumps([Thread("roamlet"), fails])))


def form():
    kind = __loader__._modules[__name__][0]  # type: ignore[attr-defined]
    return kind, __file__, linecache.__name__, os.path.exists(__file__)
