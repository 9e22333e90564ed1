"""Answers prompts, on the parent: to commands that open contexts, a password that was given, or what a function returns.

Secrets are held as bytes that can be wiped, are in no message and no repr, and are wiped once the context is ready or refused.
How prompts are read and answers typed is in terminal/terminal.py.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping

from roamlet.io import subprocess
from roamlet.remote.errors import AuthenticationFailed
from roamlet.wire.link import router

PasswordFunction = Callable[[str, str], str]
"""Called with the text of a prompt and the name of the command, "sudo to 'root'" for example; returns what to type."""

Run = Callable[[list[str]], str]

VARIABLE = re.compile(r"ROAMLET_(SSH|SUDO|SU|DOAS)_PASSWORD")
MOST_PROMPTS = 8
LONGEST = 1024  # bytes of an answer: a terminal takes lines of 4095
FOR_A_PASSWORD = re.compile(r"password|passphrase for key", re.IGNORECASE)


class Held:
    """What a caller gave as password=, from the first line of a public function on: no frame of a traceback shows it."""

    __slots__ = ("given",)

    def __init__(self, given: object) -> None:
        self.given: object = given

    def __repr__(self) -> str:
        return "<what was given as password=>"


NOTHING = Held(None)


class Answers:
    """The answers for one context. Used by one tasklet at a time.

    `run` runs a command on the machine where the prompts are, and returns what it prints.
    `held` is what the caller passed as password=; when that is None, the environment's `variable` counts. `who` is the name of the
    command in messages.
    `fits(prompt, run)` says whether a password that was given as it is may be typed there, by default wherever a prompt names one.
    `one_line`: only where nothing is before the prompt, whose first line may be the one that names the host.
    """

    def __init__(
        self,
        held: Held,
        variable: str,
        who: str,
        fits: "Callable[[str, Run], bool] | None" = None,
        *,
        one_line: bool = False,
    ) -> None:
        self.variable = variable
        self._who = who
        self._fits = fits or _names_a_password
        self._one_line = one_line
        self.run: Run = _run
        self._function: PasswordFunction | None = None
        self._secret: bytearray | None = None
        self._asked: set[str] = set()
        if held.given is None:
            held = Held(os.environ.get(variable))
        if isinstance(held.given, str):
            self._secret = _bytes_of(held, "password=")
        elif callable(held.given):
            self._function = held.given
        elif held.given is not None:
            raise TypeError(
                f"password= takes a str, or a function of a prompt and the name of the command, not a {type(held.given).__name__}"
            )

    @property
    def available(self) -> bool:
        """Whether anything could be answered."""
        return self._secret is not None or self._function is not None

    @property
    def used(self) -> bool:
        """Whether anything was asked."""
        return bool(self._asked)

    def answer(self, prompt: str, *, hidden: bool, before: Iterable[str] = ()) -> bytearray:
        """What to type for `prompt`, with the line break; the caller wipes it after typing. `hidden`: what is typed is not echoed.
        `before`: the lines that were said since the last answer.

        Calls the caller's function in this tasklet and thread, and lets through what it raises. Raises AuthenticationFailed when
        nothing fits, and when the same is asked again, because the first answer was not taken.
        """
        if prompt in self._asked or len(self._asked) >= MOST_PROMPTS:
            raise AuthenticationFailed(
                f"{self._who} failed: what was typed at {prompt!r} was not accepted, so it asks again.\n"
                "    Is it the password of the right account? Each is typed once, so that no account gets locked."
            )
        self._asked.add(prompt)
        if self._function is not None:
            held = Held(self._function(prompt, self._who))
            return _bytes_of(held, "the function that was given as password=") + b"\n"
        if self._secret is None:
            raise AuthenticationFailed(
                f"{self._who} failed: it wants a password ({prompt!r}), and none was given.\n"
                f"    Give one as password=, a str or a function(prompt, who), or in {self.variable}."
            )
        is_first = not self._one_line or not any(line.strip() for line in before)
        if not hidden or not is_first or not self._fits(prompt, self.run):
            raise AuthenticationFailed(
                f"{self._who} failed: it asks {prompt!r}, and the password that was given is not for that.\n"
                "    Give a function as password=: it is called with each prompt and the name of the command, and returns what to "
                "type."
            )
        return self._secret + b"\n"

    def wipe(self) -> None:
        """Forget everything secret, as far as Python can: the caller's own str is the caller's."""
        if self._secret is not None:
            wipe(self._secret)
        self._secret = self._function = None


def wipe(secret: bytearray) -> None:
    """Overwrite it in place."""
    secret[:] = bytes(len(secret))


def environment(*, translated: bool, asked: bool) -> dict[str, str] | None:
    """The variables for a command that is started here, or None for this process's own. Variables with passwords are left out.

    `translated`: its messages are translated, and roamlet reads them; only their language is then changed. `asked`: it has a
    terminal of ours, and must not ask in a window.
    """
    ours: Mapping[str, str] = os.environ
    theirs = {name: value for name, value in ours.items() if not VARIABLE.fullmatch(name)}
    if translated:
        theirs = router.in_english(theirs)
    if asked:
        theirs["SSH_ASKPASS_REQUIRE"] = "never"
    return None if theirs == ours else theirs


def _run(words: list[str]) -> str:
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    return str(subprocess.run(words, stdin=null, stdout=pipe, stderr=null, text=True, check=False).stdout)


def _names_a_password(prompt: str, run: Run) -> bool:
    return FOR_A_PASSWORD.search(prompt) is not None


def _bytes_of(held: Held, source: str) -> bytearray:
    """The secret to type; errors never show it."""
    if not isinstance(held.given, str):
        raise TypeError(f"{source} must give a str, not a {type(held.given).__name__}")
    secret = bytearray(held.given, "utf-8", "surrogateescape")
    if not secret or len(secret) > LONGEST or any(byte < 32 or byte == 127 for byte in secret):
        wipe(secret)
        raise ValueError(
            f"{source} gave what cannot be typed at a prompt: nothing, more than {LONGEST} bytes, or a line break or another "
            "control character"
        ) from None
    return secret
