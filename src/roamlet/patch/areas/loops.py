"""The area `asyncio`: its event loops block their tasklet only, in whatever library; other tasklets may call them."""

from types import ModuleType

from roamlet.patch._after_import import after_import
from roamlet.patch.changes import Changes


def apply(changes: Changes) -> None:
    """Change the methods of asyncio's selector loops, now or when asyncio is imported, which takes long and few programs need.

    Of loops that were made before the selectors alone are changed. Loops written in C (uvloop's) are left alone:
    roamlet.aio.portal() gives each a thread.
    """

    def change(_: ModuleType) -> None:
        from roamlet.aio._loop import OF_SELECTOR_LOOPS, OF_UNIX_LOOPS, SELECTOR_LOOP, UNIX_LOOP, init

        changes.replace(SELECTOR_LOOP, "__init__", init(SELECTOR_LOOP.__init__, waits=True))
        for owner, methods in ((SELECTOR_LOOP, OF_SELECTOR_LOOPS), (UNIX_LOOP, OF_UNIX_LOOPS)):
            for name, make in methods.items():
                changes.replace(owner, name, make(getattr(owner, name)))

    after_import(changes, "asyncio", change)
