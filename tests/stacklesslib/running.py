"""Tasklets that have run up to where they block."""

import weft
from weft import stackless


def running(function, *args):
    """A tasklet that has run up to where it blocks."""
    made = weft.tasklet(function)(*args)
    stackless.run()
    return made
