"""The ways in which an exception keeps memory alive, each with its code and its mend, in the same words wherever it is found.

The codes are for people and editors and never change their meaning. How a case is recognized is not described here.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One way; `what` and `mend` are filled in with the name of what holds the exception."""

    code: str
    title: str
    what: str
    """Names what happened: `{name}` stands for the variable, attribute or container."""
    mend: str

    def message(self, name: str) -> str:
        """What happened, with `name` for what holds the exception."""
        return self.what.replace("{name}", name)

    def mended(self, name: str) -> str:
        """What to do about it."""
        return self.mend.replace("{name}", name)


AS_TEXT = "keep text: ''.join(traceback.format_exception(error))"
WITHOUT_FRAMES = (
    "or let go of the frames: error.__traceback__ = None, or traceback.clear_frames(error.__traceback__), "
    "which leaves the locals of their callers"
)

CASES = {
    case.code: case
    for case in (
        Case(
            "RL001",
            "caught into a local",
            "{name} holds an exception whose traceback holds the frame of {name}, or of one that it called",
            "clear it on the way out: try: return {name} / finally: del {name}",
        ),
        Case(
            "RL002",
            "raised from a parameter",
            "{name}, passed as an argument, holds what is raised here, whose traceback holds the frame of {name}",
            "clear it once it is raised: try: raise ... / finally: del {name}; "
            "the caller that passed it clears its own variable likewise",
        ),
        Case(
            "RL003",
            "sys.exc_info() in a local",
            "{name} holds a traceback, which holds the frame of {name}",
            "leave the traceback out: except ... as error, or traceback.format_exc(); "
            "where it is needed: try: ... / finally: del {name}",
        ),
        Case(
            "RL004",
            "stored on an object",
            "{name} holds an exception with its traceback, and so every local of the frames it came through",
            f"{AS_TEXT}; {WITHOUT_FRAMES}",
        ),
        Case(
            "RL005",
            "stored in a global",
            "{name}, which lives as long as its module, holds an exception with its traceback",
            f"{AS_TEXT}; {WITHOUT_FRAMES}; or clear {{name}} when it has been dealt with",
        ),
        Case(
            "RL006",
            "kept by a loop that does not end",
            "{name} holds an exception while its function goes on running",
            "clear it at the end of the turn: del {name}, or {name} = None",
        ),
        Case(
            "RL007",
            "gathered in a local container",
            "{name} holds exceptions whose tracebacks hold the frame of {name}",
            f"{AS_TEXT}; {WITHOUT_FRAMES}; or empty it on the way out: try: ... / finally: del {{name}}",
        ),
        Case(
            "RL008",
            "held by a closure or generator",
            "{name}, which a function or generator goes on using, holds an exception with its traceback",
            "clear it when it has been dealt with: {name} = None in a finally clause; "
            f"or {AS_TEXT.replace('keep', 'hand on')}",
        ),
        Case(
            "RL009",
            "raised from a local",
            "{name} holds what is raised here, whose traceback holds the frame of {name}",
            "raise it where it is made: raise Error(...); where it needs a name: try: raise {name} / finally: del {name}",
        ),
        Case(
            "RL010",
            "one exception raised again and again",
            "{name} is one object for as long as its module lives: each raise adds frames to its traceback, with their locals",
            "make a new one for each raise; or raise {name}.with_traceback(None), which keeps the last frames alone",
        ),
    )
}
