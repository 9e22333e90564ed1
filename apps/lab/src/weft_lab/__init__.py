"""Offices on one machine, with an internet between them. An app on weft's public names."""

__version__ = "0.1.0"
