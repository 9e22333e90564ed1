"""The command lines of most tasks, read by comparison: an interpreter alone, and the work on temporary folders.

What a task imports and compiles for this counts, because each runs in a process of its own: there are no regular expressions here.
Each reader makes the command again by the shell plugin's own function and returns None where that gives another text.
"""

import shlex
from collections.abc import Sequence
from typing import Any

END = " && sleep 0"  # what core before 2.21 adds to each command that runs in the usual shell
_SHELLS = frozenset(("/bin/sh", "/bin/bash", "/bin/dash", "/usr/bin/sh", "/usr/bin/bash", "/usr/bin/dash"))
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_PATH = _NAME | frozenset("@%+:,/")  # what each shell leaves as it is, also without quotes and within `echo ...`
_MAKE = '( umask 77 && mkdir -p "` echo '
_BITS = {"r": 0o400, "w": 0o200, "x": 0o100}


class Command:
    """A command that starts an interpreter, which reads a module from its standard input."""

    __slots__ = ("account", "environment", "escalation", "executable", "interpreter", "starting")

    def __init__(
        self,
        interpreter: str,
        environment: dict[str, str],
        account: str | None,
        executable: str,
        starting: dict[str, str],
        escalation: Any,
    ) -> None:
        self.interpreter = interpreter  # as the shell reads it: "/usr/bin/python3", "/usr/bin/env python3"
        self.environment = environment  # variables of the task, all of them
        self.account = account  # the become command, with PLACE for what it runs; None without become
        self.executable = executable  # the shell around it: "/bin/sh"
        self.starting = starting  # those variables that take effect only when the interpreter starts
        self.escalation = escalation  # how this task's own become command is made, with its marker and its prompt

    @property
    def zygote(self) -> str:
        """The same text for all commands that one zygote can serve. Contains no password."""
        return shlex.join([self.executable, self.account or "", assignments(self.starting), self.interpreter])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Command) and all(getattr(self, one) == getattr(other, one) for one in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Command({', '.join(f'{one}={getattr(self, one)!r}' for one in self.__slots__)})"


def assignments(environment: dict[str, str]) -> str:
    """Variables as they are set before a command."""
    return "".join(f"{name}={shlex.quote(value)} " for name, value in environment.items())


def one_word(text: str) -> str | None:
    """The string that shlex.quote() writes as `text`; None if it never writes that."""
    value = text[1:-1].replace("'\"'\"'", "'") if text[:1] == "'" else text
    return value if shlex.quote(value) == text else None


def within(cmd: str, shell: Any) -> tuple[str, str] | None:
    """(executable, command) of what exec_command() got, where a usual shell runs a command: `EXECUTABLE -c COMMAND`."""
    executable, _, rest = str.__str__(cmd).partition(" -c ")  # a plain string: the newer cores have strings with tags
    if executable not in _SHELLS or getattr(shell, "SHELL_FAMILY", None) != "sh":
        return None
    text = one_word(rest)
    return None if text is None else (executable, text.removesuffix(END))


def interpreter(cmd: str, shell: Any) -> Command | None:
    """Read a command that starts an interpreter by its path, with no variables and no become. `commands` reads all others."""
    found = within(cmd, shell)
    if (
        found is None
        or not _is_path(found[1])
        or shell.build_module_command("", f"#!{found[1]}", "").strip() != found[1]
    ):
        return None
    return Command(found[1], {}, None, found[0], {}, None)


class Step:
    """Work on a temporary folder. `kind` and `values` are as runner.py takes them; `command` does the same in a shell."""

    __slots__ = ("command", "kind", "values")

    def __init__(self, kind: str, command: str, values: Sequence[Any]) -> None:
        self.kind = kind
        self.command = command
        self.values = values

    def __repr__(self) -> str:
        return f"Step({self.kind!r}, {self.command!r}, {self.values!r})"


def step(cmd: str, shell: Any) -> Step | None:
    """Read what core does beside modules: home [name], mkdir [folder, name], chmod [bits, paths], remove [path].

    A home's name is "" for the one that the session's variable HOME names.
    None unless the shell plugin makes exactly this text, and no shell would do anything else by it.
    """
    found = within(cmd, shell)
    if found is None:
        return None
    text = found[1]
    for begin, read in _READERS:
        if text.startswith(begin):
            values = read(text, shell)
            return None if values is None else Step(read.__name__[1:], str.__str__(cmd), values)
    return None


def _home(text: str, shell: Any) -> Sequence[Any] | None:
    name = text.removeprefix("echo ~")
    # Digits, plus and minus are entries of bash's stack of folders.
    if not _NAME.issuperset(name) or name[:1] == "-" or name.isdigit():
        return None
    return (name,) if shell.expand_user("~" + name) == text else None


def _mkdir(text: str, shell: Any) -> Sequence[Any] | None:
    folder, _, rest = text.removeprefix(_MAKE).partition(' `"')
    name = rest.partition(f"echo {folder}/")[2].partition(" ")[0]
    if not _is_path(folder) or not name or not _NAME.issuperset(name) or name[0] in ".-":
        return None
    return (folder, name) if shell.mkdtemp(basefile=name, system=False, tmpdir=folder) == text else None


def _chmod(text: str, shell: Any) -> Sequence[Any] | None:
    mode, *paths = text.removeprefix("chmod ").split(" ")
    letters = mode.removeprefix("u+")
    if not letters or not _BITS.keys() >= set(letters) or not paths or not all(map(_is_path, paths)):
        return None
    return (sum(_BITS[letter] for letter in set(letters)), paths) if shell.chmod(paths, mode) == text else None


def _remove(text: str, shell: Any) -> Sequence[Any] | None:
    path = text.removeprefix("rm -f -r ").partition(" ")[0]
    if not _is_path(path) or path.strip("/") == "" or not _NAME.issuperset(path.rstrip("/").rpartition("/")[2]):
        return None
    return (path,) if shell.remove(path, recurse=True) == text else None


_READERS = (("echo ~", _home), (_MAKE, _mkdir), ("chmod u+", _chmod), ("rm -f -r ", _remove))


def _is_path(text: str) -> bool:
    """Whether it is an absolute path that means the same to every shell, and to Python."""
    return text[:1] == "/" and _PATH.issuperset(text) and "/../" not in text + "/"
