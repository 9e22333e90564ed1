"""What the HTTP clients ask: `python -m bench.libraries.server [CERTIFICATE KEY]` prints its ports, plain and TLS.

Keeps connections open. `/N` is answered after N milliseconds with a small JSON document; 0 at once. `/echo` turns the
connection into an echo.
"""

import asyncio
import ssl
import sys

BODY = b'{"ok": true, "items": [1, 2, 3], "name": "a small document"}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            path = head.split(b" ", 2)[1]
            if path == b"/echo":
                while data := await reader.read(4096):
                    writer.write(data)
                break
            await asyncio.sleep(int(path[1:]) / 1000)
            writer.write(ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


async def main(*files: str) -> None:
    plain = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=2000)
    ports = [plain.sockets[0].getsockname()[1]]
    if files:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        over_tls = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context, backlog=2000)
        ports.append(over_tls.sockets[0].getsockname()[1])
    print(*ports, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
