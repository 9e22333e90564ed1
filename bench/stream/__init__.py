"""Many values from one remote function: how fast they come, and how much memory waits when they are taken slowly."""
