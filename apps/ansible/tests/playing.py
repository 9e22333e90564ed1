"""Playbooks over an sshd of the tests' own: run as a user runs them, and what each task gave."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TIMEOUT = 280
STOCK, ROAMLET = "ansible.builtin.ssh", "roamlet.remote.ssh"


@dataclass
class Played:
    """What a playbook gave: its exit code, all that it printed, and (task's name, status, result) of each task."""

    code: int
    text: str
    tasks: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def __getitem__(self, name: str) -> dict[str, Any]:
        """The result of the task with this name."""
        (found,) = [result for task, _, result in self.tasks if task == name]
        return found

    def status(self, name: str) -> str:
        (found,) = [status for task, status, _ in self.tasks if task == name]
        return found


class Playing:
    """Runs playbooks against `host` in the folder `folder`, which has `ssh_config`."""

    def __init__(self, folder: Path, control: Path, host: str, ssh_config: Path, python: str) -> None:
        self.folder = folder
        self.programs = Path(sys.executable).parent  # where ansible-playbook is
        self.control = control  # a short path: it has to take sockets
        self.variables = {
            "ansible_host": host,
            "ansible_ssh_common_args": f"-F {ssh_config}",
            "ansible_python_interpreter": python,
        }

    def play(self, text: str, connection: str = ROAMLET, *options: str, hosts: int = 1, **environment: str) -> Played:
        """Run the playbook `text` over `connection` and wait for it, TIMEOUT seconds at most."""
        return self.start(text, connection, *options, hosts=hosts, **environment).end()

    def start(
        self, text: str, connection: str = ROAMLET, *options: str, hosts: int = 1, **environment: str
    ) -> "Running":
        """Start the playbook `text` in a process group of its own, as a shell does for what is typed at a terminal."""
        inventory = {"all": {"hosts": {f"t{number}": self.variables for number in range(hosts)}}}
        (self.folder / "inventory.json").write_text(json.dumps(inventory))
        (self.folder / "play.yml").write_text(text)
        results, output = self.folder / "results", self.folder / "output"
        results.unlink(missing_ok=True)
        with output.open("wb") as file:
            process = subprocess.Popen(
                [str(self.programs / "ansible-playbook"), "-i", "inventory.json", "play.yml", *options],
                cwd=self.folder,
                env={
                    **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE")},
                    "LC_ALL": "C.UTF-8",  # ansible wants UTF-8
                    "ANSIBLE_TRANSPORT": connection,
                    "ROAMLET_ANSIBLE_CACHE": str(self.folder / "cache"),
                    "ANSIBLE_HOME": str(self.folder / "ansible"),
                    "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=3s",
                    "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.control),
                    "ANSIBLE_SSH_TRANSFER_METHOD": "piped",
                    "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callbacks"),
                    "ANSIBLE_BECOME_PLUGINS": str(HERE / "become"),
                    "ANSIBLE_CALLBACKS_ENABLED": "task_results",
                    "TASK_RESULTS": str(results),
                    "ANSIBLE_NOCOLOR": "1",
                    "TMPDIR": str(self.control),
                    **({"ANSIBLE_PIPELINING": "1"} if connection == STOCK else {}),
                    **environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        return Running(process, results, output)


class Running:
    """A playbook that runs."""

    def __init__(self, process: "subprocess.Popen[bytes]", results: Path, output: Path) -> None:
        self.process = process
        self._results = results
        self._output = output

    def interrupt(self) -> None:
        """Do what a terminal does at Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> Played:
        """Wait for it, TIMEOUT seconds at most; it is killed after those."""
        try:
            code = self.process.wait(TIMEOUT)
        except BaseException:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise
        lines = map(json.loads, self._results.read_text().splitlines()) if self._results.exists() else ()
        text = self._output.read_text(errors="replace")
        return Played(code, text, [(one["task"], one["status"], one["result"]) for one in lines])
