"""Runs commands on a host, with an end in time and words that can be read. Standard library, Python 3.6 and later."""

import os
import subprocess

PATIENCE = 60.0  # seconds for one command: longer than systemd waits for the unit that it starts or stops
# What a plain login by ssh often lacks.
FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CannotDo(Exception):
    """Something on this host is not as it must be. The message says what."""


def run(*words):
    """Run a command to its end; return its status and what it said on stdout and on stderr, as text without control characters.

    Blocks for PATIENCE at the most. Raises CannotDo then, and when there is no such program.
    """
    environment = dict(os.environ, LC_ALL="C", TZ="UTC", PATH=FOLDERS + ":" + os.environ.get("PATH", ""))
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=PATIENCE,
            check=False,
        )
    except OSError as error:
        raise CannotDo("{} cannot be run here: {}".format(words[0], error.strerror)) from None
    except subprocess.TimeoutExpired:
        raise CannotDo("{} did not end within {:.0f} seconds".format(" ".join(words), PATIENCE)) from None
    return done.returncode, shown(done.stdout), shown(done.stderr)


def must(*words):
    """The output of a command. Raises CannotDo with what it said when it fails."""
    status, output, said = run(*words)
    if status:
        said = " ".join((said or output).split())[:500]
        raise CannotDo("{}: {}".format(" ".join(words), said or "ended with status %d" % status))
    return output


def shown(raw):
    """Bytes as text that may be shown on a terminal."""
    text = raw.decode("utf-8", "replace")
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)
