"""A kill -9 and a power cut at every step of what the script writes: what was known is known afterwards, or the new time is.

Which operations it does is recorded from the script as it runs, under dash with coreutils and under busybox. What a disk may
hold after each of them is in crash.py; each such disk is given to the script at its next boot.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from apps.clock.tests import crash
from apps.clock.tests.machine import Machine, line

SAVED = 1800000000  # 2027-01-15
FUTURE = SAVED + 5 * 365 * 86400
OLD = 1735689600  # the age of the script, where nothing is saved
LEFT = f".new.{2**22 + 1}"  # of a process that cannot be


@dataclass(frozen=True)
class Case:
    """Stamps before the save, the time that the next boot would go by before and after it, and in the middle of it."""

    stamps: dict[str, int | str] | None
    before: int
    after: int
    command: str = "save"
    synchronised: bool = False
    between: tuple[int, ...] = ()


CASES = {
    "the first": Case(None, OLD, SAVED),
    "in an empty folder": Case({}, OLD, SAVED),
    "the second": Case({"stamp": SAVED - 900}, SAVED - 900, SAVED),
    "any other": Case(
        {"stamp": SAVED - 900, "stamp.1": SAVED - 1800, "installed": SAVED - 9000}, SAVED - 900, SAVED, "tick"
    ),
    "over a damaged one": Case({"stamp": "corrupt\n", "stamp.1": SAVED - 900}, SAVED - 900, SAVED),
    "behind one that was killed": Case({"stamp": SAVED - 900, LEFT: "roamlet-clock 1"}, SAVED - 900, SAVED),
    "of the installation": Case(None, OLD, SAVED, "begin"),
    "down, from a future": Case(
        {"stamp": FUTURE, "stamp.1": FUTURE - 900, "installed": SAVED - 9000},
        FUTURE,
        SAVED,
        "tick",
        True,
        (FUTURE - 900,),
    ),
    "down, from an installation in a future": Case(
        {"stamp": SAVED - 900, "stamp.1": FUTURE, "installed": FUTURE}, FUTURE, SAVED, "tick", True
    ),
}


def prepare(machine: Machine, case: Case) -> crash.Contents:
    """The machine before the save; returns what its disk holds."""
    shutil.rmtree(machine.stamps, ignore_errors=True)
    if case.stamps is not None:
        machine.stamps.mkdir()
        for name, content in case.stamps.items():
            machine.stamp(name, content)
    if case.synchronised:
        machine.synchronised()
    machine.clock = SAVED
    return crash.on_disk(machine.stamps)


def recorded(machine: Machine, case: Case, strace: list[str]) -> list[crash.Operation]:
    return crash.record(strace, [*machine.shell, str(machine.script), case.command], machine.around, machine.folder)


def found_after(machine: Machine, contents: crash.Contents) -> tuple[int, str]:
    """What the next boot sets the clock to on such a disk, and what is wrong with the disk after the save that follows."""
    shutil.rmtree(machine.stamps, ignore_errors=True)
    for path, data in sorted(contents.items()):
        at = Path(path)
        if data is None:
            at.mkdir()
        else:
            at.write_bytes(data)
    (machine.folder / "sets").unlink(missing_ok=True)
    (machine.root / "run/systemd/timesync/synchronized").unlink(missing_ok=True)
    machine.clock = 100
    ran = machine.run("load")
    machine.clock = loaded = machine.clock + 900
    saved = machine.run("save")
    stamped = machine.stamped()
    wrong = [] if ran.status == 0 and saved.status == 0 else [ran.said, saved.said]
    if stamped["stamp"] != line(loaded):
        wrong.append(f"stamp has {stamped['stamp']!r} after the next save, at {loaded}")
    if extra := set(stamped) - {"stamp", "stamp.1", "installed"}:
        wrong.append(f"{extra} stay")
    return loaded - 900, "; ".join(wrong)


def faults(machine: Machine, case: Case, before: crash.Contents, operations: list[crash.Operation]) -> list[str]:
    """What goes wrong after a kill or a power cut at any step; nothing, if all is well."""
    ways = {"kill": crash.after_kill, "power cut": crash.after_power_cut}
    answers: dict[frozenset[tuple[str, bytes | None]], tuple[int, str]] = {}
    told = []
    for way, after in ways.items():
        for count, found in after(before, operations):
            # What is in a file that was left is never looked at: the disks that differ in nothing else are tried once.
            contents = {
                left: b"roamlet-clock 1 18" if left != path else data
                for path, data in found.items()
                for left in [re.sub(r"\.new\.\d+$", LEFT, path)]
            }
            key = frozenset(contents.items())
            if key not in answers:
                answers[key] = found_after(machine, contents)
            loaded, wrong = answers[key]
            allowed = {case.after} if count == len(operations) else {case.before, case.after, *case.between}
            if loaded not in allowed or wrong:
                told.append(f"{way} after {count} of {len(operations)}: {loaded}, {wrong}; {contents}")
    return told


@pytest.mark.parametrize("kind", CASES)
def test_a_kill_or_a_power_cut_at_any_step_loses_nothing(machine, kind, strace):
    case = CASES[kind]
    before = prepare(machine, case)
    operations = recorded(machine, case, strace)
    assert {"create", "write", "sync", "rename"} <= {operation.what for operation in operations}
    assert faults(machine, case, before, operations) == []


BROKEN = {
    "the file is not synced": ('elif ! reason=$(sync "$fresh" 2>&1); then', "elif false; then"),
    "the folder is not synced": ('if ! reason=$(sync "$folder" 2>&1); then', "if false; then"),
    "the folder above is not synced": ('&& sync "${folder%/*}"', ""),
    "it is written in place": ('mv -f "$fresh" "$folder/$1" 2>&1', 'echo "$line" >"$folder/$1"'),
    "the one before is not kept": ('mv -f "$folder/stamp" "$folder/stamp.1"', 'rm "$folder/stamp"'),
    "the one before is lowered first": (
        "    put stamp || return 1\n",
        '    rm -f "$folder/stamp.1"; put stamp || return 1\n',
    ),
    "what was left is not swept": ('            rm -f "$file"\n', "            :\n"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_script_that_forgets_one_of_its_steps_is_found_out(one_machine, kind, strace):
    """So that what finds nothing in the right one is known to find something."""
    right, wrong = BROKEN[kind]
    text = one_machine.script.read_text()
    assert text.count(right) == 1
    one_machine.script = one_machine.folder / "roamlet-clock"
    one_machine.script.write_text(text.replace(right, wrong))
    found = []
    for name in ("the first", "any other", "behind one that was killed"):
        case = CASES[name]
        before = prepare(one_machine, case)
        found += faults(one_machine, case, before, recorded(one_machine, case, strace))
        if found:
            break
    assert found


def test_the_model_knows_what_a_power_cut_may_leave():
    """Written, not synced, renamed over another: every mixture, and nothing else."""
    before: crash.Contents = {"/d": None, "/d/a": b"old"}
    operations = [
        crash.Operation("create", "/d/b"),
        crash.Operation("write", "/d/b", data=b"new!"),
        crash.Operation("rename", "/d/b", to="/d/a"),
    ]
    seen = {contents.get("/d/a") for count, contents in crash.after_power_cut(before, operations) if count == 3}
    assert seen == {b"old", b"new!", b"", b"ne", b"\0\0\0\0", b"ne\0\0"}
    synced = [*operations[:2], crash.Operation("sync", "/d/b"), operations[2]]
    seen = {contents.get("/d/a") for _, contents in crash.after_power_cut(before, synced)}
    assert seen == {b"old", b"new!"}
    synced.append(crash.Operation("sync", "/d"))
    seen = {contents.get("/d/a") for count, contents in crash.after_power_cut(before, synced) if count == 5}
    assert seen == {b"new!"}


def test_the_model_refuses_what_it_does_not_know(tmp_path):
    with pytest.raises(crash.CannotTell, match="truncate"):
        list(crash.parsed(f'7 truncate("{tmp_path}/x", 5) = 0\n', tmp_path))
    text = f'7 rename("{tmp_path}/x" <unfinished ...>\n8 write(1<{tmp_path}/x>, "a\\n", 2) = 2\n'
    text += f'7 <... rename resumed>, "{tmp_path}/y") = 0\n7 unlink("{tmp_path}/z") = -1 ENOENT (No)\n7 unlink("/etc/z") = 0\n'
    assert [operation.what for operation in crash.parsed(text, tmp_path)] == ["write", "rename"]
