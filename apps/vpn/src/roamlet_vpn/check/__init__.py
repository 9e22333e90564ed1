"""Whether the network works: what is measured, what it means, and how it is shown."""
