"""From the words of a command line to hosts, and from hosts to open contexts."""
