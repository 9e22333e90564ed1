"""What `roamlet vpn check` measures on a server."""
