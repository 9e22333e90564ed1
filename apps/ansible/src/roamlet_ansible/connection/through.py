"""Hosts that are reached through another host of the inventory: what the option roamlet_via of a connection plugin means.

The other host's own variables say how it is reached, and perhaps by which become method. They are read from `hostvars`, which
core hands to each connection plugin by its method update_vars(); the connection plugin of that host then describes it.
"""

import os
from collections.abc import Mapping
from typing import Any

from ansible import constants, context
from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.loader import connection_loader

OPTION = "roamlet_via"
OURS = "roamlet.remote."
# Names in inventories -> which of our plugins has the same options.
PLUGINS = {
    **dict.fromkeys(("ssh", "smart", "ansible.builtin.ssh"), "ssh"),
    **dict.fromkeys(("local", "ansible.builtin.local", "ansible.legacy.local"), "local"),
    **dict.fromkeys(("docker", "community.docker.docker"), "docker"),
    **dict.fromkeys(("podman", "containers.podman.podman"), "podman"),
    **dict.fromkeys(("kubectl", "kubernetes.core.kubectl"), "kubectl"),
    **dict.fromkeys(("lxc", "community.general.lxc"), "lxc"),
    **dict.fromkeys(("jail", "community.general.jail"), "jail"),
}
BECOME_METHODS = ("sudo", "su", "doas")
SHELLS = ("ansible_shell_type", "ansible_shell_executable", "ansible_executable")
TIMEOUT = 30.0  # seconds, for an account's Python to start

Target = dict[str, Any]


