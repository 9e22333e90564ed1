"""ansible_connection: roamlet.remote.lxc."""

from roamlet_ansible.connection.container import ContainerConnection

DOCUMENTATION = """
name: lxc
short_description: run in a container of LXC, with a warm Python inside
description:
  - Runs modules in a Python that stays in the running container for the run of the playbook. C(lxc-attach) starts it.
  - The options and variables are those of C(community.general.lxc), which need not be installed, nor LXC's Python library.
author: The roamlet authors
version_added: 0.1.0
options:
  remote_addr:
    description: The container's name.
    default: inventory_hostname
    vars:
      - name: inventory_hostname
      - name: ansible_host
      - name: ansible_lxc_host
  executable:
    description: The shell in the container.
    default: /bin/sh
    vars:
      - name: ansible_executable
      - name: ansible_lxc_executable
extends_documentation_fragment:
  - roamlet.remote.via
  - connection_pipelining
"""


class Connection(ContainerConnection):
    """`lxc-attach`."""

    transport = "roamlet.remote.lxc"

    def target(self):
        """What the broker opens."""
        return self._target("lxc")

    def words(self, command):
        """The command line of lxc-attach for `command`."""
        return [
            "lxc-attach",
            "--clear-env",
            "--name",
            self.container(),
            "--",
            self.get_option("executable"),
            "-c",
            command,
        ]
