"""Importing a large package in a fresh context: what it costs on a slow line, beside Mitogen."""
