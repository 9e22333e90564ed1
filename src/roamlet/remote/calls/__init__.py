"""Calls into a context: one at a time, in the background, in chains, and many in flight."""
