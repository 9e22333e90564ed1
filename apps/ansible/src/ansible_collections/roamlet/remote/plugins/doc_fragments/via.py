"""The option roamlet_via, which all of our connection plugins have."""


class ModuleDocFragment:
    """What `extends_documentation_fragment: roamlet.remote.via` puts in."""

    DOCUMENTATION = """
options:
  roamlet_via:
    description:
      - The name of a host of the inventory that this one is reached through.
      - The other host's own variables say how it is reached, by which account, and what it is reached through itself.
        If they set C(ansible_become), the rest of the way begins under that account.
    type: str
    vars:
      - name: roamlet_via
"""
