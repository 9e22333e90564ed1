"""Extension modules: which target can load them, and the libraries that go with them."""
