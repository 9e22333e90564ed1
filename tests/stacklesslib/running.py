"""Tasklets that have run up to where they block."""

import roamlet
from roamlet import stackless


def running(function, *args):
    """A tasklet that has run up to where it blocks."""
    made = roamlet.tasklet(function)(*args)
    stackless.run()
    return made
