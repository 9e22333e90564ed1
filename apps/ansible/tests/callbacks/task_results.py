"""A callback plugin of Ansible: appends the result of each task to the file TASK_RESULTS, a line of JSON each."""

import json
import os

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: task_results
type: notification
short_description: results of all tasks as lines of JSON
description: For the tests of roamlet-ansible.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "task_results"
    CALLBACK_NEEDS_ENABLED = True

    def _write(self, status, result):
        line = {
            "host": result._host.get_name(),
            "task": result._task.get_name(),
            "status": status,
            "result": result._result,
        }
        with open(os.environ["TASK_RESULTS"], "a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")

    def v2_runner_on_ok(self, result):
        self._write("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._write("failed", result)

    def v2_runner_on_skipped(self, result):
        self._write("skipped", result)

    def v2_runner_on_unreachable(self, result):
        self._write("unreachable", result)
