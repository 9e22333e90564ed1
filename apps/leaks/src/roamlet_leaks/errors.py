"""What is wrong with a command line; found before anything is run."""


class UsageError(Exception):
    """The command cannot be carried out as written. The message says which word is wrong and shows a right one."""
