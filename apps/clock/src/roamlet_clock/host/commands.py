"""Runs commands on a host, with an end in time and words that can be read. Standard library, Python 2.7, or 3.6 and later."""

from __future__ import unicode_literals

import os
import subprocess
import threading
import unicodedata

PATIENCE = 60.0  # seconds for one command: longer than systemd waits for the unit that it starts or stops
# What a plain login by ssh often lacks.
FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CannotDo(Exception):
    """Something on this host is not as it must be. The message says what."""


def run(*words):
    """Run a command to its end; return its status and what it said on stdout and on stderr, as text without control characters.

    Blocks for PATIENCE at the most. Raises CannotDo then, and when there is no such program.
    """
    environment = dict(os.environ, LC_ALL="C", TZ="UTC", PATH=FOLDERS + ":" + os.environ.get("PATH", str("")))
    problem = ""
    with open(os.devnull, "rb") as nothing:
        try:
            process = subprocess.Popen(
                words, stdin=nothing, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
            )
        except OSError as error:
            problem = "{} cannot be run here: {}".format(words[0], error.strerror)
    if problem:
        raise CannotDo(problem)
    ended = threading.Event()  # by us, because it took too long

    def end():
        ended.set()
        process.kill()

    alarm = threading.Timer(PATIENCE, end)
    alarm.start()
    try:
        output, said = process.communicate()
    finally:
        alarm.cancel()
        alarm.join()
    if ended.is_set():
        raise CannotDo("{} did not end within {:.0f} seconds".format(" ".join(words), PATIENCE))
    return process.returncode, shown(output), shown(said)


def must(*words):
    """The output of a command. Raises CannotDo with what it said when it fails."""
    status, output, said = run(*words)
    if status:
        said = " ".join((said or output).split())[:500]
        raise CannotDo("{}: {}".format(" ".join(words), said or "ended with status %d" % status))
    return output


def shown(raw):
    """Bytes as text that may be shown on a terminal."""
    return "".join(char if _printable(char) else "?" for char in raw.decode("utf-8", "replace"))


def told(error):
    """What an error says, in a line of text."""
    try:
        text = "%s" % error
    except UnicodeError:  # 2.7, and a name in it that is no ASCII
        text = repr(error)
    return " ".join(text.split())[:500]


def _printable(char):
    """As str.isprintable() of Python 3 has it, and the end of a line."""
    return char in " \n" or unicodedata.category(char)[0] not in "CZ"
