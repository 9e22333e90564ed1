"""What a thread sleeps on until another one wakes it: the primitives of the system that a condition variable can be built from."""
