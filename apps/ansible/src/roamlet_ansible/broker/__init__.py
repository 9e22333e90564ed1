"""The broker: one process for each run of a controller, which holds the contexts that all of the run's workers use.

`protocol`, `client` and `start` are what a worker imports, and cost it little: the standard library only, no roamlet.
"""
