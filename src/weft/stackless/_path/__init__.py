"""The folder that `python -m weft.stackless` puts on PYTHONPATH. It holds the one module that Stackless adds to Python."""
