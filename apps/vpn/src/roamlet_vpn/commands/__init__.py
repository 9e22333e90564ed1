"""What the commands do: they connect, ask, call the pure parts, carry plans out and print."""
