"""How contexts come about: one function a transport, the handshake, and many contexts at once."""
