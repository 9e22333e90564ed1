"""What joblib calls in the contexts of the tests."""

import os
import sys
import time


def waits(seconds):
    time.sleep(seconds)
    return os.getpid()


def item(array, index):
    return float(array[index])


def item_later(array, index):
    time.sleep(0.1)
    return item(array, index)


def written(array):
    array += 1
    return float(array[0])


def broken(token, array):
    raise OSError("no room")


def kept(_=None):
    return len(sys.modules["roamlet.wire.calls.executor"]._kept)
