"""Programs with tasklets, for debuggers."""
