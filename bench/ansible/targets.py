"""The hosts that playbooks run on: servers of a lab, each with an sshd that is counted, and several accounts that are hosts each.

One office of the lab has one server. More hosts than servers are further accounts on them: a host has a home folder, connections
and processes of its own, and shares the disk and the Python with its neighbours.
"""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roamlet_lab import Lab
from roamlet_lab.errors import LabError

from .cgroups import Group

ACCOUNTS = ("admin", "bench1", "bench2", "bench3", "bench4")  # admin is in every lab, with sudo

# The further accounts, as admin is. The lab's own sshd goes: a counted one takes its port.
SET_UP = """\
for name in {names}; do
    useradd --create-home --shell /bin/bash $name
    echo "$name ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/$name
done
printf 'Match User bench*\\nAuthorizedKeysFile /etc/ssh/keys_of_admin\\n' >/etc/ssh/sshd_config.d/bench.conf
kill $(cat /run/sshd.pid)
while nc -z localhost 22; do sleep 0.05; done
"""
WAIT = "until nc -z localhost 22; do sleep 0.05; done"
RESET = "rm -rf /home/*/bench /home/*/.ansible /root/.ansible /root/bench-* /tmp/* /var/tmp/*"


@dataclass(frozen=True)
class Host:
    name: str
    address: str
    account: str


class Targets:
    """Hosts that are up. Everything that their sshds have started is in `group`."""

    def __init__(self, lab: Lab, group: Group, controller: int) -> None:
        self._lab = lab
        self._controller = controller
        self.group = group
        offices = lab.offices
        self.hosts = [
            Host(f"host{number:02}", str(office.place.wan), account)
            for number, (account, office) in enumerate(((a, o) for a in ACCOUNTS for o in offices), 1)
        ]

    def inventory(self, count: int) -> str:
        """An inventory of the first `count` hosts."""
        folder = Path(self._lab.ssh_config).parent
        options = f"-F /dev/null -o IdentitiesOnly=yes -o IdentityAgent=none -o UserKnownHostsFile={folder}/known_hosts"
        lines = [f"{host.name} ansible_host={host.address} ansible_user={host.account}" for host in self.hosts[:count]]
        if len(lines) < count:
            raise ValueError(f"{count} hosts: {len(self._lab.offices)} servers have {len(self.hosts)}")
        lines += [
            "[all:vars]",
            "ansible_python_interpreter=/usr/bin/python3",
            f"ansible_ssh_private_key_file={folder}/id_ed25519",
            f"ansible_ssh_common_args='{options}'",
        ]
        return "\n".join(lines) + "\n"

    def distance(self, rtt: float) -> None:
        """Set the seconds from the controller to each host and back."""
        self._lab.internet.set(rtt=rtt)

    def reset(self, script: str = "") -> None:
        """Remove what playbooks have made, and what a controller has left; `script` removes the rest."""
        _everywhere(self._lab, RESET + "\n" + script)

    def argv(self, words: Sequence[str]) -> list[str]:
        """The command line that runs `words` on this machine, but in the network of the lab's admin."""
        return ["nsenter", f"--net=/proc/{self._controller}/ns/net", *words]

    def traffic(self) -> dict[str, int]:
        """Packets that the line of the first host has taken from it and passed to it so far."""
        first = self._lab.offices[0].name
        (port,) = (port for port in self._lab.internet.stats()["ports"] if port["name"] == first)
        return {"from": port["taken"], "to": port["passed"]}


@contextmanager
def targets(servers: int, group: Group, say: Callable[[str], None]) -> Iterator[Targets]:
    """So many servers, with len(ACCOUNTS) hosts each; building them takes seconds, the first time on a machine minutes.

    Raises roamlet_lab.NotPossible where no lab can be.
    """
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(servers, rtt=0, say=say))
        _everywhere(lab, SET_UP.format(names=" ".join(ACCOUNTS[1:])))
        for office in lab.offices:
            words = office.server.argv("/usr/sbin/sshd", "-D", "-e")
            stack.enter_context(_started(group.argv(words)))
        _everywhere(lab, WAIT)
        # It stays in the admin's network, which has no name on this machine but that of a process in it.
        holder = stack.enter_context(_started(lab.admin.argv("sleep", "infinity")))
        lab.admin.shell("true")
        yield Targets(lab, group, holder.pid)


@contextmanager
def _started(words: Sequence[str]) -> Iterator["subprocess.Popen[Any]"]:
    """A process that is ended with the block."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _everywhere(lab: Lab, script: str) -> None:
    with ThreadPoolExecutor(4) as several:
        for done in [several.submit(office.server.shell, script) for office in lab.offices]:
            try:
                done.result()
            except subprocess.TimeoutExpired as error:
                raise LabError(f"a server has not done `{script.splitlines()[0]}` in time") from error
