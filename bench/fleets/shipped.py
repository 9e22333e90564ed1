"""What is called."""

import time


def number(value):
    return value + 1


def cpu():
    """Seconds of CPU time that this process has taken."""
    return time.process_time()
