"""ansible_connection: roamlet.remote.ssh."""

from ansible.plugins.connection.ssh import Connection as CoreConnection

from roamlet_ansible.connection.arguments import only_cores, shown, ssh_arguments
from roamlet_ansible.connection.literal import LiteralBeyond
from roamlet_ansible.connection.options import share_options
from roamlet_ansible.connection.plugin import RoamletConnection

DOCUMENTATION = """
name: ssh
short_description: connect by ssh, with a warm Python on the target
description:
  - Runs modules in a Python that stays on the target for the run of the playbook, and that nothing is installed for.
  - What ssh does on the way (configuration, keys, jump hosts) is decided by the options of the plugin C(ansible.builtin.ssh),
    all of which this one has.
author: The roamlet authors
version_added: 0.1.0
extends_documentation_fragment:
  - roamlet.remote.ssh
  - roamlet.remote.via
  - connection_pipelining
"""

share_options(__name__, with_options_of="ssh")  # core knows the options by the module's name


class OverSsh(LiteralBeyond, CoreConnection):
    """Where the target has no Python: core's own plugin, or the same ssh on the host that is gone through."""

    def words(self, command):
        """The command line of ssh for `command`, on the host that is gone through."""
        self.host = self.get_option("host") or self._play_context.remote_addr
        return ["ssh", *ssh_arguments(self, elsewhere=True), "-o", "BatchMode=yes", "-T", "--", str(self.host), command]


class Connection(RoamletConnection, OverSsh):
    """The options, and what is done where the target has no Python, are core's ssh plugin's."""

    transport = "roamlet.remote.ssh"
    folders_by_context = True
    _pipelines = None  # what is_pipelining_enabled() has given, and for what

    @property
    def connected(self):
        """Whether core may give this plugin the next item of a loop. Core's plugin says never, and is made anew for each."""
        return self.serves_again()

    def set_options(self, task_keys=None, var_options=None, direct=None):
        """As of core's plugin. What that takes from the task when it is made is that of this item."""
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        self.host, self.port = self._play_context.remote_addr, self._play_context.port
        self.user = self._play_context.remote_user
        self.control_path = self.control_path_dir = None

    def is_pipelining_enabled(self, wrap_async=False):
        """As of core's plugin, which reads the arguments of ssh each time; core asks three times for each module."""
        asked = (wrap_async, self.become, self.changes())
        if self._pipelines is None or self._pipelines[0] != asked:
            self._pipelines = (asked, super().is_pipelining_enabled(wrap_async))
        return self._pipelines[1]

    def target(self):
        """What the broker opens: ssh with the arguments that core's plugin would give it."""
        self.host = self.get_option("host") or self._play_context.remote_addr
        if only_cores(self):
            return None
        option = self.get_option
        return {
            "kind": "ssh",
            "name": self._play_context.remote_addr,
            "host": self.host,
            "arguments": ssh_arguments(self, elsewhere=self.via() is not None),
            "password": option("password") or self._play_context.password or None,
            "timeout": float(option("timeout"))
            + 20.0,  # ssh's own time-out for the connection, and one for Python's start
        }

    def shown(self, target):
        """The command of ssh."""
        return shown(target)

    def wants_terminal(self):
        """As core's plugin decides it."""
        return bool(self.get_option("use_tty"))
