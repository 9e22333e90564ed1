"""Many values from one function over there: how fast they come, and what waits here when they are taken slowly."""
