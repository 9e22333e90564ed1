"""The folder that `python -m weft.threads` puts on PYTHONPATH: what Python imports from it when it starts."""
