"""What a run says: the verdict, the table on the terminal, and the page of the documentation."""

from collections.abc import Iterable, Mapping

from apps.ansible.judges.judging import COLUMNS, Result
from apps.ansible.judges.targets import Targets

Rows = Mapping[str, Mapping[str, Result]]  # target, then column
Recorded = Mapping[str, Mapping[str, bool]]  # column, then target

STOCK = [name for name, column in COLUMNS.items() if column.is_stock]


def rows(results: Iterable[Result]) -> dict[str, dict[str, Result]]:
    """Results by target and column."""
    found: dict[str, dict[str, Result]] = {}
    for result in results:
        found.setdefault(result.target, {})[result.column] = result
    return found


def passes_with_stock(target: str, measured: Mapping[str, Result], recorded: Recorded) -> bool | None:
    """Whether a target passes with stock: in this run where it was run, else by what was recorded; None if unknown.

    It passes when it passes in one of stock's columns, so roamlet is held to the better one.
    """
    known = []
    for column in STOCK:
        if column in measured:
            known.append(measured[column].passed)
        elif target in recorded.get(column, {}):
            known.append(recorded[column][target])
    return any(known) if known else None


def regressions(results: Rows, recorded: Recorded) -> list[str]:
    """The targets that pass with stock and fail in another column."""
    return [
        target
        for target, measured in results.items()
        if passes_with_stock(target, measured, recorded)
        and any(not result.passed for name, result in measured.items() if name not in STOCK)
    ]


def undecided(results: Rows, recorded: Recorded) -> list[str]:
    """The targets that fail in another column, and of which nothing says whether they pass with stock."""
    return [
        target
        for target, measured in results.items()
        if passes_with_stock(target, measured, recorded) is None
        and any(not result.passed for name, result in measured.items() if name not in STOCK)
    ]


def broken(results: Rows) -> list[str]:
    """The targets whose sandbox did not work: they say nothing about any plugin."""
    return [target for target, measured in results.items() if any(r.outcome == "broken" for r in measured.values())]


def exit_code(results: Rows, recorded: Recorded) -> int:
    """0 when nothing that passes with stock fails otherwise, 1 when something does, 2 when nothing could be judged."""
    if regressions(results, recorded):
        return 1
    return 2 if not results or broken(results) else 0


def line(target: str, measured: Mapping[str, Result], columns: Iterable[str], recorded: Recorded) -> str:
    """One row for the terminal."""
    cells = []
    for name in columns:
        result = measured.get(name)
        if result:
            cells.append(f"{result.outcome} {result.seconds:.0f} s")
        else:
            known = recorded.get(name, {}).get(target)
            cells.append("-" if known is None else "(passed)" if known else "(failed)")
    return f"{target:<46}" + "".join(f"{cell:<18}" for cell in cells).rstrip()


def heading(columns: Iterable[str]) -> str:
    """The first row for the terminal."""
    return f"{'target':<46}" + "".join(f"{name:<18}" for name in columns).rstrip()


def summary(results: Rows, recorded: Recorded, columns: Iterable[str]) -> list[str]:
    """The last lines for the terminal."""
    said = []
    for name in columns:
        ran = [measured[name] for measured in results.values() if name in measured]
        if ran:
            passed = sum(result.passed for result in ran)
            said.append(f"{name}: {passed} of {len(ran)} passed, {sum(r.seconds for r in ran):.0f} s")
    if any(name not in STOCK for name in columns):
        worse = regressions(results, recorded)
        if unclear := undecided(results, recorded):
            said.append(f"fail with roamlet, and were not run with stock: {', '.join(unclear)}")
        said.append(f"pass with stock and fail with roamlet: {', '.join(worse) or 'none'}")
    if without := broken(results):
        said.append(f"the sandbox did not work for: {', '.join(without)}")
    return said


PAGE = """\
# The judges of `roamlet.remote.ssh`

ansible-core brings integration tests in its source distribution: `test/integration/targets`, a folder for each subject.
`make judges-ansible` runs them as root, each one in a sandbox of its own (an overlay of `/` in memory; mounts, network and process
ids of its own; an sshd on the loopback device and no way outside), with `ansible_connection: ssh` and with
`ansible_connection: roamlet.remote.ssh`. The inventory is the same but for that word; where a target's own inventory or play says
`ansible_connection: ssh`, it is replaced too. The exit code is 1 when a target that passes with stock fails with roamlet.

```console
# make judges-ansible ARGS='--core 2.21'
# make judges-ansible ARGS='--core 2.16 --only copy,fetch --columns pipelining,roamlet'
```

| Option | Meaning |
| --- | --- |
| `--core 2.21` | one line of ansible-core; all of them without it |
| `--only NAMES` | these targets, with commas between them |
| `--columns NAMES` | of `ssh`, `pipelining` (ssh with `ansible_pipelining: yes`) and `roamlet`; `stock.json` has what stock gave |
| `--jobs N` | this many sandboxes at a time; 1 without it |
| `--resume` | take over results of an earlier run with the same core, and for roamlet with the same sources |
| `--record` | run nothing; put the results that are kept into the data files |
| `--page` | run nothing; write this page from the data files and the results that are kept |

Logs and results are kept in `build/ansible-judges/results/LINE/COLUMN`. In `apps/ansible/judges`, `targets.toml` says which targets
are run, and has the reason for each one that is not; `stock.json` and `results.json` are the data files: what stock gave, and what
roamlet gave with which sources.

In the tables below, seconds are one run's on a machine that did other work too, so they compare roughly. Sessions are those
that sshd opened; a target without one tests the controller alone. In parentheses is what an earlier run with stock gave, and what
roamlet gave with earlier sources.

Mitogen's own playbooks are not run here: its source distribution on the package index does not contain them.
"""


