"""Ways to be suspended: each form calls `inner` from within one construct of Python and returns what that returned.

What a form has on its operand stack or in its locals meanwhile is made of Token, which knows when it was damaged.
"""

import functools
import random
from collections.abc import Callable
from typing import Any

import tests.core._forms_of_calls
import tests.core._forms_of_flow  # noqa: F401 # each puts its forms into the register
from tests.core._form import FORMS, SWALLOWING, Token

__all__ = ["FORMS", "SWALLOWING", "Token", "nested", "random_names"]


def nested(names: list[str], innermost: Callable[[], Any]) -> Callable[[], Any]:
    """A function that calls `innermost` through the forms of these names, the first outermost."""
    function = innermost
    for name in reversed(names):
        function = functools.partial(FORMS[name], function)
    return function


def random_names(rng: random.Random, most: int, without: set[str] | None = None) -> list[str]:
    names = sorted(set(FORMS) - (without or set()))
    return [rng.choice(names) for _ in range(rng.randint(1, most))]
