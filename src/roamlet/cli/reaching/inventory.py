"""From the words after -H to hosts: ranges, files, and groups out of a TOML file or an Ansible inventory. Touches no network."""

import configparser
import json
import re
import shlex
import string
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from roamlet.cli._errors import UsageError

ALIKE = 0.8  # of difflib: a letter too many or too few in a word of three, another one in a word of five
MOST_HOSTS = 10_000
RANGE = re.compile(r"\[([^\[\]]*)\]")
NUMBERS = re.compile(r"(\d+)[-:](\d+)(?::(\d+))?")
LETTERS = re.compile(r"([A-Za-z])[-:]([A-Za-z])")
ADDRESS = re.compile(r"[^\s,@\[\]-][^\s,@\[\]]*")
PARTS = re.compile(
    r"(?:(?P<user>[^\s,@-][^\s,@]*)@)?(?:\[(?P<ip>[0-9A-Fa-f:.%\w]*)\]|(?P<host>[^@]*?))(?::(?P<port>\d+))?"
)


@dataclass(frozen=True)
class Host:
    """A host and how to reach it. `name` is what it is called in the output; `address` what ssh is given, None here."""

    name: str
    address: str | None
    user: str | None = None
    port: int | None = None
    python: str | None = None
    via: str | None = None
    ssh_args: tuple[str, ...] = ()


@dataclass
class Inventory:
    """Groups of hosts, and what is known of single ones. `groups` holds words as they may stand after -H."""

    groups: dict[str, list[str]] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)


# ---- words


def hosts_from(words: Iterable[str], inventory: Inventory | None = None) -> list[Host]:
    """The hosts that the words name, in order, each once. Raises UsageError for what names none, and for a host typed twice."""
    inventory = inventory or Inventory()
    typed: list[str] = []
    found: dict[str, Host] = {}
    for word in words:
        for one in _split(word):
            if not one:
                raise UsageError(f"-H {word!r} names an empty host; separate hosts by one comma: -H a,b")
            group = one in inventory.groups or one.startswith("@")
            if not group:
                _refuse_misspelt(one, inventory)
            for host in _hosts_of(one, inventory, ()):
                if host.name in typed and not group:
                    raise UsageError(f"-H names {host.name!r} more than once; each host runs the function once")
                if not group:
                    typed.append(host.name)
                found.setdefault(host.name, host)
                if len(found) > MOST_HOSTS:
                    raise UsageError(f"-H {word!r}: more than {MOST_HOSTS} hosts; is a range too wide?")
    return list(found.values())


def _refuse_misspelt(word: str, inventory: Inventory) -> None:
    """Refuse a word that is almost a group of the inventory: ssh would take it for some machine. A word with a digit is a host."""
    if not inventory.groups or word in inventory.settings or not re.fullmatch(r"[^\W\d][^\W\d.-]*", word):
        return
    # Inside: it takes longer to load than the words take to be read.
    from difflib import get_close_matches

    alike = get_close_matches(word, inventory.groups, n=1, cutoff=ALIKE)
    if alike and all(word not in members for members in inventory.groups.values()):
        raise UsageError(
            f"-H {word!r} is no group of -i, and almost one: did you mean {alike[0]!r}? A host that is called so is named with its "
            f"port, {word}:22"
        )


