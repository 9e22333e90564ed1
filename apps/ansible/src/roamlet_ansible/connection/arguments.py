"""The command line of ssh that core's plugin would use, made from the same options. Compared with core's own in the tests."""

import os
import shlex
import shutil
from typing import Any

from ansible.errors import AnsibleError
from ansible.utils.path import makedirs_safe, unfrackpath

# A connection of ssh's own that is shared is one of the controller: its path means nothing on another host. The first word wins.
NOT_SHARED = ["-o", "ControlMaster=no", "-o", "ControlPath=none"]


def ssh_arguments(plugin: Any, elsewhere: bool = False) -> list[str]:
    """The arguments of ssh before the host's name, for a connection plugin with the options of core's ssh plugin.

    `elsewhere`: ssh runs on another host than the controller; paths are that host's. Raises AnsibleError when the folder for
    control sockets cannot be written.
    """
    option = plugin.get_option
    arguments = [*(NOT_SHARED if elsewhere else ()), *plugin._split_ssh_args(option("ssh_args") or "")]
    if option("host_key_checking") is False:
        arguments += ["-o", "StrictHostKeyChecking=no"]
    if option("port") is not None:
        arguments += ["-o", f"Port={option('port')}"]
    if option("private_key_file"):
        key = option("private_key_file")
        arguments += ["-o", f'IdentityFile="{key if elsewhere else os.path.expanduser(key)}"']
    if not option("password"):
        arguments += ["-o", "KbdInteractiveAuthentication=no"]
        arguments += ["-o", "PreferredAuthentications=gssapi-with-mic,gssapi-keyex,hostbased,publickey"]
        arguments += ["-o", "PasswordAuthentication=no"]
    if option("remote_user"):
        arguments += ["-o", f'User="{option("remote_user")}"']
    arguments += ["-o", f"ConnectTimeout={option('timeout')}"]
    for name in ("ssh_common_args", "ssh_extra_args"):
        arguments += plugin._split_ssh_args(option(name) or "")
    if not elsewhere:
        arguments += _control_path(plugin, arguments)
    return [str(argument) for argument in arguments]


def shown(target: dict[str, Any]) -> str:
    """What -vvv shows for a target that ssh reaches, in the task that has it started. One ssh serves the whole run."""
    command = shlex.join(["ssh", *target["arguments"], target["host"]])
    return f"SSH: EXEC {command}{' ON ' + target['via']['name'] if 'via' in target else ''} (ONCE FOR ALL TASKS)"


def only_cores(plugin: Any) -> bool:
    """Whether the options ask for what only core's own plugin does: another ssh, its ways with keys and passwords, its messages."""
    return (
        not _is_usual(plugin.get_option("ssh_executable"))
        or bool(_known(plugin, "pkcs11_provider") or _known(plugin, "private_key") or _known(plugin, "verbosity"))
        or (_known(plugin, "password_mechanism") or "ssh_askpass") != "ssh_askpass"
        # ssh asks roamlet for whatever it wants; the user has said which question the password is for.
        or bool(_known(plugin, "sshpass_prompt") and plugin.get_option("password"))
    )


def _is_usual(executable: str) -> bool:
    """Whether it is the ssh that roamlet starts, the first one in PATH, by that name or by its path."""
    if executable == "ssh":
        return True
    found = shutil.which("ssh")
    try:
        return found is not None and os.path.isabs(executable) and os.path.samefile(executable, found)
    except OSError:
        return False


def _known(plugin: Any, option: str) -> Any:
    try:
        return plugin.get_option(option)
    except KeyError:  # an older core
        return None


def _control_path(plugin: Any, arguments: list[str]) -> list[str]:
    lower = [argument.lower() for argument in arguments]
    if not any("controlpersist" in argument for argument in lower) or any("controlpath" in one for one in lower):
        return []
    folder = unfrackpath(plugin.get_option("control_path_dir"))
    makedirs_safe(folder, 0o700)
    if not os.access(folder, os.W_OK):
        raise AnsibleError(f"Cannot write to ControlPath {folder}")
    path = plugin.get_option("control_path") or plugin._create_control_path(
        plugin.host, plugin.get_option("port"), plugin.get_option("remote_user")
    )
    return ["-o", f'ControlPath="{path % {"directory": folder}}"']
