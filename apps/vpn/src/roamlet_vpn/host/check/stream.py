"""How much a line carries: bytes sent over TCP for some seconds, and counted where they arrive."""

import socket
import threading
import time

CHUNK = 1 << 18
LISTENING = 20.0  # seconds that the receiving side waits for the other
_receivers = {}


class _Receiver(object):
    """Takes one connection and counts what comes by it."""

    def __init__(self, address):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            self.listening.bind((address, 0))
            self.listening.listen(1)
            self.listening.settimeout(LISTENING)
        except Exception:
            self.listening.close()
            raise
        self.port = self.listening.getsockname()[1]
        self.received = 0
        self.seconds = 0.0
        self.error = None
        self.thread = threading.Thread(target=self._run, name="roamlet-vpn-receiver")
        self.thread.daemon = True
        self.thread.start()

    def _run(self):
        buffer = bytearray(CHUNK)
        try:
            connection = self.listening.accept()[0]
        except OSError as error:
            self.error = "no connection came: %s" % error
            return
        finally:
            self.listening.close()
        try:
            connection.settimeout(LISTENING)
            began = None
            while True:
                count = connection.recv_into(buffer)
                if not count:
                    return
                if began is None:  # what comes first is late by a round trip that is not the line's speed
                    began = time.monotonic()
                else:
                    self.received += count
                self.seconds = time.monotonic() - began
        except OSError as error:
            self.error = str(error)
        finally:
            connection.close()


def listen(address):
    """Wait for a stream at this address of the server; returns the port."""
    receiver = _Receiver(address)
    _receivers[receiver.port] = receiver
    return receiver.port


def send(source, address, port, seconds):
    """Send as much as goes for so long. Returns an error's text, or None."""
    try:
        with socket.create_connection((address, port), 10.0, (source, 0)) as connection:
            connection.settimeout(10.0)
            chunk = b"\0" * CHUNK
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                connection.sendall(chunk)
    except OSError as error:
        return str(error)
    return None


def received(port):
    """What came: [bytes, seconds, an error's text or None]. Blocks until the stream has ended."""
    receiver = _receivers.pop(port)
    receiver.thread.join(3 * LISTENING)
    return [receiver.received, receiver.seconds, receiver.error]
