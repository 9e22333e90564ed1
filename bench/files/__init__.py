"""A file to a context at the end of a slow line, beside Mitogen's file service."""
