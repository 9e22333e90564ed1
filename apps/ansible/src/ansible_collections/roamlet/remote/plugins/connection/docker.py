"""ansible_connection: roamlet.remote.docker."""

from roamlet_ansible.connection.container import ContainerConnection, text_words

DOCUMENTATION = """
name: docker
short_description: run in a container of Docker, with a warm Python inside
description:
  - Runs modules in a Python that stays in the running container for the run of the playbook. C(docker exec) starts it.
  - The options and variables are those of C(community.docker.docker), which need not be installed.
author: The roamlet authors
version_added: 0.1.0
options:
  remote_addr:
    description: The container's name or identifier.
    default: inventory_hostname
    vars:
      - name: inventory_hostname
      - name: ansible_host
      - name: ansible_docker_host
  remote_user:
    description: The account in the container. Without it, the one that the image names.
    vars:
      - name: ansible_user
      - name: ansible_docker_user
    ini:
      - section: defaults
        key: remote_user
    env:
      - name: ANSIBLE_REMOTE_USER
    cli:
      - name: user
    keyword:
      - name: remote_user
  docker_extra_args:
    description: Options of C(docker) itself, parted by spaces, such as C(--context lab).
    default: ''
    vars:
      - name: ansible_docker_extra_args
    ini:
      - section: docker_connection
        key: extra_cli_args
  container_timeout:
    description: Seconds that a Python may take to start in the container, at least 30.
    default: 10
    type: integer
    vars:
      - name: ansible_docker_timeout
    ini:
      - section: defaults
        key: timeout
      - section: docker_connection
        key: timeout
    env:
      - name: ANSIBLE_TIMEOUT
      - name: ANSIBLE_DOCKER_TIMEOUT
    cli:
      - name: timeout
  extra_env:
    description: Variables that are added to the environment in the container.
    type: dict
    vars:
      - name: ansible_docker_extra_env
  working_dir:
    description: The folder in the container that commands and modules start in. Without it, the one that the image names.
    type: string
    vars:
      - name: ansible_docker_working_dir
    ini:
      - section: docker_connection
        key: working_dir
    env:
      - name: ANSIBLE_DOCKER_WORKING_DIR
  privileged:
    description: Whether commands get all of the machine's privileges. If so, each of them is a C(docker exec) of its own.
    type: boolean
    default: false
    vars:
      - name: ansible_docker_privileged
    ini:
      - section: docker_connection
        key: privileged
    env:
      - name: ANSIBLE_DOCKER_PRIVILEGED
extends_documentation_fragment:
  - roamlet.remote.via
  - connection_pipelining
"""


class Connection(ContainerConnection):
    """`docker exec`."""

    transport = "roamlet.remote.docker"

    def target(self):
        """What the broker opens; None for what only the client's own options can do."""
        if self.get_option("privileged"):
            return None
        return self._target(
            "docker",
            timeout=self.get_option("container_timeout"),
            stay={"environment": self._environment(), "folder": self.get_option("working_dir")},
            user=self._user(),
            docker_args=text_words(self.get_option("docker_extra_args")),
        )

    def words(self, command):
        """The command line of docker for `command`."""
        user, folder = self._user(), self.get_option("working_dir")
        return [
            "docker",
            *text_words(self.get_option("docker_extra_args")),
            "exec",
            *([] if user is None else ["-u", user]),
            *(word for name, value in self._environment().items() for word in ("-e", f"{name}={value}")),
            *([] if folder is None else ["-w", folder]),
            *(["--privileged"] if self.get_option("privileged") else []),
            "-i",
            self.container(),
            *self._shell_words(command),
        ]

    def _user(self):
        return self.get_option("remote_user") or self._play_context.remote_user

    def _environment(self):
        return self.checked_environment("ansible_docker_extra_env", self.get_option("extra_env"))
