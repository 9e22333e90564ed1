"""What a command line names: functions, and the interpreters of this machine."""
