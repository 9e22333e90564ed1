"""What the parent makes for a start: the payload, command lines that survive shells, and the reading of what comes back."""

import ast
import random
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from roamlet.wire import build, protocol
from tests.wire import interpreters

WIRE = Path(build.__file__).parent
ON_TARGETS = ["second_stage", *build.MODULES, *build.PARTS]


def test_the_payload_and_the_first_stage_stay_within_24_kilobytes():
    command = build.command("python3", build.new_token())
    size = len(build.payload()) + sum(len(word) + 1 for word in command)
    assert size <= 24_000, f"{size} bytes go ahead of every first call"
    print(f"\npayload: {len(build.payload())} bytes compressed, {len(zlib.decompress(build.payload()[8:]))} before")


def test_the_command_line_stays_short():
    assert sum(len(word) + 1 for word in build.command("python3", build.new_token())) < 1200
    assert len(build.shell_command(["python3.12", "python3", "python"], build.new_token())) < 3500


def test_every_module_of_the_target_is_in_the_payload_or_one_of_its_parts():
    on_parent = {"build", "first_stage", "second_stage"}
    modules = {".".join(path.relative_to(WIRE).with_suffix("").parts) for path in WIRE.rglob("*.py")}
    modules = {name for name in modules if name.rpartition(".")[2] != "__init__"}
    assert modules - on_parent == {*build.MODULES, *build.PARTS}
    assert {name.partition(".")[0] for name in modules if "." in name} == set(build.FOLDERS)


@pytest.mark.parametrize("name", ON_TARGETS)
def test_what_is_stripped_means_the_same_and_keeps_its_lines(name):
    source = path_of(name).read_text()
    stripped = build.strip(source)
    assert "#" not in stripped.replace('"#"', "")
    assert '"""' not in stripped
    assert len(stripped) < len(source)
    before, after = statements(source), statements(stripped)
    assert before == after


def path_of(name):
    return WIRE / (name.replace(".", "/") + ".py")


def statements(source):
    """Each statement but docstrings: its line and what it says."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and is_docstring(body[0]):
            line = body.pop(0).lineno
            if not body and not isinstance(node, ast.Module):
                body.append(ast.Pass(lineno=line))
    return [(node.lineno, ast.dump(node)) for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@pytest.mark.parametrize(
    "source",
    [
        "a = \"\" \"b\" '' 'c'",
        "a = 1 .real + 1. .real",
        "a = 1. if b else 0x1 or 2",
        "a = b is not - 1 and not - - c",
        'a = "b" if c in "d" else u"e" "f"',
        "from . import a\nfrom .. b import c",
        "@ a\ndef f(* b, ** c): return - 1, (yield)",
    ],
)
def test_spaces_that_divide_tokens_are_kept(source):
    assert ast.dump(ast.parse(build.strip(source))) == ast.dump(ast.parse(source))


def test_strings_of_several_lines_survive_stripping():
    source = 'def f():\n    """Doc."""\n    x = """one\n      two # no comment\n"""\n    return [\n        x,  # comment\n    ]\n'
    names = {}
    exec(build.strip(source), names)
    assert names["f"]() == ["one\n      two # no comment\n"]


def test_a_body_of_nothing_but_a_docstring_becomes_an_empty_one():
    names = {}
    source = 'class E(Exception):\n    """Something."""\n\ndef f():\n    "doc"\n'
    exec(build.strip(source), names)
    assert issubclass(names["E"], Exception)
    assert (names["f"](), names["f"].__doc__) == (None, None)


BLOCKS = '''\
class A:  # why
    """One.

    Two.
    """

    # no more


def f(a={"b": 1}):
    "doc"
    return a["b"]
'''


def test_docstrings_of_several_lines_leave_their_lines_and_a_body():
    stripped = build.strip(BLOCKS)
    assert "Two" not in stripped
    assert statements(stripped) == statements(BLOCKS)


def test_a_string_that_is_no_docstring_stays():
    source = 'def f(c):\n    if c:\n        x = [\n            "a # b",\n            \'it is " {}\',\n        ]\n    return x\n'
    assert statements(build.strip(source)) == statements(source)


def test_the_payload_begins_with_its_size():
    assert len(build.payload()) == 8 + int(build.payload()[:8])


def test_tokens_differ():
    assert len({build.new_token() for _ in range(100)}) == 100


def test_the_first_stage_needs_no_quoting():
    stage = build.command("python3", "0" * 24)[5]
    assert not set("\"'$`\\!%\n\0") & set(stage)


