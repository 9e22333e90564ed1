"""Packs the modules of later tasks while the first one runs, in a process beside the workers. What runs keep is in cores/packed.py.

Core packs a module (AnsiballZ) in the first worker that needs it, which takes 0.12 s while nothing else goes on for that host. It
stores the result in the folder of the run, under a lock that it has for workers of several hosts. The process here calls the same
function of core for the modules of the play, and workers find what it has stored. Whatever cannot be foreseen, they pack as ever,
and modules that are not core's own, for which packing may print that module_utils are deprecated.
"""

import atexit
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from ansible import constants, context
from ansible.executor import module_common
from ansible.plugins.loader import action_loader, module_loader

from roamlet_ansible.cores import installed, packed

NICENESS = 5  # a worker that needs a module now goes first
MOST = 16  # modules
COPYING = ("stat", "copy", "file")
# The modules that action plugins of core run; without an action plugin, an action is a module.
OF_ACTIONS = {
    "assemble": ("assemble", "stat", "copy", "file"),
    "command": ("command",),
    "copy": COPYING,
    "fetch": ("stat", "slurp"),
    "gather_facts": ("setup",),
    "shell": ("command",),
    "template": COPYING,
    "unarchive": ("stat", "unarchive"),
    "uri": ("uri",),
}
# Tasks that bring others along, and perhaps folders of module_utils, which core packs from that moment on.
DYNAMIC = ("include_role", "include_tasks")
OWN = ("ansible.builtin.", "ansible.legacy.")

_running: list[int] = []  # processes of this one


def begin(play: Any) -> None:
    """Start packing what the tasks of a play will need, but for the first of them, whose worker does it now. Raises nothing.

    Called before the first worker of the play is forked. Does nothing where two processes could pack one module at once, as core
    before 2.19 has locks in memory, nor where module_utils of the user's own are, or could come to be, in the way.
    """
    with suppress(Exception):
        some_tasks = context.CLIARGS.get("skip_tags") or set(context.CLIARGS.get("tags") or ("all",)) != {"all"}
        if not hasattr(module_common, "_locking") or packed.others() or some_tasks:
            return
        tasks = list(_tasks(play))
        if any(_name(task.action) in DYNAMIC for task in tasks):
            return
        first = set(_paths(tasks[0]) if play.gather_facts is False else _found(("setup",)))
        # A condition may leave out a task, and with it all others for that kind of system.
        foreseen = dict.fromkeys(path for task in tasks if not task.when for path in _paths(task))
        lacking = [path for path in foreseen if path not in first and not _is_packed(path)]
        if lacking:
            _start(lacking[:MOST])


def _tasks(play: Any) -> Iterator[Any]:
    waiting = [*play.pre_tasks]
    for role in play.roles:
        waiting += role.get_task_blocks()
    waiting += [*play.tasks, *play.post_tasks]
    while waiting:
        one = waiting.pop(0)
        parts = [getattr(one, part, None) for part in ("block", "rescue", "always")]
        if parts[0] is None:
            yield one
        else:
            waiting[:0] = [task for part in parts for task in part or ()]


def _name(action: str) -> str:
    for prefix in OWN:
        action = action.removeprefix(prefix)
    return action


def _paths(task: Any) -> Iterator[str]:
    """The files of the modules of core that a task runs, as far as its action tells."""
    name = _name(task.action)
    if name in OF_ACTIONS:
        yield from _found(OF_ACTIONS[name])
    elif not action_loader.has_plugin(task.action, collection_list=task.collections):
        yield from _found((task.action,), task.collections)


def _found(names: Iterable[str], collections: Any = None) -> Iterator[str]:
    for name in names:
        found = module_loader.find_plugin_with_context(
            f"ansible.legacy.{name}" if "." not in name else name, mod_type=".py", collection_list=collections
        )
        path = str(found.plugin_resolved_path)
        if found.resolved and path.startswith(f"{installed.root()}/modules/") and path.endswith(".py"):
            yield path


def _is_packed(path: str) -> bool:
    folder = os.path.join(constants.DEFAULT_LOCAL_TMP, packed.OF_RUN)
    begin = f"ansible.modules.{_module(path)}-"
    return os.path.isdir(folder) and any(name.startswith(begin) for name in os.listdir(folder))


def _module(path: str) -> str:
    return os.path.basename(path).removesuffix(".py")


def _start(paths: list[str]) -> None:
    process = os.fork()
    if process:
        _running.append(process)
        if len(_running) == 1:
            atexit.register(end)
        return
    try:
        _pack(paths)
    finally:
        os._exit(0)


def _pack(paths: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with open(os.devnull, "wb") as nowhere:  # a worker says what is to be said, once
        for descriptor in (1, 2):
            os.dup2(nowhere.fileno(), descriptor)
    os.nice(NICENESS)
    for path in paths:
        if packed.others():  # a task has brought module_utils
            return
        packed.ahead(constants.DEFAULT_LOCAL_TMP, f"ansible.modules.{_module(path)}")
        with suppress(Exception):  # it is stored before the interpreter of this call is looked at
            module_common.modify_module(
                module_name=_module(path),
                module_path=path,
                module_args={},
                templar=None,
                task_vars={"ansible_python_interpreter": sys.executable},
                module_compression=constants.config.get_config_value("DEFAULT_MODULE_COMPRESSION"),
            )


def end() -> None:
    """End what packs for tasks that will not come: the folder of the run is about to be removed. Raises nothing."""
    while _running:
        process = _running.pop()
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(process, 0)
