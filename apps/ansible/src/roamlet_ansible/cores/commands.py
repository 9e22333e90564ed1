"""Reads the command line by which ansible-core starts a module's interpreter, and writes the one that starts a zygote like it.

`recognise` makes the command again, by the become plugin's and the shell plugin's own functions, from what it has read, and returns
None where that gives another text. What is not recognised runs as the command that it is.
"""

import re
import shlex
from typing import Any

from . import escalations
from .escalations import Escalation
from .plain import END, Command, assignments, one_word

__all__ = ["Command", "Escalation", "recognise", "zygote_command"]


# These are read when an interpreter starts or when its libraries are loaded. HOME leads to the user's own site-packages.
_AT_START = re.compile(
    r"(PYTHON|LD_|LC_|DYLD_|MALLOC_|OPENSSL_|SSL_CERT_)\w*|LANG|LANGUAGE|GLIBC_TUNABLES|LOCPATH|NLSPATH|UNIXCONFDIR|UNIXUSRLIBDIR|HOME"
)
# Shells give these a meaning of their own, refuse to set them, or set them themselves for what they start.
_OF_SHELLS = re.compile(
    r"BASH\w*|SHELLOPTS|POSIXLY_CORRECT|ENV|E?[UG]ID|PPID|USERNAME|GROUPS|IFS|PS[0-9]|PROMPT\w*|PWD|OLDPWD|CDPATH"
    r"|SHLVL|_|OPT(IND|ARG|ERR)|LINENO|RANDOM|SRANDOM|SECONDS|EPOCH\w+|DIRSTACK|FUNCNAME|HIST\w*|COMP_\w+|TMOUT|TIMEFORMAT|KSH\w*|FPATH"
)
_SHELLS = re.compile(r"(/[A-Za-z0-9_.+-]+)*/(sh|bash|dash|ash|ksh|ksh93|mksh)")
_QUOTED = r"""(?:[A-Za-z0-9_@%+=:,./-]+|'[^']*'(?:"'"'[^']*')*)"""  # as shlex.quote() writes
_ASSIGNMENT = re.compile(rf"([A-Za-z_][A-Za-z0-9_]*)=({_QUOTED}) ")
# A name without a folder is one of Python's own, so that no word of the shell's language is taken for an interpreter.
_PATH = r"~?[A-Za-z0-9_@%+:,.-]*/[A-Za-z0-9_@%+:,./-]+|'[^']*/[^']*'(?:\"'\"'[^']*')*|(?:python|pypy)[0-9.]*"
_INTERPRETER = re.compile(rf"(?:(?:/usr)?/bin/env )?(?![+-])(?:{_PATH})(?: -[BEIst]+)*")


def recognise(cmd: str, shell: Any, become: Any = None) -> Command | None:
    """Read what exec_command() got together with a module: None unless it is exactly what core makes of what was read.

    `shell` is the connection's shell plugin. `become` is its become plugin, as core has left it after it made this command; it is
    left so. Does not block. Not thread-safe as regards `become`.
    """
    text = str.__str__(cmd)  # a plain string: the newer cores have strings with tags
    executable, _, rest = text.partition(" -c ")
    if "\0" in text or getattr(shell, "SHELL_FAMILY", None) != "sh" or not _SHELLS.fullmatch(executable):
        return None
    if getattr(become, "name", None) == "runas":
        return None  # it becomes by other means than a command
    words = one_word(rest)
    if words is None:
        return None
    inner = words.removesuffix(END)
    escalation = None
    if "BECOME-SUCCESS-" in inner:
        escalation = None if become is None else escalations.find(inner, shell, become)
        if escalation is None:
            return None
        inner = escalation.command
    return _of_module(inner, shell, executable, escalation)


def zygote_command(command: Command, program: str) -> str:
    """The command that starts `interpreter -c program` as the one that was recognised starts its interpreter.

    It has that task's own marker and prompt, so the become plugin's state is right for watching its output. Raises ValueError for a
    `program` of several lines, or with quotes, backslashes, dollar signs, backquotes or exclamation marks.
    """
    if re.search(r"['\\$`!\0\r\n]", program):
        raise ValueError(f"a program for `python -c` that some shell would change: {program!r}")
    inner = f"{assignments(command.starting)}{command.interpreter} -c {shlex.quote(program)}"
    if command.escalation is not None:
        inner = command.escalation.around(inner)
    return f"{command.executable} -c {shlex.quote(inner)}"


def _of_module(text: str, shell: Any, executable: str, escalation: Escalation | None) -> Command | None:
    environment = {}
    end = 0
    while found := _ASSIGNMENT.match(text, end):
        value = one_word(found[2])
        if value is None or found[1] in environment or _OF_SHELLS.fullmatch(found[1]):
            return None
        environment[found[1]] = value
        end = found.end()
    interpreter = text[end:]
    if not _INTERPRETER.fullmatch(interpreter) or not _as_core_makes_it(text, shell, environment, interpreter):
        return None
    absolute = interpreter.removeprefix("'").startswith("/") and "/env " not in interpreter
    return Command(
        interpreter=interpreter,
        environment=environment,
        account=None if escalation is None else escalation.account,
        executable=executable,
        starting={
            name: value
            for name, value in sorted(environment.items())
            if _AT_START.fullmatch(name) or (name == "PATH" and not absolute)
        },
        escalation=escalation,
    )


def _as_core_makes_it(text: str, shell: Any, environment: dict[str, str], interpreter: str) -> bool:
    """Whether the shell plugin makes this text. Cores until 2.17.0 write the interpreter as it is, later ones quote it."""
    prefix = shell.env_prefix(**environment)
    if f"{prefix} " != assignments(environment) and environment:
        return False
    written = [interpreter]
    unquoted = one_word(interpreter)
    if unquoted is not None:
        written.append(unquoted)
    return any(shell.build_module_command(prefix, f"#!{one}", "").strip() == text for one in written)
