"""The clients: `python -m bench.wsgi.client PORT CONNECTIONS REQUESTS PATH`, each connection sends so many, one after the other."""

import re
import socket
import sys


def answer(client: socket.socket) -> int:
    """Take one answer; return its length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += client.recv(65536)
    head, body = data.split(b"\r\n\r\n", 1)
    found = re.search(rb"(?i)content-length: (\d+)", head)
    assert head.startswith(b"HTTP/1.1 200") and found, head
    length = int(found[1])
    while len(body) < length:
        body += client.recv(65536)
    assert len(body) == length
    return len(head) + 4 + length


def main(port: str, connections: str, requests: str, path: str) -> None:
    clients = [socket.create_connection(("127.0.0.1", int(port))) for _ in range(int(connections))]
    sent = f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()
    for _ in range(int(requests)):
        for client in clients:
            client.sendall(sent)
        for client in clients:
            answer(client)
    for client in clients:
        client.close()


main(*sys.argv[1:])
