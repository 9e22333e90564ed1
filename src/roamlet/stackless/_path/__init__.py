"""The folder that `python -m roamlet.stackless` puts on PYTHONPATH. It holds the one module that Stackless adds to Python."""
