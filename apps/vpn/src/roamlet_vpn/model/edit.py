"""Changes in the text of network.toml: as few lines as will do, every comment kept; and the file written whole or not at all.

A change is made in the lines, where comments are where people put them, and then the text is read back: if it does not say what it
should (a table written in an unusual way), tomlkit makes the change, which keeps comments too but moves some.
"""

import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roamlet_vpn.errors import VpnError
from roamlet_vpn.model.lines import Lines

Value = str | int | bool | list[str]

HEAD = """\
# The offices of this network and how their servers are reached. `roamlet vpn plan` shows what would change,
# `roamlet vpn apply` does it.
"""


@dataclass(frozen=True)
class FileChange:
    """A value that network.toml gets."""

    site: str
    key: str
    value: "str | list[str]"


def new_text(network: Mapping[str, Value], sites: Mapping[str, Mapping[str, Value]]) -> str:
    """A new file."""
    lines = ["[network]", *(f"{key} = {_toml(value)}" for key, value in network.items())]
    return "\n".join([HEAD, *lines, "", *(site_text(name, values) for name, values in sites.items())])


def site_text(name: str, values: Mapping[str, Value]) -> str:
    """The table of one site."""
    return "\n".join([f"[sites.{name}]", *(f"{key} = {_toml(value)}" for key, value in values.items()), ""])


def with_marks(text: str, problems: Iterable[tuple[int, str]]) -> str:
    """The text with a comment above each of these lines, counted from 1, that says what is wrong with it; 0 is the first."""
    lines = text.splitlines()
    for number, message in sorted(problems, reverse=True):
        lines[max(0, number - 1) : max(0, number - 1)] = [f"# CORRECT THIS: {line}" for line in message.splitlines()]
    return "\n".join(lines) + "\n"


def with_site(text: str, name: str, values: Mapping[str, Value]) -> str:
    """The text with a further site at its end. Raises VpnError when there is one of this name."""
    tables = tomllib.loads(text)
    if name in tables.get("sites", {}):
        raise VpnError(
            f"there is a site {name!r} already; `roamlet vpn remove {name}` takes it out, or choose another name"
        )
    expected = {**tables, "sites": {**tables.get("sites", {}), name: dict(values)}}
    return _checked(text.rstrip("\n") + "\n\n" + site_text(name, values), expected)


def without_site(text: str, name: str) -> str:
    """The text without this site and the comment lines right above its table. Raises VpnError when there is no such site."""
    tables = tomllib.loads(text)
    sites = tables.get("sites", {})
    if name not in sites:
        raise VpnError(f"there is no site {name!r}; the file has {', '.join(sites) or 'none'}")
    expected = {**tables, "sites": {other: table for other, table in sites.items() if other != name}}
    return _either(text, expected, lambda: _cut(text, name), lambda document: document["sites"].remove(name))


def with_value(text: str, site: str, key: str, value: Value) -> str:
    """The text with this value for a key of a site, in place of the one that is there."""
    tables = tomllib.loads(text)
    sites = tables["sites"]
    expected = {**tables, "sites": {**sites, site: {**sites[site], key: value}}}

    def by_lines() -> str:
        lines = text.splitlines()
        at = Lines(text)
        line = f"{key} = {_toml(value)}"
        if key in sites[site]:
            number = at.of("sites", site, key)
            comment = re.search(r"\s+#[^\"']*$", lines[number - 1])
            lines[number - 1] = line + (comment[0] if comment else "")
        else:  # below the server, whose text is always one line
            lines.insert(at.of("sites", site, "server"), line)
        return "\n".join(lines) + "\n"

    def by_tomlkit(document: Any) -> None:
        document["sites"][site][key] = value

    return _either(text, expected, by_lines, by_tomlkit)


def with_changes(text: str, changes: Iterable[FileChange]) -> str:
    """The text with what a plan gives to the file."""
    for change in changes:
        text = with_value(text, change.site, change.key, change.value)
    return text


def changed_in_file(path: Path, change: Callable[[str], str]) -> None:
    """Write what `change` makes of the file's text, unless that is the same. Blocks for the disk."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            there = file.read()
        mark = "\ufeff" if there.startswith("\ufeff") else ""
        before = there.removeprefix(mark).replace("\r\n", "\n")
        after = change(before)
    except (OSError, ValueError, KeyError) as error:
        raise VpnError(
            f"{path} was changed meanwhile, and cannot be changed now ({error}): look at it, and try again"
        ) from None
    if after != before:
        write(path, mark + (after.replace("\n", "\r\n") if "\r\n" in there else after))


def write(path: Path, text: str) -> None:
    """Put the text into the file, whole or not at all, with the mode that the file has. Blocks for the disk. Raises VpnError."""
    path = path.resolve()  # a link stays one, and what it leads to changes
    try:
        _write(path, text)
    except OSError as error:
        raise VpnError(f"{path} cannot be written: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    # The kernel tells it without changing it; os.umask would change it for a moment, for all threads.
    match = re.search(r"^Umask:\s*([0-7]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(match[1], 8) if match else 0o077


def _toml(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _cut(text: str, name: str) -> str:
    """Without the lines from the comment above the site's header to the one above the next header."""
    lines = text.splitlines()
    header = re.compile(r"\s*\[")
    own = re.compile(rf"""\s*\[\s*sites\s*\.\s*["']?{re.escape(name)}["']?\s*[\].]""")
    kept: list[str] = []
    cut: list[str] = []
    cutting = False
    for line in lines:
        if header.match(line):
            was, cutting = cutting, own.match(line) is not None
            if cutting and not was:
                while kept and kept[-1].lstrip().startswith("#"):
                    kept.pop()
            elif was and not cutting:
                kept += _comments_at_the_end(cut)
            cut = []
        if cutting:
            cut.append(line)
        else:
            kept.append(line)
    return "\n".join(kept).rstrip("\n") + "\n"


def _comments_at_the_end(lines: list[str]) -> list[str]:
    first = len(lines)
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return lines[first:]


def _either(
    text: str, expected: Mapping[str, Any], by_lines: Callable[[], str], by_tomlkit: Callable[[Any], object]
) -> str:
    try:
        return _checked(by_lines(), expected)
    except (VpnError, IndexError, tomllib.TOMLDecodeError):
        # Inside: loading it takes longer than the rest of `roamlet vpn --help`, and it is hardly ever needed.
        import tomlkit

        document = tomlkit.parse(text)
        by_tomlkit(document)
        return _checked(tomlkit.dumps(document), expected)


def _checked(text: str, expected: Mapping[str, Any]) -> str:
    if tomllib.loads(text) != expected:
        raise VpnError("the file is written in a way that cannot be changed here; make the change with an editor")
    return text
