"""A callback plugin: writes what the controller has loaded before the first worker is forked, to the file CONTROLLER_STATE."""

import json
import os
import sys

from ansible import constants
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: controller_state
type: notification
short_description: what the controller has loaded
description: Writes what the controller has loaded before the first worker is forked.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "controller_state"
    CALLBACK_NEEDS_ENABLED = True
    _done = False

    def v2_playbook_on_task_start(self, task, is_conditional):
        if self._done:
            return
        self._done = True
        state = {
            "plugins": sorted(name for name in sys.modules if ".plugins." in name),
            "broker": os.path.exists(os.path.join(constants.DEFAULT_LOCAL_TMP, "roamlet.socket-path")),
        }
        with open(os.environ["CONTROLLER_STATE"], "w", encoding="utf-8") as file:
            json.dump(state, file)
