"""ansible_connection: roamlet.remote.local."""

import os
import sys

from ansible.plugins.connection.local import Connection as CoreConnection

from roamlet_ansible.connection.literal import LiteralBeyond
from roamlet_ansible.connection.plugin import RoamletConnection

DOCUMENTATION = """
name: local
short_description: run on the controller itself, with a warm Python
description:
  - Runs modules in a Python that stays for the run of the playbook. Commands run as over C(ansible.builtin.local).
author: The roamlet authors
version_added: 0.1.0
extends_documentation_fragment:
  - roamlet.remote.via
  - connection_pipelining
"""


class OverNothing(LiteralBeyond, CoreConnection):
    """Core's own plugin, or a shell on the host that is gone through."""

    def words(self, command):
        """The command line for `command` on the host that is gone through."""
        return [str(self._play_context.executable or "/bin/sh"), "-c", command]


class Connection(RoamletConnection, OverNothing):
    """Commands and files are core's local plugin's: they need nothing of roamlet here. With roamlet_via nothing is local."""

    transport = "local"  # core looks for this name: commands then start in the playbook's folder

    def set_options(self, task_keys=None, var_options=None, direct=None):
        """As of core's plugin."""
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        self.transport = "local" if self.via() is None else "roamlet.remote.local"

    def _connect(self):
        if self.via() is None:
            return super()._connect()
        self._connected = True
        return self

    def target(self):
        """What the broker opens: another Python like this one, or one on the host that is gone through, like that one's."""
        if self.via() is None:
            return {"kind": "local", "name": "localhost", "python": sys.executable, "timeout": 30.0}
        stay = {"environment": {}, "folder": None, "home": False}
        return {"kind": "local", "name": self._play_context.remote_addr, "python": None, "timeout": 30.0, "stay": stay}

    def starts_in(self):
        """The playbook's folder, which core sets before each command."""
        return os.fsdecode(self.cwd) if self.cwd and self.via() is None else ""

    def _run_command(self, cmd, in_data, sudoable):
        kind = CoreConnection.exec_command if self.via() is None else RoamletConnection._run_command
        return kind(self, cmd, in_data=in_data, sudoable=sudoable)

    def put_file(self, in_path, out_path):
        """Copy a file."""
        return (CoreConnection if self.via() is None else RoamletConnection).put_file(self, in_path, out_path)

    def fetch_file(self, in_path, out_path):
        """Copy a file."""
        return (CoreConnection if self.via() is None else RoamletConnection).fetch_file(self, in_path, out_path)
