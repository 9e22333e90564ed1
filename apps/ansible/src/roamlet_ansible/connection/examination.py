"""What `roamlet ansible doctor` looks at on a host, through the connection that a task of a playbook has there."""

import time
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from .plugin import NotOverRoamlet, RoamletConnection

TRIALS = 3  # of the round trip; the shortest counts
LAST_LINES = 3  # of what a module, or what was to start it, has printed

Result = dict[str, Any]


def examine(connection: Any, run_module: Callable[[], Result]) -> Result:
    """Open the context of a task's connection and run a module twice. Returns what was found, in plain values.

    `run_module` runs `id -un` by the module `command`, as the account and by the Python that the task's modules have. Blocks.
    """
    found: Result = {"connection": _name(connection), "roamlet": isinstance(connection, RoamletConnection)}
    if not found["roamlet"]:
        return found
    try:
        found.update(_context(connection))
        found.update(_module(connection, run_module))
    except AnsibleConnectionFailure as error:
        found.update(error=str(error), unreachable=True)
    except AnsibleError as error:
        found.update(error=str(error), unreachable=False)
    return found


def _name(connection: Any) -> str:
    module = type(connection).__module__
    if module.startswith("ansible_collections."):
        _, namespace, collection, _, _, *rest = module.split(".")
        return ".".join([namespace, collection, *rest])
    return f"ansible.builtin.{module.rpartition('.')[2]}" if module.startswith("ansible.") else module


def _context(connection: RoamletConnection) -> Result:
    started = time.monotonic()
    try:
        facts = connection.facts()
    except NotOverRoamlet:
        return {"context": None}
    opening = time.monotonic() - started
    trips = []
    for _ in range(TRIALS):
        started = time.monotonic()
        connection.facts()
        trips.append(time.monotonic() - started)
    return {
        "context": {
            "account": facts["user"],
            "python": ".".join(map(str, facts["version"])),
            "executable": facts["executable"],
            "opened_in": round(opening, 4),
            "round_trip": round(min(trips), 4),
        }
    }


def _what_failed(result: Result) -> str:
    """Core's message, and the end of what was printed in place of an answer: sudo's refusal, or that of an interpreter."""
    said = str(result.get("module_stderr") or result.get("module_stdout") or "").strip().splitlines()[-LAST_LINES:]
    return " / ".join([str(result.get("msg", "the module has failed")).rstrip("."), *map(str.strip, said)])


def _module(connection: RoamletConnection, run_module: Callable[[], Result]) -> Result:
    started = time.monotonic()
    result = run_module()
    first = time.monotonic() - started
    went = dict(connection.went)
    if result.get("failed") or result.get("unreachable"):
        return {
            "error": _what_failed(result),
            "unreachable": bool(result.get("unreachable")),
        }
    started = time.monotonic()
    run_module()
    again = time.monotonic() - started
    return {
        "modules": {
            "way": went["way"],
            "why": went["why"],
            "interpreter": went["interpreter"],
            "account": str(result.get("stdout", "")).strip(),
            "first": round(first, 4),
            "again": round(again, 4),
        }
    }
