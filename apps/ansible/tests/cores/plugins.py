"""Shell and become plugins for the tests: the interface of core's, and the command lines that those of well-known tools make."""

import secrets
import shlex
import string


class Shell:
    """A shell plugin. `quoting`: as of ansible-core 2.17.1, which quotes the interpreter."""

    SHELL_FAMILY = "sh"
    ECHO = "echo"
    COMMAND_SEP = ";"

    def __init__(self, executable="/bin/sh", quoting=True):
        self.executable = executable
        self.quoting = quoting

    def env_prefix(self, **variables):
        return " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())

    def build_module_command(self, env_string, shebang, cmd, arg_path=None):
        assert not cmd and arg_path is None
        interpreter = shebang.removeprefix("#!").strip()
        return f"{env_string} {shlex.quote(interpreter) if self.quoting else interpreter} ".lstrip()


class Become:
    """A become plugin. Subclasses define made()."""

    prompt = ""

    def __init__(self, exe=None, flags="", user="root", password=None):
        self.exe = exe or type(self).__name__.lower()
        self.flags = flags
        self.user = user
        self.password = password
        self.success = self._id = ""

    def build_become_command(self, cmd, shell):
        self._id = "".join(secrets.choice(string.ascii_lowercase) for _ in range(32))
        self.success = f"BECOME-SUCCESS-{self._id}"
        return self.made(cmd, shell)

    def within(self, cmd, shell, shells=True):
        words = shlex.quote(f"{shell.ECHO} {self.success} {shell.COMMAND_SEP} {cmd}")
        return f"{shell.executable} -c {words}" if shells else words

    def made(self, cmd, shell):
        raise NotImplementedError


class Sudo(Become):
    folder = None

    def made(self, cmd, shell):
        ask = ""
        if self.password:
            self.prompt = f"[sudo via ansible, key={self._id}] password:"
            ask = f'-p "{self.prompt}"'
        first = f"cd {shlex.quote(self.folder)} && " if self.folder else ""
        return first + " ".join([self.exe, self.flags, ask, f"-u {self.user}", self.within(cmd, shell)])


class Su(Become):
    def made(self, cmd, shell):
        self.prompt = True
        return f"{self.exe} {self.flags} {self.user} -c {shlex.quote(self.within(cmd, shell))}"


class Doas(Become):
    def made(self, cmd, shell):
        self.prompt = True
        return f"{self.exe} {self.flags} -u {self.user} {shell.executable} -c {self.within(cmd, shell, shells=False)}"


class Dzdo(Become):
    def made(self, cmd, shell):
        self.prompt = f"[dzdo via ansible, key={self._id}] password:"
        return f'{self.exe} -p "{self.prompt}" -u {self.user} {self.within(cmd, shell)}'


class Ksu(Become):
    def made(self, cmd, shell):
        return f"{self.exe} {self.user} {self.flags} -e {self.within(cmd, shell)} "


class Machinectl(Become):
    def made(self, cmd, shell):
        return f"{self.exe} -q shell {self.flags} {self.user}@ {self.within(cmd, shell)}"


class Pbrun(Become):
    """Its own program is a shell: none is put around the command."""

    def made(self, cmd, shell):
        return f"{self.exe} {self.flags} -u {self.user} {self.within(cmd, shell, shells=False)}"


class Sesu(Become):
    def made(self, cmd, shell):
        return f"{self.exe} {self.flags} {self.user} -c {self.within(cmd, shell, shells=False)}"


class SudoSu(Become):
    def made(self, cmd, shell):
        return f"sudo {self.flags} su -l {self.user} {self.within(cmd, shell)}"


class Pfexec(Become):
    """Puts what is quoted already between double quotes, where quoting has another meaning."""

    def made(self, cmd, shell):
        return f'{self.exe} {self.flags} "{self.within(cmd, shell, shells=False)}"'


class RunAs(Become):
    """Leaves the command alone: what becomes is not a command."""

    name = "runas"

    def build_become_command(self, cmd, shell):
        return cmd


READ = (Sudo, Su, Doas, Dzdo, Ksu, Machinectl, Pbrun, Sesu, SudoSu)


def executed(cmd, executable="/bin/sh"):
    """What exec_command() gets for a command."""
    return f"{executable} -c {shlex.quote(f'{cmd} && sleep 0')}"


def module_command(shell, become=None, interpreter="/usr/bin/python3", environment=None):
    """What exec_command() gets for a module."""
    cmd = shell.build_module_command(shell.env_prefix(**(environment or {})), f"#!{interpreter}", "").strip()
    return executed(cmd if become is None else become.build_become_command(cmd, shell), shell.executable)
