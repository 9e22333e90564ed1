"""A program: has packing.begin() look at a play, waits for what it has started, and prints the names of the packed modules as JSON.

Run in a process of its own, because core makes folders that stay until its process ends. Arguments: the folder of the run, the
play, and perhaps words: "tags" for a run of some tasks alone, "ended" to end the packing at once, "early" and "late"
for module_utils that come while it packs, and after that, when `stat` has been used, "memory" for a core with locks in
memory.
"""

import json
import os
import sys

from ansible import constants, context
from ansible.executor import module_common
from ansible.module_utils.common.collections import ImmutableDict
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play
from ansible.plugins.loader import add_all_plugin_dirs, init_plugin_loader
from ansible.vars.manager import VariableManager

from roamlet_ansible import packing
from roamlet_ansible.cores import packed


def main(folder: str, text: str, *words: str) -> None:
    init_plugin_loader([])
    constants.DEFAULT_LOCAL_TMP = folder
    context.CLIARGS = ImmutableDict(tags=["some"] if "tags" in words else ["all"], skip_tags=[])
    if "memory" in words:
        vars(module_common).pop("_locking", None)
    elif not hasattr(module_common, "_locking"):
        module_common._locking = None  # an older core: nothing else packs here
    add_all_plugin_dirs(folder)
    loader = DataLoader()
    loader.set_basedir(folder)
    play = Play.load(json.loads(text), variable_manager=VariableManager(loader=loader), loader=loader)
    packing.begin(play)
    started = list(packing._running)
    if "early" in words:
        bring_module_utils(folder)
    if "ended" not in words:
        for process in started:
            os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    if "late" in words:
        packed.Keeper(folder).used("ansible.modules.stat", b"", [])
        bring_module_utils(folder)
    packing.end()
    cache = os.path.join(folder, "ansiballz_cache")
    files = os.listdir(cache) if os.path.isdir(cache) else []
    names = {name.partition("-")[0].rpartition(".")[2] for name in files if not name.endswith((".lock", "-part"))}
    left = [process for process in started if os.path.exists(f"/proc/{process}")]
    json.dump({"started": len(started), "packed": sorted(names), "left": left}, sys.stdout)


def bring_module_utils(folder: str) -> None:
    """What a task may do, and what the worker of the next module does then."""
    with open(os.path.join(folder, "module_utils", "mine.py"), "w", encoding="ascii"):
        pass
    assert packed.others()
    packed.withdraw(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