SHELLS = [
    shell
    for shell in ("sh", "bash", "dash", "zsh", "ksh", "busybox sh", "csh", "tcsh", "fish")
    if shutil.which(shell.split()[0])
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "pythons", [["{python}"], ["python-that-is-nowhere", "{python}"], ["/usr/bin/false", "{python}"]], ids=range(3)
)
def test_a_login_shell_starts_the_first_python_that_will_do(shell, pythons):
    names = [name.format(python=sys.executable) for name in pythons]
    status, text, _ = first_answer(shell, names)
    assert (status, text) == (protocol.STARTED, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_without_any_python_the_shell_says_so(shell):
    status, text, _ = first_answer(shell, ["python-that-is-nowhere", "python9"])
    assert (status, text) == (protocol.NO_PYTHON, "python-that-is-nowhere python9")


@pytest.mark.parametrize("path", ["/nowhere", ""])
def test_a_login_without_sh_and_python_on_its_path_starts_one_of_the_usual_places(path, monkeypatch):
    usual = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    if usual is None:
        pytest.skip("this machine has no python3 in the usual places")
    shell = shutil.which("sh")
    monkeypatch.setenv("PATH", path)
    status, text, _ = first_answer(shell, ["python3"])
    assert (status, text) == (protocol.STARTED, "")


def test_a_name_with_a_space_is_one_name(tmp_path):
    (tmp_path / "my python").symlink_to(sys.executable)
    status, _, _ = first_answer("sh", [str(tmp_path / "my python")])
    assert status == protocol.STARTED


@pytest.mark.parametrize("name", ["", "-c", "a'b", 'a"b', "$(touch x)", "`x`", "a\nb", "a!b", "a\\b"])
def test_a_name_that_no_shell_would_leave_alone_is_refused(name):
    with pytest.raises(ValueError, match="cannot be the name of an interpreter"):
        build.shell_command([name], build.new_token())


def first_answer(shell, pythons):
    token = build.new_token()
    command = [*shell.split(), "-c", build.shell_command(pythons, token)]
    frames = build.preamble({"id": 1, "name": "x"}) + protocol.frame(1, 0, 0, protocol.GOODBYE, b"")
    done = subprocess.run(command, input=frames, capture_output=True, timeout=30, check=False)
    scanner = build.StartScanner(token)
    assert scanner.feed(done.stdout), done
    return scanner.status, scanner.text, scanner.noise


def test_the_scanner_finds_the_start_line_behind_any_noise_in_any_pieces():
    chance = random.Random(1)
    token = build.new_token()
    noise = b"Welcome!\nYour token is " + token[:12].encode() + b" " + token[12:].encode() + b"\nLast login: never"
    data = noise + protocol.start_line(token, protocol.START_FAILED, "because of \xe9") + b"rest"
    for _ in range(300):
        scanner, at, done = build.StartScanner(token), 0, False
        while not done:
            size = chance.randrange(1, 40)
            done = scanner.feed(data[at : at + size])
            at += size
        assert (scanner.status, scanner.text, scanner.noise) == (protocol.START_FAILED, "because of \xe9", noise)
        assert scanner.rest + data[at:] == b"rest"


def test_the_scanner_keeps_the_end_of_long_noise_and_gives_up_at_last():
    scanner = build.StartScanner(build.new_token())
    for number in range(1000):
        assert not scanner.feed(b"line %d of a very long message of the day\n" % number)
    assert scanner.noise.endswith(b"line 999 of a very long message of the day\n")
    assert len(scanner.noise) < 20_000
    for _ in range(50):
        assert not scanner.feed(b"y\n" * 10_000)
    with pytest.raises(protocol.ProtocolError, match="a login shell there prints without end"):
        scanner.feed(b"y\n" * 30_000)


def test_a_start_line_that_cannot_be_read_is_refused():
    token = build.new_token()
    with pytest.raises(protocol.ProtocolError, match="start line cannot be read"):
        build.StartScanner(token).feed(token.encode() + b"what\n")


@pytest.mark.parametrize("version", list(interpreters.found()))
def test_all_of_it_compiles_on_every_version(version):
    program = "import sys\nfor name in sys.argv[1:]:\n    compile(open(name, 'rb').read(), name, 'exec', 0, 1)\n"
    files = [str(path_of(name)) for name in ["first_stage", *ON_TARGETS]]
    done = subprocess.run(
        [interpreters.found()[version], "-c", program, *files], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
