"""Ansible's stock playbooks over roamlet: connection plugins, and the broker process that holds the contexts of a run."""

__version__ = "0.1.0"
