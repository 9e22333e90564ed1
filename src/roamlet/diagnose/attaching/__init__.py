"""A trace of a process that runs, taken at the request of another process: both ends of the socket between them.

`asking.py` is the end that asks; it stands alone, because it travels to other machines. `door.py` and `session.py` are in the
process that is traced, `encoding.py` is what lies on the wire.
"""
