"""A stand-in for community.general's become plugin `doas`: its variables, its command line and its words."""

import re

from ansible.plugins.become import BecomeBase

DOCUMENTATION = """
    name: doas
    short_description: a stand-in
    description: [A stand-in of the tests.]
    options:
      become_user:
        description: the account
        vars: [{name: ansible_become_user}]
      become_exe:
        description: the program
        default: doas
        vars: [{name: ansible_become_exe}]
      become_flags:
        description: words for the program
        default: ''
        vars: [{name: ansible_become_flags}]
      become_pass:
        description: the password
        vars: [{name: ansible_become_password}]
"""


class BecomeModule(BecomeBase):
    name = "doas"
    fail = ("Permission denied",)
    missing = ("Authorization required",)

    def check_password_prompt(self, b_output):
        return bool(re.match(rb"doas \([^)]*\) password: ", b_output.lstrip(b"\r\n")))

    def build_become_command(self, cmd, shell):
        super().build_become_command(cmd, shell)
        if not cmd:
            return cmd
        self.prompt = True
        flags = self.get_option("become_flags")
        if not self.get_option("become_pass") and "-n" not in flags:
            flags += " -n"
        words = self._build_success_command(cmd, shell, noexe=True)
        return (
            f"{self.get_option('become_exe')} {flags} -u {self.get_option('become_user')} {shell.executable} -c {words}"
        )
