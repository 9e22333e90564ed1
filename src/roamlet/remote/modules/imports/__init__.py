"""What code imports, read from its bytecode; which modules follow from it, and in which order they arrive."""
