"""The payload that runs on a target, and what both sides of a link share.

Shared by parent and target: protocol, codec, bundle. Only on the target: child, link, calls, importer, stdio, standin. Only on the
parent: build, which makes the payload, the command line that starts it, and reads its start line.
Nothing here imports anything of weft but itself.
"""
