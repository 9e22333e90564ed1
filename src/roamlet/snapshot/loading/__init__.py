"""From the bytes of a snapshot to tasklets."""
