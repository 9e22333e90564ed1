"""The folder that `python -m roamlet.patch` puts on PYTHONPATH: what Python imports from it when it starts."""
