"""Versions of packages on both sides: which is newer, and whether they agree. Compares texts and knows nothing of contexts."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cmp_to_key
from typing import Any

from roamlet.remote.modules.finding import distributions, standard
from roamlet.remote.modules.finding.sources import Missing, find
from roamlet.remote.modules.policy import Modules

_PARTS = re.compile(r"\d+|[a-z]+")
_EARLIER = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "c": -1, "pre": -1, "preview": -1}


def asked_about(policy: Modules, has: frozenset[str]) -> list[str]:
    """The packages of the target whose versions decide: those with "newer" or "same" that both sides have."""
    if isinstance(policy.prefer, str):
        names = has if policy.prefer in ("newer", "same") else frozenset()
    else:
        names = has & {name for name, side in policy.prefer.items() if side in ("newer", "same")}
    return sorted(
        name
        for name in names
        if name.isidentifier() and not standard.is_standard(name) and not isinstance(find(name), Missing)
    )


def versions_here(names: Iterable[str]) -> dict[str, str]:
    """The versions of those of the packages that are here and no part of Python."""
    found = {
        name: _here(name) for name in names if not standard.is_standard(name) and not isinstance(find(name), Missing)
    }
    return {name: version for name, version in found.items() if version}


def decided(policy: Modules, names: list[str], theirs: Mapping[str, str]) -> tuple[Modules, list[str]]:
    """The policy with "target" or "parent" for each of the names, and a sentence for each conflict.

    `theirs` are the versions on the target. A package of unknown version counts as older than any.
    """
    sides = {} if isinstance(policy.prefer, str) else dict(policy.prefer)
    conflicts = []
    for name in names:
        ours = _here(name)
        there = theirs.get(name, "")
        side = policy.side(name)
        sides[name] = "parent" if side == "newer" and compare(ours, there) > 0 else "target"
        if side == "same" and ours != there:
            conflicts.append(
                f"{name} is {there or 'of no known version'} on the target and {ours or 'of no known version'} here"
            )
    sides = {name: "target" if side in ("newer", "same") else side for name, side in sides.items()}
    if isinstance(policy.prefer, str) and policy.prefer in ("target", "parent"):
        return policy, conflicts
    return replace(policy, prefer=sides), conflicts


def compare(one: str, other: str) -> int:
    """Above 0 when `one` is the newer version, 0 when they are equal, below 0 when it is the older one; "" is the oldest.

    Numbers count as numbers and are padded with zeros; dev, alpha, beta and rc come before a release, post after it. What
    follows a plus sign does not count.
    """
    left, right = _key(one), _key(other)
    width = max(len(left), len(right))
    left, right = (key + [0] * (width - len(key)) for key in (left, right))
    return (left > right) - (left < right)


newest_last: Callable[[str], Any] = cmp_to_key(compare)


def _key(version: str) -> list[int]:
    public = version[:100].lower().partition("+")[0].lstrip("v")
    if not public:
        return [-9]
    epoch, mark, rest = public.rpartition("!")
    parts = [int(epoch) if mark and epoch.isdigit() else 0]
    return parts + [int(part) if part.isdigit() else _EARLIER.get(part, 0) for part in _PARTS.findall(rest)]


def _here(name: str) -> str:
    found = sorted(distributions.versions_of(name), key=newest_last)
    return found[-1] if found else ""
