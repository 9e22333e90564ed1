"""ansible_connection: roamlet.remote.jail."""

from roamlet_ansible.connection.container import ContainerConnection

DOCUMENTATION = """
name: jail
short_description: run in a jail of FreeBSD, with a warm Python inside
description:
  - Runs modules in a Python that stays in the running jail for the run of the playbook. C(jexec) starts it, which takes root.
  - The options and variables are those of C(community.general.jail), which need not be installed.
author: The roamlet authors
version_added: 0.1.0
options:
  remote_addr:
    description: The jail's name.
    default: inventory_hostname
    vars:
      - name: inventory_hostname
      - name: ansible_host
      - name: ansible_jail_host
  remote_user:
    description: The account in the jail, root without it.
    vars:
      - name: ansible_user
      - name: ansible_jail_user
extends_documentation_fragment:
  - roamlet.remote.via
  - connection_pipelining
"""


class Connection(ContainerConnection):
    """`jexec`."""

    transport = "roamlet.remote.jail"

    def target(self):
        """What the broker opens."""
        return self._target("jail", stay={"home": self._user() is not None}, user=self._user())

    def words(self, command):
        """The command line of jexec for `command`, whose HOME jexec leaves as it is here."""
        user = self._user()
        if user is not None:
            command = f"HOME=~{user} {command}"
        return ["jexec", *([] if user is None else ["-U", user]), self.container(), *self._shell_words(command)]

    def _user(self):
        return self.get_option("remote_user") or self._play_context.remote_user
