"""Files and folders to and from a context."""
