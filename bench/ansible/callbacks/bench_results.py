"""A callback plugin of Ansible: writes the result of each task on each host as a line of JSON to the file BENCH_RESULTS.

What differs from run to run is left in: bench/ansible/results.py has the list of what is not compared. Runs in ansible-playbook.
"""

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: bench_results
type: notification
short_description: results of all tasks as lines of JSON
description: Writes the result of each task on each host as a line of JSON to the file that BENCH_RESULTS names.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "bench_results"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._tasks: dict[str, int] = {}
        self._out = open(os.environ["BENCH_RESULTS"], "w", encoding="utf-8")  # noqa: SIM115 - as long as the process

    def _write(self, status: str, result: Any) -> None:
        task = getattr(result, "task", None) or result._task
        host = getattr(result, "host", None) or result._host
        taken = getattr(result, "result", None) or result._result
        number = self._tasks.setdefault(task._uuid, len(self._tasks))
        line = {"task": number, "action": task.action, "host": host.get_name(), "status": status, "result": taken}
        self._out.write(json.dumps(line, default=_other) + "\n")
        self._out.flush()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self._tasks.setdefault(task._uuid, len(self._tasks))

    def v2_runner_on_ok(self, result: Any) -> None:
        self._write("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._write("failed", result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._write("skipped", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._write("unreachable", result)


def _other(value: Any) -> dict[str, str]:
    """A value that JSON has no word for, with its type, so that a side that changes the type is seen."""
    return {"type": type(value).__name__, "value": str(value)}
