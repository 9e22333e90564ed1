"""Delivery: what contexts with large compiled packages cost the parent and the way to them, the first one and those after it."""
