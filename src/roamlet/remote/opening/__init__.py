"""How contexts come about: the start of the process, the handshake, and what is agreed before the first call."""
