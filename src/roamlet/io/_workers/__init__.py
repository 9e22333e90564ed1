"""The worker threads behind blocking calls: the pool, and calls on it."""
