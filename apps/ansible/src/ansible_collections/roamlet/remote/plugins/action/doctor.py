"""The task of `roamlet ansible doctor`: says how modules get to a host."""

from functools import partial

from ansible.plugins.action import ActionBase

from roamlet_ansible.connection.examination import examine

COMMAND = {"_raw_params": "id -un", "_uses_shell": False}


class ActionModule(ActionBase):
    """Changes nothing on the host."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """As of core's action plugins; the result has `found`."""
        super().run(tmp, task_vars)
        run_module = partial(self._execute_module, "ansible.legacy.command", COMMAND, task_vars=task_vars)
        return {"changed": False, "found": examine(self._connection, run_module)}
