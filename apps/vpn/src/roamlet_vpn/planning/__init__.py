"""From a network and the facts of its servers to what must be done. Pure."""
