"""The process of a context: its main program, its output and logs, how it ends or detaches."""
