"""The folder that `python -m roamlet.threads` puts on PYTHONPATH: what Python imports from it when it starts."""
