"""The payload that runs on a target, and what both sides of a link share.

Shared by parent and target: protocol, codec, bundle. Only on the target: the two stages, child, link, calls, importer,
inventory, resources, standin, stdio, logs, life. Only on the parent: build, which makes the payload and the command line that
starts it, and reads its start line. Nothing here imports anything of roamlet but itself.
"""
