"""From tasklets to the bytes of a snapshot."""
