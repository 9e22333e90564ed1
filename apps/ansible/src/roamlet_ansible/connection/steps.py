"""How work on a temporary folder fails that had been promised to core: as it fails when core waits for it."""

from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from roamlet_ansible.cores.plain import END, Step, one_word


def failure(step: Step, code: int, out: bytes, err: bytes) -> AnsibleError:
    """The error of core's action plugins for this result of `step`: core's own function is asked, which looks at the result."""
    if step.kind == "put":
        return AnsibleError(err.decode("utf-8", "replace"))
    action = _Action(
        step, {"rc": code, "stdout": out.decode("utf-8", "replace"), "stderr": err.decode("utf-8", "replace")}
    )
    try:
        if step.kind == "mkdir":
            ActionBase._make_tmp_path(action)
        else:
            ActionBase._fixup_perms2(action, step.values[1])
    except AnsibleError as error:
        return error.with_traceback(None)  # raised elsewhere: what it had is the frame of this function, which holds it
    except Exception as error:  # another core, whose function asks for more: its words are lost, not the failure
        return AnsibleError(f"`{step.command}` ended with {code}: {err.decode('utf-8', 'replace')} ({error})")
    return AnsibleError(f"`{step.command}` ended with {code}: {err.decode('utf-8', 'replace')}")


class _Action:
    """What the two functions of core use of an action plugin. Each command that they run has the result that is known."""

    _cleanup_remote_tmp = False

    def __init__(self, step: Step, result: dict[str, Any]) -> None:
        self._step = step
        self._result = result
        self._connection = self._shell = self
        self.transport = "roamlet"
        self.tmpdir: str | None = None

    def is_pipelining_enabled(self, *_: Any, **__: Any) -> bool:
        return False

    def mkdtemp(self, **_: Any) -> str:
        return (one_word(self._step.command.partition(" -c ")[2]) or self._step.command).removesuffix(END)

    def _generate_temp_dir_name(self) -> str:
        return str(self._step.values[1])

    def _low_level_execute_command(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self._result

    def _remote_chmod(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self._result

    def _remote_expand_user(self, *_: Any, **__: Any) -> str:
        return str(self._step.values[0])

    def get_shell_option(self, *_: Any, **__: Any) -> str:
        return str(self._step.values[0])

    def _get_remote_user(self, *_: Any) -> str:
        return ""

    def _is_become_unprivileged(self) -> bool:
        return False
