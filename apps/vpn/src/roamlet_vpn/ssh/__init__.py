"""The ssh backend: tunnels of OpenSSH between servers. Touches no server."""
