"""Turns the hints in messages of roamlet.remote, which propose Python, into hints for the command line."""

import re

# In this order: whole sentences first, then single arguments.
WORDS = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (
            r"Return it in parts, or raise the limit: context\.largest_result = (\d+)",
            r"Let the function return less, or write it to a file on the target. A program of your own can take more: "
            r"context.largest_result = \1",
        ),
        (
            r"Give the path of one: remote\.ssh\(.*?, python='/path/to/python3'\)",
            "Give the path of one: --python /path/to/python3",
        ),
        (
            r"A context on this machine is made by remote\.local\(\)\.",
            "This machine as a host is a line of an inventory, -i: here ansible_connection=local",
        ),
        (r"remote\.ssh\('([^']*)', port=(\d+)\)", r"-H \1:\2"),
        (
            r"name user= and an IdentityFile, or give a password=\.",
            "or name an IdentityFile in ~/.ssh/config and the user as -H USER@HOST; ROAMLET_SSH_PASSWORD holds a password.",
        ),
        (
            r"Give one as password=, a str or a function(?:\(prompt, who\))?, or in (ROAMLET_\w+)",
            r"Use --ask-password, or give one in \1",
        ),
        (r"Give a password=, for which sudo gets a terminal,", "Use --ask-password, for which sudo gets a terminal,"),
        (r"is the port right \(port=\)", "is the port right (-H HOST:PORT)"),
        (r"the right one for this user=\?", "the right one for this user (-H USER@HOST)?"),
        (
            r"If it is only slow, give a longer timeout=|A slow one needs a longer timeout=",
            "If it is only slow, try it with fewer hosts at a time: --at-once 5",
        ),
        (r"(?:give|Give) another one as python=", "Give another one as --python PATH"),
        (r"\bas python=", "as --python PATH"),
        (r"make it first, or say parents=True", "make it first, or say --parents"),
        (r"overwrite=False was said", "--no-overwrite was said"),
    )
)


def for_command_line(message: str) -> str:
    """The message with its hints in the words of `roamlet run`; unknown hints stay unchanged."""
    for pattern, words in WORDS:
        message = pattern.sub(words, message)
    return message


def for_one_host(message: str) -> str:
    """The same in the words of commands that take a host as it stands, such as `roamlet shell`."""
    message = re.sub(r"-H (?=\w+[@:]\w)", "", for_command_line(message))  # and not the -H of sudo
    return message.replace(" with fewer hosts at a time: --at-once 5", " again")
