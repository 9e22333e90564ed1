"""What a process does, and why it does not go on: its threads, tasklets and contexts, and what waits for what.

`model` is what a look finds, as plain data; `render` makes text of it. Nothing of roamlet below its command imports this package.
"""
