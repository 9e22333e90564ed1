"""Calls to a context on this machine: how many a second, and what a context costs, beside Mitogen and a bare pair of pipes."""
