"""Channels between processes: those that a context was given, and those of streams."""
