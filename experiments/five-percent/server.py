"""A server that is not Madang's: Python, standard library only. Each request costs ROUNDS hashes.

python3 server.py PORT ROUNDS
"""

import asyncio
import hashlib
import sys

PORT, ROUNDS = int(sys.argv[1]), int(sys.argv[2])


def work():
    digest = b"madang"
    for _ in range(ROUNDS):
        digest = hashlib.sha256(digest).digest()
    return digest.hex().encode()


class Http(asyncio.Protocol):
    """Just enough of HTTP/1.1 for GET: requests without a body, connections that are kept."""

    def connection_made(self, transport):
        self.transport, self.unread = transport, b""

    def data_received(self, data):
        *requests, self.unread = (self.unread + data).split(b"\r\n\r\n")
        for request in requests:
            body = b"ready" if request.startswith(b"GET /ready ") else work()
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


async def main():
    server = await asyncio.get_running_loop().create_server(Http, "127.0.0.1", PORT)
    await server.serve_forever()


asyncio.run(main())
