"""What the controller can load once: otherwise each worker, which is forked for one task, loads it again for itself.

Everything of core is loaded by core's own loaders, which remember it. Nothing is replaced, and what cannot be loaded is left to the
workers, which say what is wrong with it.
"""

import gc
import os
from contextlib import suppress
from typing import Any

from ansible import constants, context
from ansible.plugins.loader import action_loader, connection_loader

from roamlet_ansible import packing
from roamlet_ansible.broker import start

OURS = "roamlet.remote."
# What each worker of ansible-core 2.19 and later imports for its first module, by name.
PROFILES = ("module_legacy_c2m", "module_legacy_m2c", "module_modern_c2m", "module_modern_m2c")


def begin() -> None:
    """Start the broker if the run is over one of our plugins, and load meanwhile what the workers would. Raises nothing.

    To be called before the first worker is forked, and after the log of the run, if there is one, has its name.
    """
    asked = _asked()
    if asked.startswith(OURS):
        with suppress(OSError):
            start.connect(constants.DEFAULT_LOCAL_TMP, os.getpid()).close()
    for name in {OURS + "ssh", asked}:
        if name.startswith(OURS):
            with suppress(Exception):
                connection_loader.get(name, class_only=True)
    with suppress(ImportError):
        # Workers import these inside of functions, where a task needs them.
        import roamlet_ansible.cores.commands
        import roamlet_ansible.host  # noqa: F401
    with suppress(ImportError):
        from ansible.module_utils._internal._json import get_serialization_module

        for profile in PROFILES:
            get_serialization_module(profile)
    _fill_caches()
    # What is there now is alive as long as the run: a worker's collector would look at all of it, which copies its pages.
    gc.freeze()


def _asked() -> str:
    return str(context.CLIARGS.get("connection") or constants.DEFAULT_TRANSPORT)


def play(play: Any) -> None:
    """Begin to pack the modules of a play if it is over one of our plugins. Called before its first worker is forked."""
    if _asked().startswith(OURS):
        packing.begin(play)


def end() -> None:
    """End what begin() and play() have begun beside the run, but for the broker, which ends after the controller."""
    packing.end()


def _fill_caches() -> None:
    """Have core, and Jinja, work out once what they remember: a worker would for itself what the one before it has forgotten."""
    with suppress(Exception):
        from ansible._internal._task import UnifiedTaskResult  # of 2.21

        for source_is_module in (True, False):
            UnifiedTaskResult.get_result_key_to_resolved_field_mapping(source_is_module=source_is_module)
        UnifiedTaskResult.from_action_result_dict({"changed": False}).as_result_dict()
    with suppress(Exception):
        from jinja2 import Environment

        for trim_blocks in (False, True):  # the second one is that of the action plugin template
            Environment(trim_blocks=trim_blocks, keep_trailing_newline=True).lexer  # noqa: B018 - it is stored


def action(task: Any) -> None:
    """Load the action plugin of a task that is about to be given to workers. Raises nothing."""
    with suppress(Exception):
        if action_loader.has_plugin(task.action, collection_list=task.collections):
            action_loader.get(task.action, class_only=True, collection_list=task.collections)
        else:
            action_loader.get("ansible.legacy.normal", class_only=True)
