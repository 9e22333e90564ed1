"""Which members of a long list show something of their own. The others repeat what these show: `make nightly` runs them too."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def telling(names: Iterable[str], tells: Callable[[str], bool]) -> list[Any]:
    """Parameters for all `names`; those of which `tells` is false are left to `make nightly`, unless it is so of all."""
    every = list(names)
    if not any(map(tells, every)):
        return every
    later = pytest.mark.exhaustive(reason="others of this list show the same")
    return [name if tells(name) else pytest.param(name, marks=later) for name in every]
