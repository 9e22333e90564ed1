"""Prints about many hosts: progress, results, failures."""
