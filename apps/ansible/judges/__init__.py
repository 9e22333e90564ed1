"""ansible-core's own integration targets as judges of `roamlet.remote.ssh`: the same target with stock ssh and with roamlet.

Nothing of ansible-core is in this folder: its sdist comes from the package index and stays in `build/ansible-judges`.
"""
