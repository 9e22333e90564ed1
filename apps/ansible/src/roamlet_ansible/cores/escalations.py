"""Reads a become command: what it runs, and how any other command is put in that place. For any become plugin, core's or not.

Only the plugin knows its own syntax. So it is asked to make its command around a probe, which shows where and how deeply quoted the
command is; what was read is then given to it, and has to come out as the text that was read.
"""

import re
import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

PLACE = "{command}"
_DEPTH = 4  # shells within shells

# Words of a command line with no operator, pattern, substitution or redirection in them: `sudo -H -p "[...] password:" -u root`.
_WORD = r"""(?:[A-Za-z0-9_@%+=:,./~^-]|\\[A-Za-z0-9_@%+=:,./ \\-]|'[^']*'|"[^"$`\\!]*")+"""
_WORDS = re.compile(rf" *{_WORD}(?: +{_WORD})* *")
_CHANGED_FOLDER = re.compile(rf"cd {_WORD} && ")


class Escalation(NamedTuple):
    """A become command around `command`. `before` and `after` have this task's marker, `account` a constant one."""

    command: str
    before: str
    after: str
    depth: int
    account: str

    def around(self, command: str) -> str:
        """The same become command around another command."""
        return self.before + _quoted(command, self.depth) + self.after


def find(text: str, shell: Any, become: Any) -> Escalation | None:
    """Read `text`, the last command that `become` has made with `shell`; None where the proof fails. `become` is left as it was."""
    marker = getattr(become, "success", None)
    if not isinstance(marker, str) or not re.fullmatch("BECOME-SUCCESS-[a-z]{32}", marker) or text.count(marker) != 1:
        return None
    probe = "probe" + secrets.token_hex(16)
    with _kept(become):
        made = _made(become, f"{probe}'{probe}", shell)
        found = None if made is None else _read(made, text, marker, probe, shell)
        if found is None:
            return None
        again = _made(become, found.command, shell)
        return found if again is not None and _with_marker(again, marker) == text else None


class _Made(NamedTuple):
    text: str
    marker: str  # in it
    identity: str  # of the marker, also in a prompt


def _made(become: Any, command: str, shell: Any) -> _Made | None:
    try:
        text = become.build_become_command(command, shell)
    except Exception:  # a plugin of any origin: what it cannot do with a probe is not read
        return None
    marker = become.success
    if not isinstance(text, str) or not isinstance(marker, str) or text.count(marker) != 1:
        return None
    return _Made(str.__str__(text), marker, marker.removeprefix("BECOME-SUCCESS-"))


def _with_marker(made: _Made, marker: str) -> str:
    return made.text.replace(made.identity, marker.removeprefix("BECOME-SUCCESS-"))


def _read(made: _Made, text: str, marker: str, probe: str, shell: Any) -> Escalation | None:
    depth = _depth(made.text, f"{shell.ECHO} {made.marker} {shell.COMMAND_SEP} {probe}'{probe}", probe)
    parts = made.text.split(probe)
    if depth is None or len(parts) != 3 or parts[1] != _quoted("'", depth):
        return None
    before, _, after = parts
    own_before, own_after = (_with_marker(made._replace(text=part), marker) for part in (before, after))
    if len(text) <= len(own_before) + len(own_after) or not (text.startswith(own_before) and text.endswith(own_after)):
        return None
    command = _unquoted(text[len(own_before) : len(text) - len(own_after)], depth)
    account = before.replace(made.identity, "marker") + PLACE + after.replace(made.identity, "marker")
    return Escalation(command, own_before, own_after, depth, account)


def _depth(text: str, innermost: str, probe: str) -> int | None:
    """How many shells there are between this command line and `innermost`, read as shells read; None when it does not get there."""
    changed = _CHANGED_FOLDER.match(text)
    text = text[changed.end() :] if changed else text
    for depth in range(1, _DEPTH + 1):
        if not _WORDS.fullmatch(text):
            return None
        within = [word for word in shlex.split(text) if probe in word]
        if len(within) != 1:
            return None
        text = within[0]
        if text == innermost:
            return depth
    return None


def _quoted(text: str, depth: int) -> str:
    for _ in range(depth):
        text = text.replace("'", "'\"'\"'")
    return text


def _unquoted(text: str, depth: int) -> str:
    for _ in range(depth):
        text = text.replace("'\"'\"'", "'")
    return text


@contextmanager
def _kept(become: Any) -> Iterator[None]:
    """Put back the attributes of a plugin: its marker and its prompt belong to the command that is about to run."""
    attributes = dict(vars(become))
    try:
        yield
    finally:
        vars(become).clear()
        vars(become).update(attributes)
