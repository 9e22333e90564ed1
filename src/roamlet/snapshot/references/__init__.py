"""What is saved by reference and found again: code, what modules hold, context variables, and objects that are shared."""