class Stacked:
    """The part of a connection plugin that knows what it goes through. Goes before a class of core's."""

    _hostvars: Mapping[str, Any] | None = None
    _chain: tuple[str, ...] = ()  # the hosts that lead here from the task's, which is not named
    _found: tuple[str, Target, str | None] | None = None
    _whole: tuple[Target | None] | None = None  # what described() has given, until options or variables are set again
    _changes = 0  # times that they were
    _has_own_shell = False  # the variables name a shell, perhaps another one for the next item of a loop
    _inventory_name: str | None = None  # of the host that the task is for, or is delegated to
    _interpreter: str | None = None  # what the variables say, before core has made a text of it

    def set_options(self, task_keys: Any = None, var_options: Any = None, direct: Any = None) -> None:
        """As of core's plugin. Some callers hand over all variables instead of the plugin's own."""
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)  # type: ignore[misc]
        self._changed()
        if var_options is not None and "hostvars" in var_options:
            self._hostvars = var_options["hostvars"]

    def update_vars(self, variables: dict[str, Any]) -> None:
        """As of core's plugin, which is called before each task with all of its variables."""
        self._changed()
        delegated = variables.get("ansible_delegated_vars")  # then the variables are not those of this host
        self._has_own_shell = any(name in variables for name in SHELLS)
        # One name: without it, whose variables these are cannot be said.
        self._inventory_name = next(iter(delegated)) if delegated else variables.get("inventory_hostname")
        self._interpreter = "{{" if delegated else str(variables.get("ansible_python_interpreter") or "")
        if "hostvars" in variables:
            self._hostvars = variables["hostvars"]
        super().update_vars(variables)  # type: ignore[misc]

    def set_option(self, option: str, value: Any) -> None:
        """As of core's plugin."""
        super().set_option(option, value)  # type: ignore[misc]
        self._changed()

    def _changed(self) -> None:
        self._found = self._whole = None
        self._changes += 1

    def changes(self) -> int:
        """A number that is another one whenever options or variables were set again."""
        return self._changes

    def via(self) -> str | None:
        """The name of the host that is gone through, if one is."""
        name = self.get_option(OPTION)  # type: ignore[attr-defined]
        return None if not name or name == "None" else str(name)

    def through(self) -> Target | None:
        """What the broker opens first, None without roamlet_via. Raises AnsibleError where that cannot be described."""
        name = self.via()
        if name is None:
            return None
        if self._found is None or self._found[0] != name:
            self._found = (name, *self._described(name))
        return self._found[1]

    def described(self) -> Target | None:
        """target(), with what it goes through; None where roamlet cannot go there."""
        if self._whole is None:
            target: Target | None = self.target()  # type: ignore[attr-defined]
            through = self.through() if target is not None else None
            if target is not None and through is not None:
                assert self._found is not None  # through() has
                target = {**target, "via": through, "via_python": self._found[2]}
            self._whole = (target,)
        return self._whole[0]

    def _described(self, name: str) -> tuple[Target, str | None]:
        who = self._play_context.remote_addr  # type: ignore[attr-defined]
        if name in self._chain:
            way = " -> ".join((*self._chain[self._chain.index(name) :], name))
            raise AnsibleError(
                f"{who} cannot be reached: {OPTION} goes in a circle: {way}. Take it out of one of them."
            )
        if self._hostvars is None:
            raise AnsibleError(
                f"{who} is reached through {name!r}, whose variables this step of core does not hand over."
            )
        if name not in self._hostvars:
            raise AnsibleError(
                f"{who} is to be reached through {name!r}, and the inventory has no such host. "
                f"Correct {OPTION} of {who}, or add {name!r} with the variables that say how it is reached."
            )
        variables = self._hostvars[name]
        target = self._plugin(name, variables).described()
        if target is None:
            raise AnsibleError(
                f"{who} cannot be reached through {name!r}: roamlet does not follow all options that {name!r} has. "
                f"The reference of the connection plugins says which; take them out of the variables of {name!r}."
            )
        python = str(variables.get("ansible_python_interpreter") or "")
        python_there = python if python.startswith("/") else None
        account = _account(name, variables)
        if account is None:
            return target, python_there
        return {**account, "via": target, "via_python": python_there}, python_there

    def _plugin(self, name: str, variables: Mapping[str, Any]) -> Any:
        """The connection plugin of the host `name`, with that host's options."""
        asked = str(
            variables.get("ansible_connection") or context.CLIARGS.get("connection") or constants.DEFAULT_TRANSPORT
        )
        kind = PLUGINS.get(asked, asked.removeprefix(OURS))
        if kind not in PLUGINS.values():
            raise AnsibleError(
                f"a host cannot be reached through {name!r}, whose connection is {asked!r}. "
                f"Set ansible_connection of {name!r} to one of: {', '.join(OURS + one for one in sorted(set(PLUGINS.values())))}."
            )
        own = self._play_context  # type: ignore[attr-defined]
        there = own.copy()
        there.remote_addr = str(variables.get("ansible_host") or name)
        there.remote_user = there.port = None
        plugin = connection_loader.get(OURS + kind, there, os.devnull)
        if plugin is None:
            raise AnsibleError(
                f"the connection plugin {OURS + kind}, for {name!r}, was not found: is roamlet-ansible installed?"
            )
        keys = {"timeout": own.timeout}
        if own.password:
            keys["password"] = own.password
        names = constants.config.get_plugin_vars("connection", plugin._load_name)
        plugin._chain = (*self._chain, name)
        plugin._hostvars = self._hostvars
        plugin.set_options(task_keys=keys, var_options={one: variables[one] for one in names if one in variables})
        return plugin


def _account(name: str, variables: Mapping[str, Any]) -> Target | None:
    """What the become variables of the host itself say about the account there; None: the one of its connection."""
    if not boolean(variables.get("ansible_become") or False, strict=False):
        return None
    asked = str(variables.get("ansible_become_method") or constants.DEFAULT_BECOME_METHOD)
    method = asked.rpartition(".")[2]
    if method not in BECOME_METHODS:
        raise AnsibleError(
            f"a host cannot be reached through {name!r} by the become method {asked!r}. "
            f"Set ansible_become_method of {name!r} to one of: {', '.join(BECOME_METHODS)}."
        )
    user = variables.get("ansible_become_user") or constants.DEFAULT_BECOME_USER
    password = variables.get("ansible_become_password") or variables.get("ansible_become_pass")
    return {
        "kind": method,
        "name": f"{name} as {user}",
        "user": str(user),
        "password": None if password is None else str(password),
        "timeout": TIMEOUT,
    }
