"""Command lines that start an interpreter: read, refused, and made again for a zygote."""

import json
import shlex
import subprocess
import sys

import pytest

from roamlet_ansible.cores import commands

from . import plugins
from .plugins import Become, Pfexec, RunAs, Shell, Su, Sudo, executed, module_command

PROGRAM = 'import os,json;print(json.dumps([dict(os.environ),"%s,%d"%("a",1)]))'
ODD = {
    "A": 'it\'s "x" $HOME `id` \\ %s',
    "EMPTY": "",
    "LINES": "a\nb\tc\n",
    "WORDS": "é \U0001f600",
    "http_proxy": "http://u:p@h:1/?a=b",
}

environments = pytest.mark.parametrize(
    "environment", [{}, {"A": "b"}, ODD], ids=["no-variables", "a-variable", "odd-variables"]
)


@pytest.mark.parametrize("quoting", [True, False], ids=["quoting", "plain"])
@environments
def test_a_command_without_become_is_read(environment, quoting):
    shell = Shell(quoting=quoting)
    command = commands.recognise(module_command(shell, environment=environment), shell)
    assert command is not None
    assert (command.interpreter, command.environment, command.account) == ("/usr/bin/python3", environment, None)


@pytest.mark.parametrize("plugin", plugins.READ)
@pytest.mark.parametrize("executable", ["/bin/sh", "/usr/bin/bash"])
@environments
def test_a_command_through_any_become_plugin_is_read(plugin, executable, environment):
    shell, become = Shell(executable), plugin(flags="-H -S --keep=A,B", user="a.b-c_d@x")
    text = module_command(shell, become, environment=environment)
    state = dict(vars(become))
    command = commands.recognise(text, shell, become)
    assert command is not None
    assert (command.interpreter, command.environment, command.executable) == (
        "/usr/bin/python3",
        environment,
        executable,
    )
    assert commands.escalations.PLACE in command.account
    assert vars(become) == state


@pytest.mark.parametrize("plugin", plugins.READ)
def test_one_account_is_the_same_for_all_tasks_and_another_for_another_user(plugin):
    shell = Shell()

    def zygote(user="root", environment=None, interpreter="/usr/bin/python3"):
        become = plugin(user=user, password="secret")
        command = commands.recognise(module_command(shell, become, interpreter, environment), shell, become)
        assert "secret" not in command.zygote
        return command.zygote

    assert zygote() == zygote(environment={"A": "1", "PATH": "/x"})
    assert (
        len({zygote(), zygote("other"), zygote(interpreter="/opt/python"), zygote(environment={"PYTHONPATH": "/x"})})
        == 4
    )


@pytest.mark.parametrize("plugin", plugins.READ)
@environments
def test_a_zygote_is_started_by_the_command_that_the_become_plugin_would_make(plugin, environment):
    shell, become = Shell(), plugin(password="secret")
    command = commands.recognise(
        module_command(shell, become, environment={**environment, "LC_ALL": "C"}), shell, become
    )
    identity = become._id
    again = become.build_become_command(f"LC_ALL=C /usr/bin/python3 -c {shlex.quote(PROGRAM)}", shell)
    assert commands.zygote_command(command, PROGRAM) == f"/bin/sh -c {shlex.quote(again.replace(become._id, identity))}"


