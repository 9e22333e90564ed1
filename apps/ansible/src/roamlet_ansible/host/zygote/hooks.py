"""What a zygote changes before it imports anything else: the collector, and hooks of forks that no child needs."""

import gc
import os
import sys

gc_was_on = gc.isenabled()  # in a child it is again
gc.disable()  # while core's files are imported it would look through all of them ten times

REGISTER = getattr(os, "register_at_fork", None)
UNNEEDED = []  # calls of os.register_at_fork() that were not made
HOOKED = []  # what others may see of a fork, or who says that there is something to be seen
LOCKS = ("threading", "logging", "random")  # modules whose functions replace locks, and seed
LEAVES_OUT = sys.version_info < (3, 13)  # since then threads have handles, which this file does not know


def register_at_fork(**hooks):
    """os.register_at_fork() while the zygote imports: without the hooks that cost each child 200 pages for nothing.

    Those of threading and logging replace locks that another thread may have held, and there was none; what random does is
    done by forget_caches(). A child registers them for its own forks. All other hooks are registered.
    """
    if LEAVES_OUT and all(getattr(hook, "__module__", None) in LOCKS for hook in hooks.values()):
        UNNEEDED.append(hooks)
        return
    REGISTER(**hooks)
    name = sys._getframe(1).f_globals.get("__name__")
    if name not in LOCKS + ("concurrent.futures.thread",):
        HOOKED.append(name)


if REGISTER is not None:
    os.register_at_fork = register_at_fork
