"""Tasklets and blocks that move to another process: packed, made again there, and given up here. roamlet.remote moves the bytes."""
