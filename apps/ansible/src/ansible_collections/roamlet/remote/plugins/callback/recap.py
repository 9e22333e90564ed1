"""callbacks_enabled = roamlet.remote.recap."""

import os
import time
from pathlib import Path

from ansible import constants
from ansible.plugins.callback import CallbackBase

from roamlet_ansible import preloading, tally
from roamlet_ansible.broker.start import LOG
from roamlet_ansible.connection.recording import write

DOCUMENTATION = """
name: recap
type: aggregate
short_description: what each task has cost over roamlet, and which way it went
description:
  - Prints after the play recap the time, the turnarounds and the bytes of each task, slowest first, and whether its modules
    ran in the warm Python, as a command, or over core's own plugin, with the reason.
  - Loads plugins before the workers are forked, as the callback C(roamlet.remote.preload) does.
author: The roamlet authors
version_added: 0.1.0
requirements:
  - enabling in configuration
options:
  log:
    description:
      - The file in which the log of the run is kept. Lines are appended. C(roamlet ansible doctor --log) reads it.
      - Without one, the log is in Ansible's temporary folder, and is removed with it.
    type: path
    env:
      - name: ROAMLET_ANSIBLE_LOG
    ini:
      - section: roamlet
        key: log
  tasks:
    description: The number of tasks to print; all are in the sum.
    type: int
    default: 20
    env:
      - name: ROAMLET_ANSIBLE_TASKS
    ini:
      - section: roamlet
        key: tasks
"""

DOCTOR = "roamlet.remote.doctor"


class CallbackModule(CallbackBase):
    """Records the names and times of tasks; what they cost, the workers record in the same file."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "roamlet.remote.recap"
    CALLBACK_NEEDS_ENABLED = True

    def set_options(self, task_keys=None, var_options=None, direct=None):
        """As of core's callback plugins; called once, before any worker is forked."""
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        self._log = self.get_option("log") or os.path.join(constants.DEFAULT_LOCAL_TMP, "roamlet.log")
        os.environ[LOG] = self._log  # the workers and the broker find it there
        self._begins_at = os.path.getsize(self._log) if os.path.exists(self._log) else 0

    def v2_playbook_on_start(self, playbook):
        preloading.begin()

    def v2_playbook_on_play_start(self, play):
        preloading.begin()  # `ansible` has plays, and no playbook
        preloading.play(play)

    def v2_playbook_on_task_start(self, task, is_conditional):
        preloading.action(task)
        write(self._log, task=str(task._uuid), name=task.get_name().strip(), begins=time.time())

    def v2_playbook_on_handler_task_start(self, task):
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_ok(self, result):
        self._ended(result, "ok")

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._ended(result, "failed")

    def v2_runner_on_unreachable(self, result):
        self._ended(result, "unreachable")

    def v2_runner_on_skipped(self, result):
        self._ended(result, "skipped")

    def _ended(self, result, status):
        task = getattr(result, "task", None) or result._task
        line = {"task": str(task._uuid), "ends": time.time(), "status": status}
        if task.action == DOCTOR:
            host = getattr(result, "host", None) or result._host
            given = getattr(result, "result", None) or result._result
            line |= {"doctor": str(host.get_name()), "found": given.get("found"), "msg": str(given.get("msg", ""))}
        write(self._log, **line)

    def v2_playbook_on_stats(self, stats):
        """Print the table, unless no task went by roamlet."""
        preloading.end()
        with open(self._log, encoding="utf-8", errors="replace") as file:
            file.seek(self._begins_at)
            tasks = [task for task in tally.read(file) if task.over_roamlet]
        if tasks:
            self._display.banner("ROAMLET RECAP")
            for line in tally.table(tasks, self.get_option("tasks")):
                self._display.display(line)
        if Path(self._log).parent == Path(constants.DEFAULT_LOCAL_TMP):
            os.environ.pop(LOG, None)
