"""Many connections that each send the same request again as soon as it is answered: `python -m ... URL CONNECTIONS`.

The request is read from standard input. It runs in a process of its own, whose threads do not delay the test's clock.
"""

from __future__ import annotations

import selectors
import socket
import sys
from urllib.parse import urlsplit


def main(url: str, connections: int, request: bytes) -> None:
    address = urlsplit(url)
    selector = selectors.DefaultSelector()
    for _ in range(connections):
        connection = socket.create_connection((str(address.hostname), int(address.port or 0)))
        connection.sendall(request)
        selector.register(connection, selectors.EVENT_READ, bytearray())
    print("sending", flush=True)
    while True:
        for key, _ in selector.select():
            connection, received = key.fileobj, key.data
            assert isinstance(connection, socket.socket)
            received += connection.recv(1 << 16)
            head, separator, body = received.partition(b"\r\n\r\n")
            if not separator:
                continue
            assert head.startswith(b"HTTP/1.1 200"), head
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if len(body) >= int(length):
                received.clear()
                connection.sendall(request)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.stdin.buffer.read())
