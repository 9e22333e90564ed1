"""Figures of sockets: keep-alive HTTP, alone and beside a thread that computes, and what idle connections take."""
