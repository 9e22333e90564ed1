"""Command lines that are read by comparison: what is read, and what is left to a shell."""

import shlex

import pytest

from roamlet_ansible.cores import commands, plain

from .plugins import Shell, executed, module_command


class FullShell(Shell):
    """With the texts that core's shell plugins make for temporary folders."""

    def expand_user(self, path, username=""):
        return f"echo {path}"

    def mkdtemp(self, basefile=None, system=False, mode=0o700, tmpdir=None):
        path = f"{tmpdir}/{basefile}"
        make = f'mkdir -p "` echo {tmpdir} `"&& mkdir "` echo {path} `" && echo {basefile}="` echo {path} `"'
        return f"( umask {0o777 & ~mode:o} && {make} )"

    def chmod(self, paths, mode):
        return shlex.join(["chmod", mode, *paths])

    def remove(self, path, recurse=False):
        return f"rm -f {'-r ' if recurse else ''}{shlex.quote(path)} > /dev/null 2>&1"


SHELL = FullShell()


@pytest.mark.parametrize("quoting", [True, False])
@pytest.mark.parametrize("executable", ["/bin/sh", "/bin/bash"])
def test_an_interpreter_alone_is_read_as_commands_reads_it(executable, quoting):
    shell = Shell(executable, quoting)
    for interpreter in ("/usr/bin/python3", "/opt/a-b_c/bin/python3.12"):
        text = module_command(shell, interpreter=interpreter)
        found = plain.interpreter(text, shell)
        assert found is not None
        assert found == commands.recognise(text, shell)
        assert found.zygote == commands.recognise(text, shell).zygote


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/usr/bin/python3",
        "/bin/sh -c python3",
        "/bin/sh -c '/usr/bin/python3'",
        "/bin/sh -c /usr/bin/python3;id",
        "/bin/sh -c /usr/bin/python*",
        "/bin/sh -c '~/python'",
        "/bin/sh -c 'A=1 /usr/bin/python3'",
        "/bin/fish -c /usr/bin/python3",
    ],
)
def test_other_interpreters_are_not_read_by_comparison(text):
    assert plain.interpreter(text, SHELL) is None


@pytest.mark.parametrize("end", ["", " && sleep 0"])
@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        (SHELL.expand_user("~"), "home", ("",)),
        (SHELL.expand_user("~admin"), "home", ("admin",)),
        (SHELL.mkdtemp("ansible-tmp-1.5-2", tmpdir="/h/a/.ansible/tmp"), "mkdir", ("/h/a/.ansible/tmp", "ansible-tmp-1.5-2")),
        (SHELL.chmod(["/t/a/", "/t/a/b"], "u+x"), "chmod", (0o100, ["/t/a/", "/t/a/b"])),
        (SHELL.chmod(["/t/a"], "u+rwx"), "chmod", (0o700, ["/t/a"])),
        (SHELL.remove("/t/ansible-tmp-1/", recurse=True), "remove", ("/t/ansible-tmp-1/",)),
    ],
)  # fmt: skip
def test_work_on_temporary_folders_is_read(text, kind, values, end):
    cmd = f"/bin/sh -c {shlex.quote(text + end)}"
    step = plain.step(cmd, SHELL)
    assert (step.kind, step.values, step.command) == (kind, values, cmd)


@pytest.mark.parametrize(
    "text",
    [
        "echo ~ ",
        "echo ~+",
        "echo ~-",
        "echo ~1",
        "echo ~admin/x",
        "echo ~admin ",
        "echo ~admin; id",
        "echo '~admin'",
        SHELL.mkdtemp("n", tmpdir="~/tmp"),
        SHELL.mkdtemp("n", tmpdir="$HOME/tmp"),
        SHELL.mkdtemp("n", tmpdir="/a b"),
        SHELL.mkdtemp("n", tmpdir="/a/../b"),
        SHELL.mkdtemp("n", tmpdir="/a`id`"),
        SHELL.mkdtemp(".n", tmpdir="/a"),
        SHELL.mkdtemp("n", mode=0o755, tmpdir="/a"),
        SHELL.mkdtemp("n", tmpdir="/a") + " ",
        SHELL.chmod(["/a"], "a+rx"),
        SHELL.chmod(["/a"], "u+s"),
        SHELL.chmod(["a"], "u+x"),
        SHELL.chmod(["/a b"], "u+x"),
        "chmod u+x /a*",
        "chmod u+x",
        SHELL.remove("/", recurse=True),
        SHELL.remove("/a/..", recurse=True),
        SHELL.remove("/a b", recurse=True),
        SHELL.remove("/a"),
        "rm -f -r /a /b > /dev/null 2>&1",
        "rm -f -r /a",
    ],
)
def test_other_work_is_left_to_the_shell(text):
    assert plain.step(executed(text), SHELL) is None


def test_a_text_is_not_read_when_the_plugin_makes_another():
    class Other(FullShell):
        def remove(self, path, recurse=False):
            return f"trash {path}"

    assert plain.step(executed(SHELL.remove("/a/b", recurse=True)), Other()) is None
    assert plain.step(executed("echo ~a"), type("Power", (FullShell,), {"SHELL_FAMILY": "powershell"})()) is None


def test_the_texts_are_those_of_core():
    sh = pytest.importorskip("ansible.plugins.shell.sh")
    shell = sh.ShellModule()
    for text in (
        shell.expand_user("~admin"),
        shell.mkdtemp(basefile=shell._generate_temp_dir_name(), system=False, tmpdir="/home/admin/.ansible/tmp"),
        shell.chmod(("/t/a/", "/t/a/b"), "u+x"),
        shell.chmod(("/t/a/", "/t/a/b"), "u+rwx"),
        shell.remove("/t/a/", recurse=True),
    ):
        assert plain.step(executed(text), shell) is not None, text
        assert plain.step(f"/bin/sh -c {shlex.quote(text)}", shell) is not None, text
