"""callbacks_enabled = roamlet.remote.preload."""

from ansible.plugins.callback import CallbackBase

from roamlet_ansible import preloading

DOCUMENTATION = """
name: preload
type: aggregate
short_description: loads plugins once for all workers
description:
  - Loads the connection plugins of C(roamlet.remote) and the action plugins of tasks before workers are forked, so that they need
    not, and starts the broker while Ansible prepares the first task. Saves CPU time of the controller for each task.
  - Packs the modules of later tasks while the first one runs, where an earlier run has left none, with ansible-core 2.19 and later.
  - Prints nothing, and keeps no record. Not needed beside C(roamlet.remote.recap), which does the same.
author: The roamlet authors
version_added: 0.1.0
requirements:
  - enabling in configuration
"""


class CallbackModule(CallbackBase):
    """Everything is done when a worker is not there yet."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "roamlet.remote.preload"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook):
        preloading.begin()

    def v2_playbook_on_play_start(self, play):
        preloading.begin()  # `ansible` has plays, and no playbook
        preloading.play(play)

    def v2_playbook_on_task_start(self, task, is_conditional):
        preloading.action(task)

    def v2_playbook_on_handler_task_start(self, task):
        preloading.action(task)

    def v2_playbook_on_stats(self, stats):
        preloading.end()
