"""The WireGuard backend: its configuration files, its interfaces, and what can be done to them. Touches no server."""
