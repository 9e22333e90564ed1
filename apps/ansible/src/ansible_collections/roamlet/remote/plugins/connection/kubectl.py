"""ansible_connection: roamlet.remote.kubectl."""

import hashlib
import json
import os

from ansible import constants
from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean

from roamlet_ansible.connection.container import ContainerConnection, text_words

DOCUMENTATION = """
name: kubectl
short_description: run in a pod of Kubernetes, with a warm Python inside
description:
  - Runs modules in a Python that stays in the pod for the run of the playbook. C(kubectl exec) starts it.
  - The options and variables are those of C(kubernetes.core.kubectl), which need not be installed.
author: The roamlet authors
version_added: 0.1.0
options:
  kubectl_pod:
    description: The pod's name. Without it, the host's.
    default: ''
    vars:
      - name: ansible_kubectl_pod
    env:
      - name: K8S_AUTH_POD
  kubectl_container:
    description: The container in the pod. Without it, the pod's default one.
    default: ''
    vars:
      - name: ansible_kubectl_container
    env:
      - name: K8S_AUTH_CONTAINER
  kubectl_namespace:
    description: The pod's namespace.
    default: ''
    vars:
      - name: ansible_kubectl_namespace
    env:
      - name: K8S_AUTH_NAMESPACE
  kubectl_extra_args:
    description: Further options of C(kubectl) itself, parted by spaces. Other users of this machine can see them.
    default: ''
    vars:
      - name: ansible_kubectl_extra_args
    env:
      - name: K8S_AUTH_EXTRA_ARGS
  kubectl_local_env_vars:
    description: Variables of the environment that C(kubectl) starts with. If there are any, it is started for each command anew.
    default: {}
    type: dict
    vars:
      - name: ansible_kubectl_local_env_vars
  kubectl_kubeconfig:
    description: The configuration of C(kubectl), a path or a dictionary.
    default: ''
    vars:
      - name: ansible_kubectl_kubeconfig
      - name: ansible_kubectl_config
    env:
      - name: K8S_AUTH_KUBECONFIG
  kubectl_context:
    description: A context of that configuration.
    default: ''
    vars:
      - name: ansible_kubectl_context
    env:
      - name: K8S_AUTH_CONTEXT
  kubectl_host:
    description: The address of the cluster's API.
    default: ''
    vars:
      - name: ansible_kubectl_host
      - name: ansible_kubectl_server
    env:
      - name: K8S_AUTH_HOST
      - name: K8S_AUTH_SERVER
  kubectl_username:
    description: The user of the API.
    default: ''
    vars:
      - name: ansible_kubectl_username
      - name: ansible_kubectl_user
    env:
      - name: K8S_AUTH_USERNAME
  kubectl_password:
    description: That user's password. Other users of this machine can see it; better give a configuration.
    default: ''
    vars:
      - name: ansible_kubectl_password
    env:
      - name: K8S_AUTH_PASSWORD
  kubectl_token:
    description: A token of the API. Other users of this machine can see it; better give a configuration.
    vars:
      - name: ansible_kubectl_token
      - name: ansible_kubectl_api_key
    env:
      - name: K8S_AUTH_TOKEN
      - name: K8S_AUTH_API_KEY
  client_cert:
    description: The file of a certificate for the API.
    default: ''
    vars:
      - name: ansible_kubectl_cert_file
      - name: ansible_kubectl_client_cert
    env:
      - name: K8S_AUTH_CERT_FILE
    aliases: [kubectl_cert_file]
  client_key:
    description: The file of that certificate's key.
    default: ''
    vars:
      - name: ansible_kubectl_key_file
      - name: ansible_kubectl_client_key
    env:
      - name: K8S_AUTH_KEY_FILE
    aliases: [kubectl_key_file]
  ca_cert:
    description: The file of the certificate authority.
    default: ''
    vars:
      - name: ansible_kubectl_ssl_ca_cert
      - name: ansible_kubectl_ca_cert
    env:
      - name: K8S_AUTH_SSL_CA_CERT
    aliases: [kubectl_ssl_ca_cert]
  validate_certs:
    description: Whether the API's certificate is verified.
    default: ''
    vars:
      - name: ansible_kubectl_verify_ssl
      - name: ansible_kubectl_validate_certs
    env:
      - name: K8S_AUTH_VERIFY_SSL
    aliases: [kubectl_verify_ssl]
extends_documentation_fragment:
  - roamlet.remote.via
  - connection_pipelining
"""

FLAGS = {
    "kubectl_context": "--context",
    "kubectl_host": "--server",
    "kubectl_username": "--username",
    "kubectl_password": "--password",
    "kubectl_token": "--token",
    "client_cert": "--client-certificate",
    "client_key": "--client-key",
    "ca_cert": "--certificate-authority",
}


class Connection(ContainerConnection):
    """`kubectl exec`."""

    transport = "roamlet.remote.kubectl"

    def container(self):
        """The pod's name."""
        return str(self.get_option("kubectl_pod") or self._play_context.remote_addr)

    def target(self):
        """What the broker opens; None for what only the client's own environment can do."""
        if self.client_environment():
            return None
        return self._target(
            "kubectl",
            container=self.get_option("kubectl_container") or None,
            namespace=self.get_option("kubectl_namespace") or None,
            kubectl_args=self._arguments(),
        )

    def words(self, command):
        """The command line of kubectl for `command`."""
        container, namespace = self.get_option("kubectl_container"), self.get_option("kubectl_namespace")
        return [
            "kubectl",
            *self._arguments(),
            *(["-n", namespace] if namespace else []),
            "exec",
            "-i",
            self.container(),
            *(["-c", container] if container else []),
            "--",
            *self._shell_words(command),
        ]

    def client_environment(self):
        """What the option kubectl_local_env_vars says."""
        given = self.get_option("kubectl_local_env_vars") or {}
        return self.checked_environment(
            "ansible_kubectl_local_env_vars", json.loads(given) if isinstance(given, str) else given
        )

    def _arguments(self):
        words = []
        if self.get_option("kubectl_kubeconfig"):
            words += ["--kubeconfig", self._configuration(self.get_option("kubectl_kubeconfig"))]
        for option, flag in FLAGS.items():
            if self.get_option(option):
                words += [flag, str(self.get_option(option))]
        if self.get_option("validate_certs") != "":
            verify = boolean(self.get_option("validate_certs"), strict=False)
            words.append(f"--insecure-skip-tls-verify={str(not verify).lower()}")
        return words + text_words(self.get_option("kubectl_extra_args"))

    def _configuration(self, given):
        """The path of the configuration. A dictionary is written into the folder of this run, which only this user can enter."""
        if not isinstance(given, dict):
            return str(given)
        if self.via() is not None:
            raise AnsibleError(
                f"kubectl for {self._host()} runs on {self.via()!r} (roamlet_via), which has no file for a dictionary: "
                "put the configuration into a file there, and set ansible_kubectl_kubeconfig to its path."
            )
        text = json.dumps(given, sort_keys=True).encode()
        path = os.path.join(constants.DEFAULT_LOCAL_TMP, f"roamlet-kubeconfig-{hashlib.sha256(text).hexdigest()[:16]}")
        if not os.path.exists(path):
            with open(f"{path}.{os.getpid()}", "wb") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(text)
            os.replace(file.name, path)
        return path
