"""Frames between descriptors: reading and writing them, passing them on to contexts behind this one, its prompts."""
