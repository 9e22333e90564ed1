"""Ansible playbooks over ssh: stock, Mitogen and roamlet, each in the same playbooks on the same hosts, in turns."""
