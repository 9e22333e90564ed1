"""The options of core's own ssh plugin, whatever the installed ansible-core has: no copy of them is kept here."""

import yaml
from ansible.plugins.connection import ssh


class ModuleDocFragment:
    """What `extends_documentation_fragment: roamlet.remote.ssh` puts in."""

    DOCUMENTATION = yaml.safe_dump({"options": yaml.safe_load(ssh.DOCUMENTATION)["options"]})
