"""Gives joblib the backend "roamlet" with two places on this machine: a plugin for pytest, used by executors.py.

ROAMLET_DEFAULT in the environment makes it joblib's default, for suites of libraries that name no backend.
"""

import os
from functools import partial
from typing import Any

import joblib

from roamlet import remote
from roamlet.joblib import SHARED, Backend

local = partial(remote.local, modules=remote.Modules(prefer=dict.fromkeys(SHARED, "parent")))


class TwoPlaces(Backend):
    """As a user would write it for `hosts=["alpha"], each=2`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"hosts": [local], "each": 2, "pickle": True, **options})


joblib.register_parallel_backend("roamlet", TwoPlaces, make_default=bool(os.environ.get("ROAMLET_DEFAULT")))
