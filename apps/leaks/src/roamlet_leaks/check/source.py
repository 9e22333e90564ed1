"""One file: its source to findings."""

import ast
import warnings

from roamlet_leaks.cases import CASES
from roamlet_leaks.check.rules import Hit, hits
from roamlet_leaks.check.scopes import survey
from roamlet_leaks.finding import Finding
from roamlet_leaks.keep import is_kept, kept_lines


def check_source(text: str, path: str = "<source>") -> list[Finding]:
    """The places in this source text that keep exceptions alive, by line. Runs nothing of it.

    Raises SyntaxError for what this Python cannot parse, and RecursionError or MemoryError for what is nested too deeply.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes and comparisons: they belong to the file's own compilation
        tree = ast.parse(text, path)
    module = survey(tree)
    kept = kept_lines(text)
    found = [hit for scope in module.scopes for hit in _without_doubles(list(hits(scope, module)))]
    findings = [_finding(same, path) for same in _by_place(found) if not is_kept(kept, same[0].node, same[0].starts)]
    return sorted(findings, key=lambda finding: (finding.line, finding.column, finding.code))


def _without_doubles(found: list[Hit]) -> list[Hit]:
    """Leave out what is mended with another finding of the same function."""
    raised = {hit.name for hit in found if hit.code in ("RL002", "RL009")}
    places = {(id(hit.node), hit.name) for hit in found if hit.code not in ("RL006", "RL009")}
    return [
        hit
        for hit in found
        if not (hit.name.endswith(("__cause__", "__context__")) and hit.name.partition(".")[0] in raised)
        and not (hit.code in ("RL006", "RL009") and (id(hit.node), hit.name) in places)
    ]


def _by_place(found: list[Hit]) -> list[list[Hit]]:
    """The findings of one case at one place together: what is named there comes first."""
    groups: dict[tuple[int, str], dict[str, Hit]] = {}
    for hit in found:
        groups.setdefault((id(hit.node), hit.code), {}).setdefault(hit.name, hit)
    return [sorted(group.values(), key=lambda hit: (not _is_named(hit), hit.name)) for group in groups.values()]


def _is_named(hit: Hit) -> bool:
    root = hit.name.partition(".")[0]
    return any(isinstance(node, ast.Name) and node.id == root for node in ast.walk(hit.node))


def _finding(same: list[Hit], path: str) -> Finding:
    hit = same[0]
    case = CASES[hit.code]
    names = ", ".join(dict.fromkeys(each.name for each in same))
    return Finding(
        kind="risk",
        code=hit.code,
        path=path,
        line=hit.node.lineno,
        column=hit.node.col_offset + 1,
        function=hit.function,
        name=names,
        message=case.message(names),
        mend=case.mended(names),
    )
