"""A module whose classes say themselves that they may come up. The common syntax of 2.7 and 3.6+."""

from roamlet import remote


@remote.register
class Reading(object):
    def __init__(self, value):
        self.value = value


@remote.register
class BrokenSensor(Exception):
    pass


def doubled(reading):
    return Reading(2 * reading.value)


def broken(text):
    raise BrokenSensor(text)
