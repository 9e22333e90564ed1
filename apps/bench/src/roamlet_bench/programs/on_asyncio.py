"""The same service as an asyncio Protocol, the fastest that asyncio has; --uvloop runs it on uvloop's loop."""

import asyncio
from typing import cast

from serving import BACKLOG, END_OF_REQUEST, RESPONSE, announce, listener, options


class Answer(asyncio.Protocol):
    """One connection, one request."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.request = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its class

    def data_received(self, data: bytes) -> None:
        self.request += data
        if END_OF_REQUEST in self.request:
            self.transport.write(RESPONSE)
            self.transport.close()


async def main() -> None:
    """Serve for ever."""
    listening = listener()
    server = await asyncio.get_running_loop().create_server(Answer, sock=listening, backlog=BACKLOG)
    announce(listening.getsockname()[1], given)
    await server.serve_forever()


if __name__ == "__main__":
    given = options("uvloop")
    if given.uvloop:
        import uvloop  # here: a peer that may not be installed

        uvloop.run(main())
    else:
        asyncio.run(main())
