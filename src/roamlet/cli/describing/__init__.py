"""The command line as data, and what two commands write from that: completion for shells, and manual pages."""
