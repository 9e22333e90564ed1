"""Calls to a context on this machine: how many a second, beside Mitogen and a bare pair of pipes."""
