"""`roamlet bench`: takes figures and shows them. The repository's own `python -m bench` uses its parts too."""

__version__ = "0.1.0"
