"""The clients of the echo: `python -m bench.aio.client PORT CONNECTIONS MESSAGES`, each sends so many in turn."""

import socket
import sys


def main(port: str, connections: str, messages: str) -> None:
    clients = [socket.create_connection(("127.0.0.1", int(port))) for _ in range(int(connections))]
    for client in clients:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sent = b"x" * 100
    print("connected", flush=True)
    for _ in range(int(messages)):
        for client in clients:
            client.sendall(sent)
        for client in clients:
            left = len(sent)
            while left:
                left -= len(client.recv(left))
    for client in clients:
        client.close()


main(*sys.argv[1:])
