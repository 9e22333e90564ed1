"""A module that can be imported where it lies, and fails where it is sent. The common syntax of 2.7 and 3.6+."""

if __file__.startswith("roamlet:"):
    raise ValueError("not on the target")


class Stays(object):
    pass
