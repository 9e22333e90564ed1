"""Where this process has modules, their data files and their distributions. Nothing is executed."""
