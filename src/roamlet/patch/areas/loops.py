"""The area `asyncio`: its event loops block their tasklet only, in whatever library; other tasklets may call them.

What set_event_loop() sets is the tasklet's.
"""

from types import ModuleType
from typing import Any

from roamlet.patch._after_import import after_import
from roamlet.patch.changes import Changes


def apply(changes: Changes) -> None:
    """Change the methods of asyncio's selector loops, now or when asyncio is imported, which takes long and few programs need.

    Of loops that were made before the selectors alone are changed. Those that were made meanwhile keep the methods when the
    changes are undone. Loops written in C (uvloop's) are left alone: roamlet.aio.portal() gives each a thread.
    """

    def change(_: ModuleType) -> None:
        from asyncio import events

        from roamlet.aio._loop import OF_SELECTOR_LOOPS, OF_UNIX_LOOPS, SELECTOR_LOOP, UNIX_LOOP, init, keep_methods

        changes.on_undo(keep_methods)
        changes.replace(SELECTOR_LOOP, "__init__", init(SELECTOR_LOOP.__init__, waits=True))
        for owner, methods in ((SELECTOR_LOOP, OF_SELECTOR_LOOPS), (UNIX_LOOP, OF_UNIX_LOOPS)):
            for name, make in methods.items():
                changes.replace(owner, name, make(getattr(owner, name)))
        _give_each_tasklet_its_loop(changes, events)

    after_import(changes, "asyncio", change)


def _give_each_tasklet_its_loop(changes: Changes, events: Any) -> None:
    """Change where policies keep the loop that was set, also in the policy that is there. Main tasklets keep theirs."""
    from roamlet.aio._policy import for_tasklets

    base = getattr(events, "BaseDefaultEventLoopPolicy", None) or events._BaseDefaultEventLoopPolicy
    changes.replace(base, "_Local", for_tasklets(base._Local))
    policy = events._event_loop_policy
    original = getattr(policy, "_local", None)
    if original is not None and type(original) is base._Local.original:
        policy._local = ours = base._Local(original)
        changes.on_undo(lambda: setattr(policy, "_local", original) if policy._local is ours else None)
