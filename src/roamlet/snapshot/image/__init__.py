"""The bytes of a snapshot: header and pickles, read and written without running anything that they name."""
