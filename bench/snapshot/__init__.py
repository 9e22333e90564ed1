"""A tasklet in the middle of its function to bytes and back, a hundred thousand of them through a file, and one that moves."""
