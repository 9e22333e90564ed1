"""The LANs of several offices joined by WireGuard, from one file, over ssh. An app on roamlet's public names."""

__version__ = "0.1.0"
