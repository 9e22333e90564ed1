"""What is replaced is put back as it was, by identity."""

import types
from typing import Any

from roamlet.patch.changes import Changes


class Base:
    def inherited(self) -> str:
        return "base"

    @staticmethod
    def function() -> str:
        return "static"


class Derived(Base):
    pass


def test_names_of_modules_and_classes_are_put_back_by_identity() -> None:
    module: Any = types.ModuleType("module")
    module.value = original = object()
    static = vars(Base)["function"]
    changes = Changes()
    changes.replace(module, "value", 1)
    changes.replace(module, "value", 2)
    changes.replace(module, "new", 3)
    changes.replace(Base, "function", None)
    changes.replace(Derived, "inherited", None)
    assert (module.value, module.new, Base.function, Derived.inherited) == (2, 3, None, None)
    changes.undo()
    assert module.value is original and not hasattr(module, "new")
    assert vars(Base)["function"] is static and "inherited" not in vars(Derived)
    assert changes.replacements == []


def test_what_another_has_replaced_since_is_left_alone() -> None:
    module: Any = types.ModuleType("module")
    module.value = "original"
    changes = Changes()
    changes.replace(module, "value", "ours")
    module.value = "theirs"
    changes.undo()
    assert module.value == "theirs"


def test_the_newest_is_undone_first() -> None:
    order: list[int] = []
    changes = Changes()
    for number in range(3):
        changes.on_undo(lambda number=number: order.append(number))
    changes.undo()
    changes.undo()
    assert order == [2, 1, 0]
