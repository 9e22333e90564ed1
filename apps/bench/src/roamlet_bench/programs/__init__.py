"""The programs that are measured. Each is started by its path, in a process of its own. A package, so that it is installed."""
