"""The broker's messages in Ansible's words: roamlet's name the arguments of its calls, which no playbook has."""

import re

NAMES = {
    "user": "ansible_user",
    "port": "ansible_port",
    "a password": "an ansible_password (-k asks for it)",
    "password": "ansible_password (-k asks for it)",
    "timeout": "ansible_ssh_timeout",
    "an IdentityFile": "ansible_ssh_private_key_file",
}
# An argument without a value. Command lines and what a host has said have values.
ARGUMENT = re.compile(r"(?<![\w-])(?:(user|port|(?:a )?password|timeout)=(?=[\s,.;:)?]|$)|(an IdentityFile))")


def in_ansibles_words(text: str) -> str:
    """The text, with variables of the inventory in place of arguments such as `timeout=`."""
    return ARGUMENT.sub(lambda found: NAMES[found[1] or found[2]], text)
