"""Programs of public packages and of the standard library: saved at random places, and resumed. Run by test_public_programs.py.

Each program is a function that is deterministic, whatever the seed of hashes, and appends to `out` what comes of it.

python public_programs.py save NAME FOLDER COUNT SEED     what comes of it undisturbed, and what was refused; snapshots to FOLDER
python public_programs.py resume NAME FOLDER              what came of each snapshot in FOLDER, each in a process of its own
"""

import collections
import contextlib
import importlib
import json
import os
import random
import re
import signal
import sys
import warnings
from pathlib import Path

import library_programs
import package_programs

_PREFIX = "with_"
_PACKAGES = {  # what is installed, where that is not the name of the program
    "bs4": "beautifulsoup4", "babel": "babel", "constraint": "python-constraint", "dateutil": "python-dateutil", "fpdf": "fpdf2",
    "graphql": "graphql-core", "jsonpath": "jsonpath-ng", "markdown_it": "markdown-it-py", "more_itertools": "more-itertools",
    "ruamel": "ruamel.yaml", "yaml": "pyyaml",
}  # fmt: skip
_PASSES = 4  # runs of a program that its places are spread over
_COLD = 1  # snapshots of each program that are restored where nothing of the package was imported
_LIMIT = 60  # seconds for what is resumed
_EACH = 500  # instructions, for the length of a program


def _of(module):
    return {name[len(_PREFIX) :]: each for name, each in vars(module).items() if name.startswith(_PREFIX)}


PROGRAMS = {**_of(package_programs), **_of(library_programs)}


def installed():
    """What pip is asked for."""
    return sorted(_PACKAGES.get(name, name) for name in _of(package_programs))


def _plain(value):
    return json.loads(json.dumps(value))


def _reason(error):
    """Why something was refused, without what differs from place to place."""
    text = re.sub(r"^cannot save <.*?>: ", "", str(error).split("\n")[0], flags=re.DOTALL)
    return re.sub(r"0x[0-9a-f]+", "0x", text)[:300]


def save(name, folder, count, seed):
    """Stop the program after random numbers of instructions, and save it there. What it says when nobody interrupts it."""
    import roamlet
    from roamlet import snapshot

    function, chance, expected = PROGRAMS[name], random.Random(seed), []
    before = set(sys.modules)
    function(expected)  # imports what it needs: modules that are half made are no matter of snapshots
    imported = sorted(set(sys.modules) - before)
    length, out = 0, []
    tasklet = roamlet.tasklet(function)(out)
    while tasklet.alive:
        roamlet.run(_EACH)
        length += _EACH
        if tasklet.alive:
            tasklet.insert()
    saved, refused = 0, collections.Counter()
    disturbed = _plain(out) != _plain(expected)
    for part in range(_PASSES):
        fewer = sorted(chance.randrange(1, max(length, count)) for _ in range(count // _PASSES))
        out, at = [], 0
        tasklet = roamlet.tasklet(function)(out)
        for place in fewer:
            if place <= at:
                continue
            roamlet.run(place - at)
            at = place
            if not tasklet.alive:
                break
            try:
                data = snapshot.dumps((tasklet, out))
            except snapshot.CannotSave as error:
                refused[_reason(error)] += 1
            else:
                (Path(folder) / f"{part}-{saved:03}").write_bytes(data)
                saved += 1
            tasklet.insert()
        while tasklet.alive:
            roamlet.run()
        disturbed = disturbed or _plain(out) != _plain(expected)
    (Path(folder) / "imported").write_text(json.dumps(imported))
    print(json.dumps({"expected": _plain(expected), "disturbed": disturbed, "length": length, "refused": refused}))


def resume(name, folder):
    """One line for each snapshot: the file, and how it ended."""
    import roamlet.snapshot  # so that not each of the processes has to

    del name, roamlet
    files = sorted(each for each in Path(folder).iterdir() if each.name != "imported")
    for file in files[::-1][:_COLD]:
        print(json.dumps([file.name, _apart(file)]), flush=True)
    for module in json.loads((Path(folder) / "imported").read_text()):
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    for file in files[::-1][_COLD:]:
        print(json.dumps([file.name, _apart(file)]), flush=True)


def _apart(file):
    """How it ends in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(_LIMIT)
        try:
            said = json.dumps(_resumed(file))
        except BaseException as error:
            said = json.dumps({"raised": f"{type(error).__name__}: {error}"[:500]})
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as stream:
        said = stream.read()
    _, status = os.waitpid(child, 0)
    if status:
        return {"crashed": status}
    return json.loads(said)


def _resumed(file):
    import roamlet
    from roamlet import snapshot

    try:
        tasklet, out = snapshot.loads(file.read_bytes())
    except snapshot.BadSnapshot as error:
        return {"refused": _reason(error)}
    tasklet.insert()  # it was interrupted, and is paused
    while tasklet.alive:
        roamlet.run()
    return {"out": _plain(out)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "save":
        save(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        resume(sys.argv[2], sys.argv[3])
