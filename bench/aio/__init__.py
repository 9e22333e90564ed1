"""Event loops in tasklets: an echo over one beside asyncio's own, and the ways between tasklets and coroutines."""
