"""A connection plugin of Ansible: core's ssh, which keeps what each command answers for bench_replay. Runs in ansible-playbook.

The folder BENCH_ANSWERS gets a file for each host, with the answers of its commands in their order.
"""

import os
import pickle

from ansible.plugins.connection import ssh

DOCUMENTATION = ssh.DOCUMENTATION.replace("name: ssh", "name: bench_record", 1)


class Connection(ssh.Connection):
    transport = "bench_record"

    def exec_command(self, cmd, in_data=None, sudoable=True):
        code, out, err = super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        folder = os.environ["BENCH_ANSWERS"]
        os.makedirs(folder, exist_ok=True)
        host = f"{self._play_context.remote_addr}.{self._play_context.remote_user}"
        with open(os.path.join(folder, host), "ab") as file:
            pickle.dump((code, bytes(out), bytes(err)), file)
        return code, out, err
