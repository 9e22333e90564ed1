"""The payload that runs on a target, and what both sides of a link share.

Everything but build.py runs on targets. It therefore keeps to the common syntax of Python 2.7 and 3.6+ and imports the standard
library only, and nothing of roamlet but itself. What is not in the start payload (build.MODULES) is a part of it that travels
when it is first needed (build.PARTS; see PART in protocol.py). The parent uses protocol, codec, modules.bundle, values, files and
link.sorting, too; build, which makes the payload and the command line, and reads the start line, is the parent's alone.
"""
