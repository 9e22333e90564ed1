"""Whether two runs of a playbook had the same results: what the callback plugin wrote, less what differs from run to run. Pure."""

import json
import re
from collections.abc import Iterator
from typing import Any

# Left out at any depth: times, process ids, what the kernel counts, and names of temporary files.
VOLATILE = frozenset(
    (
        *("start", "end", "delta", "atime", "mtime", "ctime", "birthtime", "inode", "src", "pid"),
        *("ansible_date_time", "ansible_uptime_seconds", "ansible_loadavg", "ansible_memfree_mb", "ansible_memory_mb"),
        *("ansible_swapfree_mb", "ansible_mounts", "ansible_entropy_avail"),
        # Of the environment: the connection itself, which a controller opens once or many times.
        *("SSH_CONNECTION", "SSH_CLIENT", "XDG_SESSION_ID"),
    )
)
UNORDERED = frozenset(("ansible_interfaces",))  # lists that modules make of sets
TEMPORARY = re.compile(
    r"ansible-tmp-[0-9.]+-\d+-\d+|ansible_mitogen_action_\w+|\.ansible_tmp\w+|BECOME-SUCCESS-[a-z]{32}"  # random names
)

Results = dict[tuple[int, str], dict[str, Any]]
"""The lines of the callback plugin by task and host."""


def parse(text: str) -> Results:
    """The lines of the callback plugin by task and host."""
    lines = map(json.loads, text.splitlines())
    return {(line["task"], line["host"]): line for line in lines}


def differences(stock: Results, other: Results) -> list[str]:
    """What is not the same, one line each: "task 3 copy on host2: result.mode: '0644', with stock '0600'"."""
    found = []
    for task, host in sorted(stock.keys() | other.keys()):
        ours, theirs = other.get((task, host)), stock.get((task, host))
        action = (theirs or ours or {})["action"]
        where = f"task {task} {action} on {host}"
        if ours is None or theirs is None:
            found.append(f"{where}: {'no result' if ours is None else 'a result, and none with stock'}")
            continue
        found += [f"{where}: {text}" for text in _compare(_kept(theirs), _kept(ours), "")]
    return found


def _kept(value: Any) -> Any:
    """`value` without what is volatile."""
    if isinstance(value, dict):
        kept = {key: _kept(entry) for key, entry in value.items() if key not in VOLATILE}
        return {key: sorted(entry) if key in UNORDERED else entry for key, entry in kept.items()}
    if isinstance(value, list):
        return [_kept(entry) for entry in value]
    if isinstance(value, str):
        return TEMPORARY.sub("TEMPORARY", value)
    return value


def _compare(theirs: Any, ours: Any, path: str) -> Iterator[str]:
    if type(theirs) is not type(ours):
        yield f"{path or 'result'}: {ours!r:.200}, with stock {theirs!r:.200}"
    elif isinstance(theirs, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            below = f"{path}.{key}" if path else key
            if key not in ours:
                yield f"{below}: missing, with stock {theirs[key]!r:.200}"
            elif key not in theirs:
                yield f"{below}: {ours[key]!r:.200}, missing with stock"
            else:
                yield from _compare(theirs[key], ours[key], below)
    elif isinstance(theirs, list) and len(theirs) == len(ours):
        for number, (left, right) in enumerate(zip(theirs, ours, strict=True)):
            yield from _compare(left, right, f"{path}[{number}]")
    elif theirs != ours:
        yield f"{path}: {ours!r:.200}, with stock {theirs!r:.200}"
