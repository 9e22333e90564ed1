"""Commands in place of those that a test machine does not have: docker, kubectl and their like.

Each is a program on PATH that takes the real one's options and no others, records how it was called, and then runs what it was
given as the real one would; or fails with the words and the exit code that it was told.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

PROGRAM = """\
#!{python} -IS
import json, os, sys
me = {me!r}
flags, values, spec = {flags!r}, {values!r}, {spec!r}
words = sys.argv[1:]
with open(me + ".calls", "a") as calls:
    calls.write(json.dumps(words) + "\\n")
if os.path.exists(me + ".fails"):
    code, text = json.load(open(me + ".fails"))
    sys.stderr.write(text)
    sys.stderr.flush()
    sys.exit(code)

def wrong(why):
    sys.stderr.write("stand-in of %s: %s: %r\\n" % (me, why, words))
    sys.exit(64)

def options():
    # Those at the front of `words`: an option that takes a value has it behind "=", or as the next word.
    while words and words[0].startswith("-") and words[0] != "--":
        name, equals, value = words.pop(0).partition("=")
        if name in values:
            if not equals:
                words.pop(0)
        elif name not in flags or equals:
            wrong("no such option " + name)

for what in spec:
    options()
    if what == "--":
        if not words or words.pop(0) != "--":
            wrong("no -- where it belongs")
    elif what == "--?":
        del words[: words[:1] == ["--"]]
    elif what == "NAME":
        if not words or words[0].startswith("-"):
            wrong("no name where one belongs")
        words.pop(0)
    elif not words or words.pop(0) != what:
        wrong("no " + what + " where it belongs")
if {prints!r} is not None:
    print({prints!r})
    sys.exit(0)
if {no_python!r} and "-BEs" in " ".join(words):
    sys.stderr.write({not_found!r} % "python3")
    sys.exit({not_found_code!r})
try:
    os.execvp(words[0], words)
except OSError as error:
    sys.stderr.write({not_found!r} % words[0])
    sys.exit({not_found_code!r})
"""


@dataclass(frozen=True)
class StandIn:
    """How the real command is called: its options, and what is between them ("--?" may be missing), before what it runs."""

    program: str
    spec: tuple[str, ...]
    flags: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    prints: str | None = None
    not_found: str = "%s: not found\n"
    not_found_code: int = 127
    no_python: bool = False  # whether what it enters has none that roamlet finds

    def install(self, folder: Path) -> "Installed":
        """Put it into `folder`, which the test puts in front of PATH."""
        path = folder / self.program
        text = PROGRAM.format(
            python=sys.executable,
            me=str(path),
            flags=self.flags,
            values=self.values,
            spec=self.spec,
            prints=self.prints,
            not_found=self.not_found,
            not_found_code=self.not_found_code,
            no_python=self.no_python,
        )
        path.write_text(text)
        path.chmod(0o755)
        return Installed(path)


@dataclass(frozen=True)
class Installed:
    """A stand-in that can be called."""

    path: Path

    def fails(self, text: str, code: int = 1) -> None:
        """From now on it says `text` and ends."""
        self.path.with_name(self.path.name + ".fails").write_text(json.dumps([code, text]))

    @property
    def calls(self) -> list[list[str]]:
        """The words of each call so far."""
        path = self.path.with_name(self.path.name + ".calls")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


OCI = (
    'OCI runtime exec failed: exec failed: unable to start container process: exec: "%s": executable file not found '
    "in $PATH: unknown\n"
)

DOCKER = StandIn(
    "docker",
    ("exec", "--", "NAME"),
    flags=("--interactive",),
    values=("--user", "--context", "--host"),
    not_found=OCI,
)
PODMAN = StandIn(
    "podman",
    ("exec", "--", "NAME"),
    flags=("--interactive", "--remote"),
    values=("--user", "--url"),
    not_found="Error: crun: executable file `%s` not found in $PATH: No such file or directory: OCI runtime attempted to "
    "invoke a command that was not found\n",
)
KUBECTL = StandIn(
    "kubectl",
    ("exec", "NAME", "--"),
    flags=("--stdin",),
    values=("--namespace", "--container", "--context"),
    not_found='error: Internal error occurred: error executing command in container: exec: "%s": executable file not found '
    "in $PATH\n",
    not_found_code=1,
)
BUILDAH = StandIn(
    "buildah",
    ("run", "--", "NAME"),
    values=("--user", "--isolation"),
    not_found="process failed to start with error: fork/exec %s: no such file or directoryprocess exited with error: exec: not "
    "startedsubprocess exited with status 1\nError: exit status 1\n",
    not_found_code=1,
)
JAIL = StandIn(
    "jexec",
    ("NAME",),
    flags=("-l",),
    values=("-U", "-d"),
    not_found="jexec: execvp: %s: No such file or directory\n",
    not_found_code=1,
)
LXC = StandIn(
    "lxc-attach",
    ("--",),
    flags=("--clear-env",),
    values=("--name", "--lxcpath"),
    not_found="lxc-attach: web: ../src/lxc/attach.c: lxc_attach_run_command: 1841 No such file or directory - Failed to "
    'exec "%s"\n',
)
INCUS = StandIn(
    "incus",
    ("exec", "NAME", "--"),
    flags=(),
    values=("--mode", "--project"),
    not_found="Error: Command not found\n",
)
LXD = StandIn("lxc", INCUS.spec, INCUS.flags, INCUS.values, not_found=INCUS.not_found)
