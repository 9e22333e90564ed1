"""Programs that are measured, each started by its path in a process of its own; the folder is a package so that it is installed."""
