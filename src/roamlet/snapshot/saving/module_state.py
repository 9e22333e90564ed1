"""What running tasklets have put into modules and thread-locals, where a snapshot does not look: refused, if it can be seen."""

import types
from collections.abc import Callable
from typing import Any

from roamlet.core import tasklet
from roamlet.snapshot._errors import CannotSave
from roamlet.snapshot.references import by_name, links

_MOST = 1000  # keys or items that are looked at in one dictionary, set or list
_SMALL = 1 << 16  # no id() is below

Memo = Callable[[], dict[int, tuple[int, Any]]]


def refuse_ids(item: tasklet[Any], function: types.FunctionType, written: Memo) -> None:
    """Raise CannotSave where a global that the function uses has the id() of an object that is saved."""
    space = function.__globals__
    for name in function.__code__.co_names:
        found = space.get(name)
        if type(found) not in (dict, set) or not found or len(found) > _MOST:
            continue
        for key in list(found):
            if type(key) is int and key > _SMALL and key in written():
                raise CannotSave(
                    f"cannot save {item!r}: {function.__module__}.{name}, which {function.__qualname__} is about to use, has "
                    f"the id() of a {type(written()[key][1]).__name__} that is saved, which is another number where it is "
                    "restored. Let the tasklet wait before such a call, or after it"
                )


def refuse_locals(item: tasklet[Any], written: Memo) -> None:
    """Raise CannotSave where a thread-local of a module has, in this thread, an object that is saved."""
    for (where, name), local in by_name.thread_locals():
        for attribute, value in list(local.__dict__.items()):
            held = [value, *value] if type(value) is list and len(value) <= _MOST else [value]
            for each in held:
                if not isinstance(each, links.ATOMS) and id(each) in written():
                    raise CannotSave(
                        f"cannot save {item!r}: {where}.{name}.{attribute}, which belongs to the thread, has a "
                        f"{type(each).__name__} that is saved, and would not have it where that is restored. Let the "
                        "tasklet wait before that is put there, or after it was taken away"
                    )
