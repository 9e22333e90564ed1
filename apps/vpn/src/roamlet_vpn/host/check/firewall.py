"""What a server's own firewall may drop or rewrite: its base chains, by nft and by the old iptables. Reads; changes nothing."""

import re

from roamlet_vpn.host import system

HOOKS = ("prerouting", "input", "forward", "output", "postrouting")
# Tables and chains of iptables on top of nft, which iptables alone should change.
_OF_IPTABLES = ("filter", "nat", "mangle", "raw", "security")
_DROPS = re.compile(r"\b(drop|reject)\b", re.IGNORECASE)
_COMMENT = re.compile(r'(--)?comment\s+("[^"]*"|\S+)')
_REWRITES = re.compile(r"\b(masquerade|snat)\b", re.IGNORECASE)
_JUMPS = re.compile(r"\b(?:jump|goto)\s+([\w.-]+)|-[jg]\s+([\w.-]+)")


def chains():
    """[{"tool", "family", "table", "name", "hook", "drops", "rewrites"}] of those chains that packets come by.

    `tool` is nft, iptables or ip6tables; `drops`: some rule of it, or its policy, drops or rejects; `rewrites`: some rule changes
    source addresses. Chains that it jumps to count as part of it. None where no tool tells.
    """
    found = []
    known = False
    if system.found("nft"):
        status, text, _ = system.run(["nft", "list", "ruleset"])
        known = status == 0
        found += of_nft(text) if known else []
    for tool in ("iptables", "ip6tables"):
        if not system.found(tool + "-save") or (known and not _is_legacy(tool)):
            continue
        status, text, _ = system.run([tool + "-save"])
        if status == 0:
            known = True
            found += of_iptables(text, tool)
    return found if known else None


def _is_legacy(tool):
    """Whether this iptables keeps rules that nft does not show."""
    return "nf_tables" not in system.run([tool, "-V"])[1]


def of_nft(text):
    """The base chains in what `nft list ruleset` prints."""
    tables = {}
    hooks = []
    blocks = []  # those that are open, by their words: a set in a table is one too
    for line in (one.strip() for one in text.splitlines()):
        if line.endswith("{"):
            blocks.append(line[:-1].split())
            if blocks[-1][:1] == ["table"]:
                tables[tuple(blocks[-1][1:])] = {}
        elif line == "}":
            del blocks[-1:]
        elif len(blocks) == 2 and blocks[1][:1] == ["chain"]:
            table, chain = tuple(blocks[0][1:]), blocks[1][1]
            tables[table].setdefault(chain, []).append(line.partition("#")[0])
            base = re.match(r"type \w+ hook (\w+) ", line)
            if base and len(table) == 2:
                hooks.append((table, chain, base.group(1)))
    return [_made(_tool(table, chain), table[0], table[1], chain, hook, tables[table]) for table, chain, hook in hooks]


def _tool(table, chain):
    family, name = table
    if family in ("ip", "ip6") and name in _OF_IPTABLES and chain.isupper():
        return "iptables" if family == "ip" else "ip6tables"
    return "nft"


def of_iptables(text, tool):
    """The base chains in what `iptables-save` prints."""
    family = "ip" if tool == "iptables" else "ip6"
    tables = {}
    table = None
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
            tables[table] = {}
        elif line.startswith(":") and table:
            name, policy = line[1:].split()[:2]
            tables[table][name] = ["policy " + policy]
        elif line.startswith("-A ") and table:
            tables[table].setdefault(line.split()[1], []).append(line)
    return [
        _made(tool, family, table, name, name.lower(), rules)
        for table, rules in tables.items()
        for name in rules
        if name.lower() in HOOKS and name.isupper()
    ]


def _made(tool, family, table, name, hook, rules):
    lines = _reached(name, rules, set())
    return {
        "tool": tool,
        "family": family,
        "table": table,
        "name": name,
        "hook": hook,
        "drops": any(_DROPS.search(_COMMENT.sub("", line)) for line in lines),
        "rewrites": any(_REWRITES.search(line) for line in lines),
    }


def _reached(name, rules, seen):
    """The rules of a chain and of those that it jumps to."""
    if name in seen or name not in rules:
        return []
    seen.add(name)
    lines = list(rules[name])
    for line in rules[name]:
        for one, other in _JUMPS.findall(line):
            lines += _reached(one or other, rules, seen)
    return lines