@pytest.fixture
def become_program(tmp_path):
    """A program that is called as sudo and the others are: it runs its last words, after an option if it is told one."""
    path = tmp_path / "become"
    path.write_text('#!/bin/sh\nwhile [ "$1" != "--run" ]; do shift; done\nshift\nexec "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("plugin", [None, Sudo, plugins.Doas, Su])
def test_a_zygote_has_the_variables_of_the_interpreters_start_as_the_module_would(plugin, become_program):
    """The shells run for real: what the interpreter gets is what was given, through all quoting."""
    shell = Shell()
    become = None
    if plugin is not None:
        # The words of these plugins before the shell are made the ones after which the stand-in runs the rest.
        become = plugin(exe=become_program, flags="--run /usr/bin/env", user="USER=root")
        if plugin is Sudo:
            become.user = "USER=root"
            become.made = lambda cmd, shell: f"{become_program} -u root --run {become.within(cmd, shell)}"
        elif plugin is Su:
            become.made = lambda cmd, shell: (
                f"{become_program} root --run /bin/sh -c {shlex.quote(become.within(cmd, shell))}"
            )
        else:
            become.made = lambda cmd, shell: (
                f"{become_program} --run /bin/sh -c {become.within(cmd, shell, shells=False)}"
            )
    given = {**ODD, "PYTHONTRICKS": ODD["A"], "LC_ALL": "C.UTF-8", "HOME": "/a b/'c'"}
    text = module_command(shell, become, sys.executable, given)
    command = commands.recognise(text, shell, become)
    script = b'import os,json;print(json.dumps([dict(os.environ),"%s,%d"%("a",1)]))'
    stock = _output(text, script, become)
    zygote = _output(commands.zygote_command(command, PROGRAM), b"", become)
    assert {name: stock[0][name] for name in given} == given == command.environment
    assert {name: zygote[0][name] for name in command.starting} == command.starting
    assert set(command.starting) == {"PYTHONTRICKS", "LC_ALL", "HOME"}
    assert stock[1] == zygote[1] == "a,1"


def _output(text, given, become):
    lines = (
        subprocess.run(text, shell=True, input=given, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    )
    if become is not None:
        assert lines.pop(0) == become.success
    return json.loads(lines[0])


READ_INTERPRETERS = {
    "/usr/bin/python3": True,
    "/opt/a b/o'x/bin/python": True,
    "python3": True,
    "python3.12": True,
    "./bin/python": True,
    "~/venv/bin/python": False,
    "~user/venv/bin/python": False,
    "/usr/bin/env python3": False,
    "/usr/bin/python3 -s -E": False,
    "/usr/bin/python -tt": False,
}


@pytest.mark.parametrize(("interpreter", "quoted"), READ_INTERPRETERS.items())
def test_interpreters_are_read_as_the_core_writes_them(interpreter, quoted):
    plain = interpreter != "/opt/a b/o'x/bin/python"
    for shell in [Shell(quoting=True), *([Shell(quoting=False)] if plain else [])]:
        command = commands.recognise(module_command(shell, None, interpreter), shell)
        if quoted or not shell.quoting:
            assert command.interpreter == (shlex.quote(interpreter) if shell.quoting else interpreter)
        elif command is not None:
            # A newer core quotes them, and then no program has such a name: the zygote's shell says so, as the module's would.
            assert command.interpreter == shlex.quote(interpreter)


@pytest.mark.parametrize(
    "interpreter",
    [
        "",
        "exit",
        "exec python3",
        "A=/x/python",
        "/usr/bin/env A=1 python3",
        "/usr/bin/env -i python3",
        "/usr/bin/python3 -u",
        "/usr/bin/python3 -m x",
        "/usr/bin/python3 -c x",
        "/usr/bin/python3 x",
        "/usr/bin/python3; id",
        "/usr/bin/python3 && id",
        "/usr/bin/python3 | cat",
        "/usr/bin/python3 > /x",
        "/usr/bin/python3\nid",
        "/usr/bin/python3 # x",
        "$HOME/bin/python",
        "`which python`",
        "/usr/bin/pyth*n",
        "/opt/a b/python",
        "-x/python",
    ],
)
def test_other_interpreters_are_not_read(interpreter):
    shell = Shell(quoting=False)
    assert commands.recognise(module_command(shell, None, interpreter), shell) is None
    become = Sudo()
    assert commands.recognise(module_command(shell, become, interpreter), shell, become) is None


@pytest.mark.parametrize(
    "name", ["A B", "1A", "A-B", "A;id", "BASH_ENV", "ENV", "IFS", "UID", "PWD", "_", "SHELLOPTS", "RANDOM", "PPID"]
)
def test_variables_with_names_that_a_shell_reads_differently_are_not_read(name):
    shell = Shell()
    assert commands.recognise(module_command(shell, environment={name: "x"}), shell) is None


def test_the_path_counts_for_the_start_of_an_interpreter_that_is_searched_there():
    shell = Shell(quoting=False)
    for interpreter, starting in {
        "/usr/bin/python3": {},
        "python3": {"PATH": "/x"},
        "/usr/bin/env python3": {"PATH": "/x"},
    }.items():
        assert commands.recognise(module_command(shell, None, interpreter, {"PATH": "/x"}), shell).starting == starting


def test_variables_that_count_when_an_interpreter_starts_are_those_of_its_zygote():
    early = [
        "PYTHONPATH",
        "PYTHONX",
        "LD_PRELOAD",
        "LC_ALL",
        "LANG",
        "MALLOC_ARENA_MAX",
        "OPENSSL_CONF",
        "GLIBC_TUNABLES",
        "HOME",
        "NLSPATH",
    ]
    late = ["A", "TZ", "http_proxy", "TMPDIR", "DEBIAN_FRONTEND", "PATH", "LANGX", "XLANG", "MYPYTHONPATH"]
    shell = Shell()
    command = commands.recognise(module_command(shell, environment=dict.fromkeys(early + late, "x")), shell)
    assert command.starting == dict.fromkeys(sorted(early), "x")
    assert command.zygote.count("=x ") == len(early)


def test_the_newest_cores_add_nothing_to_the_command():
    assert commands.recognise("/bin/sh -c /usr/bin/python3", Shell()).interpreter == "/usr/bin/python3"
    assert commands.recognise("/bin/sh -c 'A=1 /usr/bin/python3'", Shell()).environment == {"A": "1"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/usr/bin/python3",
        "/bin/sh -c '/usr/bin/python3'",
        "/bin/sh -c '/usr/bin/python3 && sleep 0' ",
        "/bin/sh -c '/usr/bin/python3  && sleep 0'",
        "/bin/sh -c ' /usr/bin/python3 && sleep 0'",
        "/bin/sh  -c '/usr/bin/python3 && sleep 0'",
        '/bin/sh -c "/usr/bin/python3 && sleep 0"',
        "/bin/sh -c '/usr/bin/python3 && sleep 0'; id",
        "/bin/sh -c '/usr/bin/python3 && sleep 0''",
        "/bin/sh -c '/usr/bin/python3 && sleep 0\0'",
        "/bin/sh -c '/usr/bin/python3 && sleep 0 && sleep 0'",
        "/bin/sh -c 'A=1  /usr/bin/python3 && sleep 0'",
        "/bin/sh -c 'A=\"1\" /usr/bin/python3 && sleep 0'",
        "/bin/sh -c 'A=1 A=2 /usr/bin/python3 && sleep 0'",
        "/bin/sh -c 'A=$B /usr/bin/python3 && sleep 0'",
        "/bin/sh -c 'cd /x && /usr/bin/python3 && sleep 0'",
        "/bin/sh -c 'echo BECOME-SUCCESS-x ; /usr/bin/python3 && sleep 0'",
        "/usr/bin/fish -c '/usr/bin/python3 && sleep 0'",
        "/bin/bash -l -c '/usr/bin/python3 && sleep 0'",
        "sh -c '/usr/bin/python3 && sleep 0'",
        "/bin/sh -c '/bin/sh -c '\"'\"'/usr/bin/python3 && sleep 0'\"'\"' && sleep 0'",
    ],
)
def test_other_commands_are_not_read(text):
    assert commands.recognise(text, Shell()) is None
    assert commands.recognise(text, Shell(), Sudo()) is None


def test_a_shell_of_another_family_is_not_read():
    shell = Shell()
    text = module_command(shell)
    shell.SHELL_FAMILY = "powershell"
    assert commands.recognise(text, shell) is None
    assert commands.recognise(text, None) is None


@pytest.mark.parametrize("plugin", [RunAs, Pfexec])
def test_become_plugins_whose_command_cannot_be_proved_are_not_read(plugin):
    shell, become = Shell(), plugin()
    assert commands.recognise(module_command(shell, become), shell, become) is None


@pytest.mark.parametrize(
    "user",
    [
        "o'neil",
        "$USER",
        "`id`",
        "root; id",
        "root && id",
        "root #",
        "a\nb",
        "*",
        "{a,b}",
        "root | cat",
        "root > /x",
        '"',
    ],
)
@pytest.mark.parametrize("plugin", [Sudo, Su])
def test_users_with_characters_of_the_shell_are_not_read(plugin, user):
    shell, become = Shell(), plugin(user=user)
    assert commands.recognise(module_command(shell, become), shell, become) is None


def test_a_folder_for_sudo_is_part_of_the_account():
    shell, become = Shell(), Sudo()
    become.folder = "/a b/c"
    command = commands.recognise(module_command(shell, become), shell, become)
    assert command.account.startswith("cd '/a b/c' && sudo ")
    become.folder = "/a`id`"
    assert commands.recognise(module_command(shell, become), shell, become).account.startswith("cd '/a`id`' && sudo ")


def test_a_command_of_an_earlier_become_is_not_read():
    """The state of the plugin is another one: its marker is not the one in the text."""
    shell, become = Shell(), Sudo()
    text = module_command(shell, become)
    become.build_become_command("true", shell)
    assert commands.recognise(text, shell, become) is None
    assert commands.recognise(text, shell, None) is None


def test_a_command_made_with_other_options_is_not_read():
    shell, become = Shell(), Sudo(user="root")
    text = module_command(shell, become)
    become.user = "other"
    assert commands.recognise(text, shell, become) is None


def test_a_command_that_did_not_go_through_the_become_plugin_is_read_as_one_without():
    shell, become = Shell(), Sudo()
    become.build_become_command("true", shell)
    assert commands.recognise(module_command(shell), shell, become).account is None


class Broken(Sudo):
    def made(self, cmd, shell):
        if "probe" in cmd:
            raise RuntimeError("this plugin knows its commands")
        return super().made(cmd, shell)


class Fickle(Sudo):
    def made(self, cmd, shell):
        self.flags += " -x"
        return super().made(cmd, shell)


class Twice(Sudo):
    def made(self, cmd, shell):
        return f"{super().made(cmd, shell)} {shlex.quote(cmd)}"


class Changing(Sudo):
    def made(self, cmd, shell):
        return super().made(cmd.replace("probe", "prob"), shell)


class DoubleQuotes(Become):
    def made(self, cmd, shell):
        return f'x /bin/sh -c "echo {self.success} ; {cmd}"'


class Piped(Sudo):
    def made(self, cmd, shell):
        return super().made(cmd, shell) + " | cat"


class Before(Sudo):
    def made(self, cmd, shell):
        return "id ; " + super().made(cmd, shell)


@pytest.mark.parametrize("plugin", [Broken, Fickle, Twice, Changing, DoubleQuotes, Piped, Before])
def test_become_plugins_that_behave_otherwise_are_not_read(plugin):
    shell, become = Shell(), plugin()
    text = module_command(shell, become)
    state = dict(vars(become))
    assert commands.recognise(text, shell, become) is None
    assert vars(become) == state


@pytest.mark.parametrize("program", ["print('x')", "a\nb", "a\\b", "$a", "`a`", "a!b", "a\0b"])
def test_a_program_that_a_shell_would_change_is_refused(program):
    shell = Shell()
    command = commands.recognise(module_command(shell), shell)
    with pytest.raises(ValueError, match="that some shell would change"):
        commands.zygote_command(command, program)


def test_a_string_with_tags_gives_plain_strings():
    class Tagged(str):
        __slots__ = ()

    shell, become = Shell(), Sudo()
    command = commands.recognise(Tagged(module_command(shell, become, environment={"A": "b"})), shell, become)
    assert {
        type(text) for text in (command.interpreter, command.account, command.environment["A"], command.zygote)
    } == {str}


def test_one_changed_character_is_never_read_as_the_same_command():
    shell, become = Shell(), Sudo(password="secret")
    text = module_command(shell, become, environment={"A": "it's"})
    right = commands.recognise(text, shell, become)
    for place in range(len(text)):
        for character in "' \";$&x":
            changed = f"{text[:place]}{character}{text[place + 1 :]}"
            found = commands.recognise(changed, shell, become)
            if changed != text and found is not None:
                # Only what a task may choose is different: a variable, the interpreter, or the shell.
                assert found.account == right.account
                cmd = shell.build_module_command(
                    shell.env_prefix(**found.environment), f"#!{found.interpreter}", ""
                ).strip()
                assert executed(found.escalation.around(cmd), found.executable) == changed
