"""A blocking call from a tasklet, coroutine or greenlet: to a worker thread and back, with one outstanding and with a hundred."""
