"""Calls on the target: in threads or as tasklets, in chains, of shells and programs."""
