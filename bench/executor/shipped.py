"""What is called."""

import time


def nothing():
    pass


def compute(seconds):
    """Use so much CPU time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
