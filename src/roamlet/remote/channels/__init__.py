"""Channels between processes: those that a context was given, and channels with a window."""
