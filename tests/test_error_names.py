"""Errors are called by the names under which users import them, and are pickled by these."""

import importlib
import pickle

import pytest

PUBLIC = ("roamlet", "roamlet.io", "roamlet.remote", "roamlet.snapshot", "roamlet.sync", "roamlet.threads")


def errors():
    """Every exception and warning class that a public module offers and roamlet has made, once."""
    found = {}
    for name in PUBLIC:
        module = importlib.import_module(name)
        for attribute in module.__all__:
            value = getattr(module, attribute)
            if isinstance(value, type) and issubclass(value, BaseException) and value.__module__.startswith("roamlet"):
                found.setdefault(value, f"{name}.{attribute}")
    return sorted(found.items(), key=lambda pair: pair[1])


@pytest.mark.parametrize(("error", "name"), errors(), ids=[name for _, name in errors()])
def test_no_private_module_stands_in_the_name_of_an_error(error, name):
    assert not any(part.startswith("_") for part in error.__module__.split(".")), (
        f"{name} calls itself {error.__module__}"
    )
    assert pickle.loads(pickle.dumps(error)) is error
    if issubclass(error, Exception):
        again = pickle.loads(pickle.dumps(error("what happened")))
        assert type(again) is error
        assert str(again) == "what happened"
