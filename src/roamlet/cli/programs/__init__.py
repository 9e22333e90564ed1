"""What a command line runs: functions by name, scripts and modules, and the interpreters that are there."""
