"""A stand-in for community.general's become plugin `pbrun`, whose program is a shell itself: none is put around the command."""

from ansible.plugins.become import BecomeBase

DOCUMENTATION = """
    name: pbrun
    short_description: a stand-in
    description: [A stand-in of the tests.]
    options:
      become_user:
        description: the account
        vars: [{name: ansible_become_user}]
      become_exe:
        description: the program
        default: pbrun
        vars: [{name: ansible_become_exe}]
      become_flags:
        description: words for the program
        default: ''
        vars: [{name: ansible_become_flags}]
      become_pass:
        description: the password
        vars: [{name: ansible_become_password}]
      wrap_exe:
        description: put a shell around the command
        type: bool
        default: false
        vars: [{name: ansible_pbrun_wrap_execution}]
"""


class BecomeModule(BecomeBase):
    name = "pbrun"
    prompt = "Password:"

    def build_become_command(self, cmd, shell):
        super().build_become_command(cmd, shell)
        if not cmd:
            return cmd
        words = self._build_success_command(cmd, shell, noexe=not self.get_option("wrap_exe"))
        return f"{self.get_option('become_exe')} {self.get_option('become_flags')} -u {self.get_option('become_user')} {words}"
