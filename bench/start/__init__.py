"""What a context on this machine costs: CPU of both processes to open it, and memory while it is there."""
