"""Controlling terminals for commands that ask for passwords, and what answers their prompts. Knows no link."""
