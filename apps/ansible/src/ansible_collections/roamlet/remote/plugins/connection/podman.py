"""ansible_connection: roamlet.remote.podman."""

import shlex

from roamlet_ansible.connection.container import ContainerConnection, same_program

DOCUMENTATION = """
name: podman
short_description: run in a container of Podman, with a warm Python inside
description:
  - Runs modules in a Python that stays in the running container for the run of the playbook. C(podman exec) starts it.
  - The options and variables are those of C(containers.podman.podman), which need not be installed.
author: The roamlet authors
version_added: 0.1.0
options:
  remote_addr:
    description: The container's name or identifier.
    default: inventory_hostname
    vars:
      - name: inventory_hostname
      - name: ansible_host
      - name: ansible_podman_host
    env:
      - name: ANSIBLE_PODMAN_HOST
    ini:
      - section: defaults
        key: remote_addr
  remote_user:
    description: The account in the container, a name or a number. Without it, the one that the image names.
    vars:
      - name: ansible_user
    ini:
      - section: defaults
        key: remote_user
    env:
      - name: ANSIBLE_REMOTE_USER
  podman_extra_args:
    description: Options of C(podman) itself, as a shell reads them.
    default: ''
    type: str
    vars:
      - name: ansible_podman_extra_args
    ini:
      - section: defaults
        key: podman_extra_args
    env:
      - name: ANSIBLE_PODMAN_EXTRA_ARGS
  podman_executable:
    description: Podman's client. If it is not the C(podman) that PATH finds, it is started for each command anew.
    default: podman
    type: str
    vars:
      - name: ansible_podman_executable
    ini:
      - section: defaults
        key: podman_executable
    env:
      - name: ANSIBLE_PODMAN_EXECUTABLE
  container_timeout:
    description: Seconds that a Python may take to start in the container, at least 30. Commands are not limited by it.
    default: 0
    type: int
    vars:
      - name: ansible_podman_timeout
    ini:
      - section: defaults
        key: podman_timeout
    env:
      - name: ANSIBLE_PODMAN_TIMEOUT
  mount_detection:
    description: Accepted, and without effect. Files go through the container's own processes.
    default: true
    type: bool
    vars:
      - name: ansible_podman_mount_detection
    env:
      - name: ANSIBLE_PODMAN_MOUNT_DETECTION
  ignore_mount_errors:
    description: Accepted, and without effect.
    default: true
    type: bool
    vars:
      - name: ansible_podman_ignore_mount_errors
  extra_env_vars:
    description: Variables that are added to the environment in the container.
    default: {}
    type: dict
    vars:
      - name: ansible_podman_extra_env
  privilege_escalation_method:
    description: With C(sudo) or C(su), it starts each command, which is then a C(podman exec) of its own.
    default: auto
    choices: [auto, sudo, su, none]
    type: str
    vars:
      - name: ansible_podman_privilege_escalation
  working_directory:
    description: The folder in the container that commands and modules start in. Without it, the one that the image names.
    type: str
    vars:
      - name: ansible_podman_working_directory
extends_documentation_fragment:
  - roamlet.remote.via
  - connection_pipelining
"""


class Connection(ContainerConnection):
    """`podman exec`."""

    transport = "roamlet.remote.podman"

    def target(self):
        """What the broker opens; None for what only the client's own options can do."""
        if not same_program(self.get_option("podman_executable"), "podman") or self._escalated([]):
            return None
        return self._target(
            "podman",
            timeout=self.get_option("container_timeout"),
            stay={"environment": self._environment(), "folder": self.get_option("working_directory")},
            user=self.get_option("remote_user"),
            podman_args=shlex.split(self.get_option("podman_extra_args") or ""),
        )

    def words(self, command):
        """The command line of podman for `command`."""
        user, folder = self.get_option("remote_user"), self.get_option("working_directory")
        return [
            self.get_option("podman_executable"),
            *shlex.split(self.get_option("podman_extra_args") or ""),
            "exec",
            "-i",
            *(["--user", user] if user else []),
            *(word for name, value in self._environment().items() for word in ("--env", f"{name}={value}")),
            *(["--workdir", folder] if folder else []),
            self.container(),
            *self._escalated(self._shell_words(command)),
        ]

    def _escalated(self, words):
        method = self.get_option("privilege_escalation_method")
        if method == "su":
            return ["su", "-c", shlex.join(words)]
        return ["sudo", "-n", *words] if method == "sudo" else words

    def _environment(self):
        return self.checked_environment("ansible_podman_extra_env", self.get_option("extra_env_vars"))