def _split(word: str) -> list[str]:
    """At commas that are in no brackets."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", word)]


def _hosts_of(word: str, inventory: Inventory, around: tuple[str, ...]) -> Iterator[Host]:
    if word in inventory.groups:
        if word in around:
            raise UsageError(f"the group {word!r} contains itself: {' > '.join([*around, word])}")
        for member in inventory.groups[word]:
            yield from _hosts_of(member, inventory, (*around, word))
    elif word.startswith("@"):
        for line in _lines(Path(word[1:])):
            for one in _split(line):
                if one.startswith("@"):
                    raise UsageError(f"{word[1:]}: {line!r} names another file; a file of hosts names hosts and groups")
                yield from _hosts_of(one, inventory, around)
    else:
        for name in expanded(word):
            yield _host(name, inventory)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"-H @{path}: the file cannot be read: {_why(error)}") from None
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    found = [line for line in lines if line]
    if not found:
        raise UsageError(f"-H @{path}: there is no host in it; write one a line")
    return found


def _why(error: Exception) -> object:
    """What was wrong, without the path, which the message has named."""
    return (error.strerror if isinstance(error, OSError) else None) or error


def _host(name: str, inventory: Inventory) -> Host:
    match = PARTS.fullmatch(name)
    address, port = (match["ip"] or match["host"], match["port"]) if match else ("", None)
    if match and port and ":" in address and not match["ip"]:  # an IPv6 address without brackets: all of it is address
        address, port = f"{address}:{port}", None
    if match is None or not ADDRESS.fullmatch(address) or name.startswith("-"):
        if name in inventory.settings:
            raise UsageError(f"-i: {name!r}, a host of the inventory, is no host name. Is that file an inventory?")
        ranges = "; a range is written web[01-20]" if "[" in name or "]" in name else ""
        raise UsageError(f"-H: {name!r} is no host name; give HOST, USER@HOST or USER@HOST:PORT{ranges}")
    if port is not None and not 0 < int(port) < 65536:
        raise UsageError(f"-H: {name!r}: there is no port {port}; ports are 1 to 65535")
    known = inventory.settings.get(address, {})
    host = Host(name, known.get("address", address), match["user"], int(port) if port else None)
    if known.get("local"):
        host = replace(host, address=None)
    given = {"user": host.user, "port": host.port}
    more = {key: value for key, value in known.items() if key not in ("address", "local") and given.get(key) is None}
    return replace(host, **more)


def expanded(word: str) -> list[str]:
    """What a word with ranges stands for: web[01-03], db[a-c], rack[1,3-5]-[a-b]. A bracket that is an IPv6 address stays."""
    for match in RANGE.finditer(word):
        if not re.fullmatch(r"[0-9A-Fa-f]*:[0-9A-Fa-f:.%\w]*:[0-9A-Fa-f:.%\w]*", match[1]) or NUMBERS.fullmatch(
            match[1]
        ):
            rest = expanded(word[match.end() :])
            middle = [value for part in match[1].split(",") for value in _values(part.strip(), word)]
            if len(middle) * len(rest) > MOST_HOSTS:
                raise UsageError(f"{word!r} stands for more than {MOST_HOSTS} hosts; is the range too wide?")
            return [word[: match.start()] + value + end for value in middle for end in rest]
    return [word]


def _values(part: str, word: str) -> Sequence[str]:
    numbers, letters = NUMBERS.fullmatch(part), LETTERS.fullmatch(part)
    if numbers is not None:
        first, last, step = int(numbers[1]), int(numbers[2]), int(numbers[3] or 1)
        if step and last // step - first // step <= MOST_HOSTS and first <= last:
            width = len(numbers[1]) if numbers[1].startswith("0") else 0
            return [str(number).zfill(width) for number in range(first, last + 1, step)]
    elif letters is not None:
        row = string.ascii_lowercase if letters[1].islower() else string.ascii_uppercase
        if letters[2] in row and letters[1] <= letters[2]:
            return row[row.index(letters[1]) : row.index(letters[2]) + 1]
    elif part.isalnum():
        return [part]
    raise UsageError(f"{word!r}: [{part}] is no range; write it as in web[01-20], web[a-c] or web[1,3,5-9]")


def folded(names: Iterable[str]) -> str:
    """Names as short as they can be read: web[01-03],db."""
    rows: dict[tuple[str, str, int], list[int]] = {}
    order: list[tuple[str, str, int] | str] = []
    for name in names:
        match = re.fullmatch(r"(.*?)(\d+)(\D*)", name)
        if match is None or len(match[2]) > 9:
            order.append(name)
            continue
        key = (match[1], match[3], len(match[2]))
        if key not in rows:
            order.append(key)
        rows.setdefault(key, []).append(int(match[2]))
    return ",".join(entry if isinstance(entry, str) else _row(entry, sorted(set(rows[entry]))) for entry in order)


def _row(key: tuple[str, str, int], numbers: list[int]) -> str:
    before, after, width = key
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    texts = [str(first).zfill(width) + (f"-{str(last).zfill(width)}" if last > first else "") for first, last in parts]
    inner = ",".join(texts)
    return f"{before}[{inner}]{after}" if len(numbers) > 1 else f"{before}{inner}{after}"


# ---- files


KEYS: dict[str, type] = {"user": str, "port": int, "python": str, "via": str, "address": str, "ssh_args": list}
ANSIBLE = {
    "ansible_host": "address",
    "ansible_ssh_host": "address",
    "ansible_port": "port",
    "ansible_ssh_port": "port",
    "ansible_user": "user",
    "ansible_ssh_user": "user",
    "ansible_python_interpreter": "python",
    "ansible_ssh_common_args": "ssh_args",
    "ansible_ssh_extra_args": "more_ssh_args",
    "ansible_connection": "connection",
}


def read_inventory(path: Path) -> Inventory:
    """The groups and hosts of a file: .toml is roamlet's own form, .json what `ansible-inventory --list` prints, else Ansible's
    INI.

    Raises UsageError that names the file and what is wrong in it.
    """
    try:
        text = path.read_text("utf-8-sig")
        if path.suffix == ".toml":
            return _from_toml(tomllib.loads(text))
        if path.suffix == ".json":
            return _from_listing(json.loads(text))
        if path.suffix in (".yml", ".yaml"):
            raise UsageError(f"YAML is not read here; say: ansible-inventory -i {path} --list > {path.stem}.json")
        return _from_ini(text)
    except UsageError as error:
        raise UsageError(f"-i {path}: {error}") from None
    except (OSError, ValueError, configparser.Error) as error:
        raise UsageError(f"-i {path}: the file cannot be read: {_why(error)}") from None


def _from_toml(said: Mapping[str, Any]) -> Inventory:
    unknown = set(said) - {"groups", "hosts"}
    if unknown:
        raise UsageError(f"[{unknown.pop()}] is unknown; there are [groups] and [hosts.NAME]")
    inventory = Inventory()
    for name, members in said.get("groups", {}).items():
        if not isinstance(members, list) or not all(isinstance(member, str) for member in members):
            raise UsageError(f'the group {name!r} is no list of names; write {name} = ["web[01-03]", "db"]')
        inventory.groups[name] = members
    wide = sorted(said.get("hosts", {}).items(), key=lambda item: item[0] not in inventory.groups)  # groups first
    for name, settings in wide:
        for key, value in settings.items() if isinstance(settings, dict) else [("", None)]:
            if key not in KEYS or type(value) is not KEYS[key]:
                raise UsageError(f"[hosts.{name}] has {key} = {value!r}; known are {', '.join(KEYS)}")
        if "ssh_args" in settings:
            settings = {**settings, "ssh_args": tuple(map(str, settings["ssh_args"]))}  # noqa: PLW2901
        for host in _hosts_of(name, Inventory(inventory.groups), ()):
            inventory.settings.setdefault(str(host.address), {}).update(settings)
    if "all" not in inventory.groups:
        inventory.groups["all"] = [*inventory.groups, *said.get("hosts", {})]
    return inventory


def _from_ini(text: str) -> Inventory:
    members: dict[str, list[str]] = {"ungrouped": []}
    children: dict[str, list[str]] = {}
    shared: dict[str, dict[str, str]] = {}
    own: dict[str, dict[str, str]] = {}
    group, kind = "ungrouped", "hosts"
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()  # noqa: PLW2901
        if not line or line[0] in "#;":
            continue
        section = re.fullmatch(r"\[([^\]:]+)(?::(children|vars))?\]\s*(?:[#;].*)?", line)
        if section is not None and not line.startswith("[["):
            group, kind = section[1].strip(), section[2] or "hosts"
            members.setdefault(group, [])
        elif kind == "vars":
            key, _, value = line.partition("=")
            shared.setdefault(group, {})[key.strip()] = " ".join(shlex.split(value, comments=True)) if value else ""
        elif kind == "children":
            children.setdefault(group, []).append(line.split()[0])
        else:
            try:
                name, *settings = shlex.split(line, comments=True)
            except ValueError as error:
                raise UsageError(f"line {number}: {error}") from None
            for host in expanded(name):
                members[group].append(host)
                own.setdefault(host, {}).update(setting.partition("=")[::2] for setting in settings if "=" in setting)
    return _assembled(members, children, shared, own)


def _from_listing(said: Any) -> Inventory:
    if not isinstance(said, dict) or not all(isinstance(value, dict) for value in said.values()):
        raise UsageError("that is not what ansible-inventory --list prints")
    own = said.get("_meta", {}).get("hostvars", {})
    groups = {name: value for name, value in said.items() if name != "_meta"}
    members = {name: list(map(str, value.get("hosts", []))) for name, value in groups.items()}
    children = {name: list(map(str, value.get("children", []))) for name, value in groups.items()}
    shared = {name: value.get("vars", {}) for name, value in groups.items()}
    return _assembled(members, children, shared, own)


def _assembled(
    members: dict[str, list[str]],
    children: Mapping[str, list[str]],
    shared: Mapping[str, Mapping[str, Any]],
    own: Mapping[str, Mapping[str, Any]],
) -> Inventory:
    """Ansible's rules: what is said of all, of a group, of a group in it, of the host itself; the last one counts."""
    inventory = Inventory()
    for group, groups in children.items():
        for child in groups:
            if child not in members:
                raise UsageError(f"[{group}:children] names {child!r}, and there is no such group")
    everything = list(dict.fromkeys(host for hosts in members.values() for host in hosts))
    variables: dict[str, dict[str, Any]] = {host: dict(shared.get("all", {})) for host in everything}

    def spread(group: str, around: tuple[str, ...]) -> list[str]:
        if group in around:
            raise UsageError(f"the group {group!r} contains itself: {' > '.join([*around, group])}")
        inside = list(members[group])
        depths.setdefault(group, 0)
        for child in children.get(group, []):
            inside += spread(child, (*around, group))
            depths[group] = max(depths[group], depths[child] + 1)
        return list(dict.fromkeys(inside))

    depths: dict[str, int] = {}
    for group in members:
        inventory.groups[group] = spread(group, ())
    inventory.groups["all"] = everything
    for group in sorted(members, key=lambda name: -depths[name]):
        for host in inventory.groups[group] if group != "all" else ():
            variables[host].update(shared.get(group, {}))
    for host in everything:
        variables[host].update(own.get(host, {}))
        inventory.settings[host] = _ansible_settings(host, variables[host])
    return inventory


def _ansible_settings(host: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Of a host's variables those that say how to reach it; all others are ignored."""
    known = {ANSIBLE[key]: value for key, value in variables.items() if key in ANSIBLE}
    settings: dict[str, Any] = {
        key: str(value) for key, value in known.items() if key in ("address", "user") and value not in ("", None)
    }
    if known.get("python") and not str(known["python"]).startswith("auto"):
        settings["python"] = str(known["python"])
    if known.get("connection") == "local":
        settings["local"] = True
    if "port" in known:
        if not str(known["port"]).isdecimal():
            raise UsageError(f"{host}: ansible_port={known['port']!r} is no port")
        settings["port"] = int(known["port"])
    arguments = shlex.split(f"{known.get('ssh_args', '')} {known.get('more_ssh_args', '')}")
    if arguments:
        settings["ssh_args"] = tuple(arguments)
    return settings
