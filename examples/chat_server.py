"""A chat server: what one client says, all others read. Join by `nc 127.0.0.1 PORT`.

    python examples/chat_server.py [PORT]

Each client has two tasklets: one reads its lines, the other one writes what waits in its channel. A client that does not read
what was said is sent away when its channel is full; no other client waits for it.
"""

import sys

import roamlet
from roamlet import io

WAITING = 100  # lines for one client
LONGEST = 4096  # bytes of a line


class Room:
    """The clients by their names: for each the lines that wait for it, and a function that sends it away."""

    def __init__(self):
        self.clients = {}

    def enter(self, name, send_away):
        lines = roamlet.channel(buffer=WAITING)
        self.clients[name] = lines, send_away
        self.say(f"* {name} is here: {', '.join(sorted(self.clients))}")
        return lines

    def leave(self, name):
        del self.clients[name]
        self.say(f"* {name} has left")

    def say(self, text, but=None):
        for name, (lines, send_away) in list(self.clients.items()):
            if lines.buffered == WAITING:
                send_away()
            elif name != but:
                lines.send(text)


def lines_of(connection):
    """What a client types, a line at a time, until it goes."""
    data = b""
    while piece := connection.recv(4096):
        *lines, data = (data + piece).split(b"\n")
        if len(data) > LONGEST:
            return
        for line in lines:
            yield line.decode("utf-8", "replace").strip()


def write(lines, connection):
    for line in lines:
        connection.sendall(line.encode() + b"\n")


def serve(room, connection):
    """Talk to one client until it goes, or is sent away."""
    connection.sendall(b"Your name?\n")
    said = lines_of(connection)
    name = next(said, "")
    if not name or name in room.clients:
        connection.sendall(b"That name is taken.\n" if name else b"")
        return
    try:
        with roamlet.scope() as s:
            s.service(write, (room.enter(name, s.cancel), connection))  # until no more is read
            for line in said:
                room.say(f"{name}: {line}", but=name)
    finally:
        room.leave(name)


def main():
    room = Room()
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    with io.create_server(("127.0.0.1", port)) as listener:
        print("listening on {}:{}".format(*listener.getsockname()), flush=True)
        io.serve(listener, lambda connection, address: serve(room, connection))


if __name__ == "__main__":
    main()