def is_of_earlier_sources(result: Result, now: str) -> bool:
    """Whether a result of roamlet is of other sources than the present ones."""
    return result.column not in STOCK and result.sources != now


def _cell(result: Result | None, known: bool | None, now: str) -> str:
    if result is None:
        return "" if known is None else "(passed)" if known else "(failed)"
    said = f"{result.outcome}, {result.seconds:.0f} s"
    return f"({said})" if is_of_earlier_sources(result, now) else said


def _counts(results: Rows, recorded: Recorded, chosen: list[str], now: str) -> str:
    counts = []
    for column in COLUMNS:
        ran = [measured[column] for target in chosen if column in (measured := results.get(target, {}))]
        fresh = [result.passed for result in ran if not is_of_earlier_sources(result, now)]
        older = [result.passed for result in ran if is_of_earlier_sources(result, now)]
        earlier = [
            passed for target, passed in recorded.get(column, {}).items() if column not in results.get(target, {})
        ]
        for said, passed in (
            (column, fresh),
            (f"{column} with earlier sources", older),
            (f"{column} in an earlier run", earlier),
        ):
            if passed:
                counts.append(f"{said}: {sum(passed)} of {len(passed)} passed")
    if not counts:
        return ""
    worse = regressions(results, recorded)
    said = f"Pass with stock and fail with roamlet: {', '.join(worse) or 'none'}."
    if unclear := undecided(results, recorded):
        said += f" Fail with roamlet, and were not run with stock: {', '.join(unclear)}."
    return f"{'; '.join(counts)}. {said}\n\n"


def _not_run(results: Rows, recorded: Recorded, chosen: list[str]) -> str:
    """The targets of a core that have no result and had none, by column, so that nothing looks as if it had been run."""
    parts = []
    for column in COLUMNS:
        known = recorded.get(column, {})
        names = [target for target in chosen if column not in results.get(target, {}) and target not in known]
        if names:
            listed = "all" if len(names) == len(chosen) else ", ".join(f"`{name}`" for name in names)
            parts.append(f"Not run with {column}, of {len(chosen)}: {listed}.\n")
    return "\n".join(parts)


def _table(results: Rows, recorded: Recorded, chosen: list[str], now: str) -> str:
    """A row for each target."""
    parts = [f"| target | sessions, stock | {' | '.join(COLUMNS)} |\n| --- | --- |{' --- |' * len(COLUMNS)}\n"]
    for target in chosen:
        measured = results.get(target, {})
        sessions = next((str(measured[column].sessions) for column in STOCK if column in measured), "")
        cells = [_cell(measured.get(column), recorded.get(column, {}).get(target), now) for column in COLUMNS]
        parts.append(f"| {target} | {sessions} | {' | '.join(cells)} |\n")
    return "".join(parts)


def page(targets: Targets, lines: Mapping[str, tuple[Rows, Recorded, list[str]]], now: str) -> str:
    """The page: a table for each core line, from its results, what was recorded of stock, and the targets that it has.

    `now` is the digest of roamlet's present sources. Results of other ones are in parentheses.
    """
    parts = [PAGE]
    for name, (results, recorded, present) in lines.items():
        core = targets.cores[name]
        known = set(results).union(*(recorded[column] for column in recorded))
        chosen = targets.chosen(present)
        parts.append(f"\n## ansible-core {core.version} on Python {core.python}\n\n")
        rows_of = [target for target in chosen if target in known]
        if rows_of:
            parts.append(_counts(results, recorded, rows_of, now) + _table(results, recorded, rows_of, now) + "\n")
        parts.append(_not_run(results, recorded, chosen))
    if targets.adjusted:
        parts.append(
            "\n## Changed before the run, in every column alike\n\n| target | reason | in the file | text | instead of |\n"
        )
        parts.append("| --- | --- | --- | --- | --- |\n")
        for target, changes in targets.adjusted.items():
            for name, old, new in changes:
                parts.append(f"| {target} | {targets.adjusted_why[target]} | `{name}` | `{new}` | `{old}` |\n")
    if targets.fails:
        parts.append("\n## Fail with stock, too\n\n| target | reason |\n| --- | --- |\n")
        parts.extend(f"| {target} | {reason} |\n" for target, reason in targets.fails.items())
    parts.append("\n## Left out\n\n| targets | reason |\n| --- | --- |\n")
    reasons: dict[str, list[str]] = {}
    for target, reason in targets.left_out.items():
        reasons.setdefault(reason, []).append(target)
    for reason, names in reasons.items():
        parts.append(f"| {', '.join(f'`{name}`' for name in names)} | {reason} |\n")
    return "".join(parts)
