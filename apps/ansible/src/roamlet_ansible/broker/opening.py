"""From a worker's description of a target to an open context: the one place that knows roamlet's transports."""

from collections.abc import Callable
from typing import Any

from roamlet import remote
from roamlet.remote import Context
from roamlet_ansible.host import runner

ACCOUNTS: dict[str, Callable[..., Context]] = {"sudo": remote.sudo, "su": remote.su, "doas": remote.doas}
CONTAINERS: dict[str, Callable[..., Context]] = {
    "docker": remote.docker,
    "podman": remote.podman,
    "kubectl": remote.kubectl,
    "lxc": remote.lxc,
    "jail": remote.jail,
}


def open_context(target: dict[str, Any], python: str | None, through: Context | None) -> Context:
    """Open the context that a worker has described, which goes through the other one, if given."""
    options: dict[str, Any] = {"name": target["name"], "timeout": target["timeout"], "output": _nowhere}
    if through is not None:
        options["via"] = through
    kind = target["kind"]
    if kind == "ssh":
        context = remote.ssh(
            target["host"], python=python, password=target["password"], ssh_args=target["arguments"], **options
        )
    elif kind == "local":
        context = remote.local(target["python"], **options)
    elif kind in ACCOUNTS:
        context = ACCOUNTS[kind](target["user"], python=python, password=target["password"], **options)
    elif kind in CONTAINERS:
        context = CONTAINERS[kind](target["container"], python=python, **target["options"], **options)
    else:
        raise ValueError(f"there is no transport {kind!r}")
    if target.get("stay") is not None:
        try:
            stay = target["stay"]
            context.call(runner.stay, (stay["environment"], stay["folder"], stay["home"]))
        except BaseException:
            context.close()
            raise
    return context


def _nowhere(context: str, stream: str, line: str) -> None:
    """What a target prints outside of any command: the broker has no terminal to show it on."""
