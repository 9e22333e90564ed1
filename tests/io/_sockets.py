"""What several files of tests do with sockets: fill one, and read one to its end."""

LOCALHOST = ("127.0.0.1", 0)


def fill(sock):
    """Send until nothing more fits; return how much did."""
    before, sent = sock.gettimeout(), 0
    sock.settimeout(0)
    while True:
        try:
            sent += sock.send(b"x" * 65536)
        except BlockingIOError:
            sock.settimeout(before)
            return sent


def receive_all(sock):
    data = b""
    while part := sock.recv(100_000):
        data += part
    return data
