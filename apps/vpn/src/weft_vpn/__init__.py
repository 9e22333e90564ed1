"""weft vpn: LANs of several offices joined by WireGuard, from one file, over ssh."""
