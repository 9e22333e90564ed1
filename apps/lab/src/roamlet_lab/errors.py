"""What can go wrong with a lab; each message says what to do."""


class LabError(RuntimeError):
    """Something about a lab failed; the base of the others."""


class NotPossible(LabError):
    """This machine, or this user, cannot have labs; the message says what is missing and what to type."""


class CommandFailed(LabError):
    """A command in the lab ended with a status other than 0."""

    def __init__(self, machine: str, argv: list[str], returncode: int, output: str) -> None:
        self.machine = machine
        self.argv = argv
        self.returncode = returncode  # negative: ended by that signal
        self.output = output
        shown = " ".join(argv)
        ending = f"by signal {-returncode}" if returncode < 0 else f"with {returncode}"
        super().__init__(f"on {machine}, `{shown:.300}` ended {ending}: {output.strip() or 'it said nothing'}")
