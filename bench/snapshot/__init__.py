"""What saving and restoring a tasklet costs: `python -m bench.snapshot`."""
