"""What `import roamlet` finds on a target: names that can be imported, passed around and decorated away, but not used.

A script that makes contexts imports roamlet at its top; its functions must run in a context where nothing of roamlet is
installed.
"""

import sys

_EXITS = ("TaskletExit", "Cancelled")  # no Exception, so that only who means them catches them
_REGISTER = "roamlet.remote.register"  # decorates classes that have to be here as well, to come up from here


class NoCore(RuntimeError):
    """Something of roamlet was used in a context that has no core of roamlet."""


class _Names(object):
    """Has every attribute: capitalised ones are exceptions, to be caught, raised and derived from; others are a Name."""

    def __getattr__(self, name):
        if name[:2] == "__":
            raise AttributeError(name)
        if name[:1].isupper():
            base = SystemExit if name in _EXITS else Exception
            value = type(name, (base,), {"__module__": self.__name__})
        else:
            value = Name("%s.%s" % (self.__name__, name))
        setattr(self, name, value)
        return value


class Name(_Names):
    """Any public name of roamlet that is no exception; calling one raises NoCore, but registering a class is no use of it."""

    def __init__(self, name):
        self.__name__ = name

    def __repr__(self):
        return "<%s, which this context does not have>" % self.__name__

    def __call__(self, *args, **kwargs):
        if self.__name__ == _REGISTER and len(args) == 1:
            return args[0]
        raise NoCore(
            "%s() was called in a context, where there is no core of roamlet: one that is opened with tasklets=True "
            "has tasklets and channels; contexts are opened by the parent alone" % self.__name__
        )


class Module(_Names, type(sys)):
    """A module of roamlet that has every name."""

    __path__ = []


class Loader(object):
    """Loads such modules, for 2.7 and 3.6+."""

    def create_module(self, spec):
        return Module(spec.name)

    def exec_module(self, module):
        pass

    def load_module(self, name):
        module = sys.modules.setdefault(name, Module(name))
        module.__loader__ = self
        return module
