"""Modules that are certain to fail on the target, because each import of them comes to an extension module.

Sending numpy to a machine that has none moves megabytes of sources, only to end in an error about numpy's
internals. An error before that, which names what the caller's own code imports, shows what to change.
"""

from collections.abc import Collection, Mapping

from roamlet.remote.modules import main_script
from roamlet.remote.modules.finding.sources import Location
from roamlet.remote.modules.imports.scan import prefixes, scan, scan_certain


def among(modules: Mapping[str, Location], native: Collection[str]) -> dict[str, str]:
    """Which of the modules fail for sure, with the module that each one fails for; `native` are the extension modules.

    An import at a module's own level is certain unless it is in a condition, loop or `try`; and what lies in a package
    that fails. Everything else may go well.
    """
    importers: dict[str, list[str]] = {}
    for name, location in modules.items():
        for one in scan(location).at_import:
            for target in (*prefixes(one.base), *(f"{one.base}.{short}" for short in one.names)):
                if target in modules or target in native:
                    importers.setdefault(target, []).append(name)
        if parent := name.rpartition(".")[0]:
            importers.setdefault(parent, []).append(name)
    certain: dict[str, frozenset[str]] = {}
    result: dict[str, str] = {}
    pending = [name for name in importers if name in native]
    while pending:
        target = pending.pop()
        for name in importers.get(target, ()):
            if name in result or name in native:
                continue
            if name not in certain:
                certain[name] = frozenset(_certain_targets(modules[name]))
            if target in certain[name] or target == name.rpartition(".")[0]:
                result[name] = target
                pending.append(name)
    return result


def explain(name: str, causes: Mapping[str, str], reasons: Mapping[str, str]) -> str:
    """One sentence: what the module fails for, and why that cannot travel."""
    first = target = causes[name]
    while target in causes:
        target = causes[target]
    subject = "the main script" if name == main_script.TRAVELS_AS else name
    does = "lies in" if first == name.rpartition(".")[0] else "imports"
    through = "" if first == target else f", which needs {target}"
    return f"{subject} {does} {first}{through}; {reasons.get(target, '')}"


def _certain_targets(location: Location) -> set[str]:
    targets: set[str] = set()
    for one in scan_certain(location):
        targets.update(prefixes(one.base))
        targets.update(f"{one.base}.{short}" for short in one.names)
    return targets
