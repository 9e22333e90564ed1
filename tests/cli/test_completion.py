"""`roamlet completion` and `roamlet man` name every command and option that `--help` names, and shells take what is written."""

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from roamlet.cli import described_command, main
from roamlet.cli.describing import bash, fish, pages, zsh
from tools import unpack_debian

UNPACKED = Path(__file__).parents[2] / ".venv" / "shells"
PACKAGES = {"mandoc": ["mandoc"], "zsh-static": ["zsh-static", "zsh-common"], "fish": ["fish"]}

OPTION = re.compile(r"^ +(-.*?)(?:  |$)", re.MULTILINE)
NAME = re.compile(r"(?<!\S)--?[a-zA-Z][\w-]*")


@pytest.fixture(scope="module")
def commands():
    """{words: command} of roamlet and all apps."""
    return {command.words: command for command in described_command().all()}


def in_help(words, capsys):
    """The options that `--help` of a command lists."""
    assert main([*words[1:], "--help"]) == 0
    shown = capsys.readouterr().out.partition("\noptions:")[2]
    return {name for line in OPTION.findall(shown) for name in NAME.findall(line)}


def shell(name):
    """The words that start it and its environment. Skips where it can be had from nowhere."""
    folder = UNPACKED.with_name(f"shells-{name}")
    try:
        found = shutil.which(name) or str(
            next(unpack_debian.unpack(folder, PACKAGES[name]).glob(f"**/bin/{name}")).resolve()
        )
    except unpack_debian.CannotUnpack as error:
        pytest.skip(f"{name} is not installed: {error}")
    return found, {**os.environ, **unpack_debian.environment(folder)} if folder.exists() else dict(os.environ)


def test_every_command_has_what_its_help_has(commands, capsys):
    assert len(commands) > 20
    for words, command in commands.items():
        assert set(command.flags()) == in_help(words, capsys), words
        assert command.help or words == ("roamlet",)
        assert "%" not in command.description or "%(" not in command.description


