"""What the whole of roamlet.remote stands on: its background threads, deadlines, descriptors, and the facts of a
target. Knows no link.
"""