def offered_by_bash(script, *lines):
    """What bash offers at the end of each line, which is given as its words."""
    program = [script]
    for words in lines:
        program += [
            f"COMP_WORDS=({' '.join(shlex.quote(word) for word in words)}); COMP_CWORD={len(words) - 1}",
            "compopt() { :; }; _roamlet; printf '%s ' \"${COMPREPLY[@]}\"; echo",
        ]
    told = subprocess.run(
        ["bash", "--norc", "-euc", "\n".join(program)], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stderr == ""
    return [line.split() for line in told.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_offers_every_option_and_command(commands):
    script = bash.script(described_command())
    offered = offered_by_bash(script, *([*words, "-"] for words in commands))
    assert dict(zip(commands, map(set, offered), strict=True)) == {
        words: set(command.flags()) for words, command in commands.items()
    }
    above = [words for words, command in commands.items() if command.commands]
    offered = offered_by_bash(script, *([*words, ""] for words in above))
    assert offered == [[each.words[-1] for each in commands[words].commands] for words in above]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_offers_values_files_and_hosts(tmp_path, monkeypatch):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text(
        "Host web01 web02\n  User x\nHost *.example !no\nhost = db\nHost x$(touch${IFS}made) `touch made`\n"
    )
    (tmp_path / "a file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    script = bash.script(described_command())
    assert offered_by_bash(
        script,
        ["roamlet", "put", "--symlinks", ""],
        ["roamlet", "put", "--symlinks", "=", "fo"],
        ["roamlet", "run", "-H", ""],
        ["roamlet", "run", "-H", "db,we"],
        ["roamlet", "completion", ""],
        ["roamlet", "show", "a"],
        ["roamlet", "run", "--at-once", ""],
        ["roamlet", "vpn", "apply", "--ye"],
    ) == [
        ["keep", "follow", "skip"],
        ["follow"],
        ["web01", "web02", "db"],
        ["db,web01", "db,web02"],
        ["bash", "zsh", "fish"],
        ["a", "file"],
        [],
        ["--yes"],
    ]
    assert not (tmp_path / "made").exists()


def test_fish_offers_every_option_and_command(commands, tmp_path):
    program, environment = shell("fish")
    functions = UNPACKED.with_name("shells-fish") / "usr/share/fish/functions"  # where it is not installed
    (tmp_path / "roamlet.fish").write_text(fish.script(described_command()))
    asked = [f"complete -C {shlex.quote(' '.join([*words, '-']))}; echo =" for words in commands]
    told = subprocess.run(
        [program, "-c", "\n".join([f"set -p fish_function_path {functions}", "source roamlet.fish", *asked])],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=tmp_path,
        env={**environment, "HOME": str(tmp_path)},
    )
    assert told.stderr == ""
    offered = [{line.partition("\t")[0] for line in block.splitlines()} for block in told.stdout.split("=\n")[:-1]]
    for (words, command), options in zip(commands.items(), map(lambda each: each - {""}, offered), strict=True):
        # Of an option with two names fish offers the long one where the word before the cursor is a dash alone.
        assert options <= set(command.flags()), words
        assert all(options & set(option.names) for option in command.options), words
    lines = (tmp_path / "roamlet.fish").read_text().splitlines()
    for words, command in commands.items():
        own = [
            line for line in lines if f"__roamlet_at {fish._quoted(' '.join(words[1:]))}".replace("'", "\\'") in line
        ]
        short = {name for name in command.flags() if not name.startswith("--")}
        assert {f"-{letter}" for line in own for letter in re.findall(r" -s (\S)", line)} == short, words
    assert all(f"-a '{words[-1]}'" in (tmp_path / "roamlet.fish").read_text() for words in list(commands)[1:])


CAPTURE = """
fpath=(@FUNCTIONS@ $fpath)
autoload -Uz compinit && compinit -u -D
source @SCRIPT@
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return $?; fi
    typeset -a hits
    builtin compadd -A hits "$@"
    print -rl -- $hits >>@HITS@
}
finish() { exit 0 }
comppostfuncs=(finish)
PROMPT='ready> '
"""


def offered_by_zsh(script, line, folder):
    program, environment = shell("zsh-static")
    functions = sorted(
        {path.parent for path in UNPACKED.parent.glob("shells-zsh-static/usr/share/zsh/functions/**/_*")}
    )
    functions += [UNPACKED.parent / "shells-zsh-static/usr/share/zsh/functions/Completion"]
    (folder / "_roamlet").write_text(script)
    hits = folder / "hits"
    hits.unlink(missing_ok=True)
    capture = CAPTURE.replace("@FUNCTIONS@", " ".join(map(str, functions))).replace("@HITS@", str(hits))
    (folder / "capture").write_text(capture.replace("@SCRIPT@", str(folder / "_roamlet")))
    ours, its = pty.openpty()
    with subprocess.Popen(
        [program, "-f", "-i"],
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        env={**environment, "TERM": "xterm", "HOME": str(folder)},
    ) as process:
        os.close(its)
        try:
            os.write(ours, f"source {folder / 'capture'}\n".encode())
            said = b""
            while b"ready> " not in said:
                assert select.select([ours], [], [], 60)[0], said
                said += os.read(ours, 4096)
            os.write(ours, line.encode() + b"\t")
            while process.poll() is None:
                if select.select([ours], [], [], 0.1)[0]:
                    try:
                        said += os.read(ours, 4096)
                    except OSError:  # nothing has it open on the other side
                        break
        finally:
            os.close(ours)
            process.kill()
    return [each for each in hits.read_text().splitlines() if each.strip()]


def test_zsh_offers_options_commands_and_values(commands, tmp_path):
    script = zsh.script(described_command())
    options = offered_by_zsh(script, "roamlet vpn apply --", tmp_path)
    assert set(options) == {name for name in commands["roamlet", "vpn", "apply"].flags() if name.startswith("--")}
    assert offered_by_zsh(script, "roamlet lab ", tmp_path) == [
        each.words[-1] for each in commands["roamlet", "lab"].commands
    ]
    assert offered_by_zsh(script, "roamlet put --symlinks ", tmp_path) == ["keep", "follow", "skip"]


def test_zsh_is_told_every_option(commands):
    script = zsh.script(described_command())
    for words, command in commands.items():
        function = script.partition(f"\n_{'_'.join(words)}() {{")[2].partition("\n}\n")[0]
        assert all(re.search(rf"'\*{re.escape(name)}[=+\[]", function) for name in command.flags()), words
        assert all(f"'{each.words[-1]}:" in function for each in command.commands), words


def test_the_command_writes_them(capsys):
    for name, made in (("bash", bash), ("zsh", zsh), ("fish", fish)):
        assert main(["completion", name]) == 0
        assert capsys.readouterr().out == made.script(described_command())
    assert main(["completion", "tcsh"]) == 64


def test_manual_pages_name_every_option_and_command(commands, tmp_path, capsys):
    assert main(["man", "--into", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{len(commands)} pages in {tmp_path}/man1\n"
    for words, command in commands.items():
        text = (tmp_path / "man1" / f"{'-'.join(words)}.1").read_text().replace("\\-", "-")
        options = text.partition(".SH OPTIONS")[2]
        assert all(f"\\fB{name}\\fR" in options for name in command.flags()), words
        assert all(f"\n.B {each.words[-1]}\n" in text for each in command.commands), words
        assert all(f"\\fB{'-'.join(each.words)}\\fR(1)" in text for each in command.commands), words


def test_manual_pages_are_what_mandoc_understands(tmp_path, capsys):
    assert main(["man", "--into", str(tmp_path)]) == 0
    mandoc, environment = shell("mandoc")
    paths = sorted(map(str, (tmp_path / "man1").iterdir()))
    done = subprocess.run(
        [mandoc, "-T", "lint", "-W", "warning", *paths], capture_output=True, text=True, env=environment, check=False
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line]
    assert said == []
    (tmp_path / "wrong.1").write_text(".TH X 1\n.nonsense\n")
    done = subprocess.run(
        [mandoc, "-T", "lint", str(tmp_path / "wrong.1")], capture_output=True, text=True, env=environment, check=False
    )
    assert "unknown macro" in done.stdout + done.stderr


def test_a_page_shows_its_text_as_it_is(capsys):
    assert main(["man", "run"]) == 0
    page = capsys.readouterr().out
    assert page.startswith('.TH "ROAMLET-RUN" 1 "" "roamlet ')
    assert ".SH EXIT STATUS" in page
    assert pages._roff(".TH 'quoted' C:\\x") == "\\&.TH 'quoted' C:\\ex"


def test_a_command_that_is_none_is_refused(capsys):
    assert main(["man", "no", "such"]) == 64
    assert "there is no command no such" in capsys.readouterr().err
    assert main(["man", "run", "--into", "x"]) == 64
