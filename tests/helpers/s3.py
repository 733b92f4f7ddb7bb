"""An S3 server of moto on this machine."""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from moto.server import ThreadedMotoServer


@contextmanager
def serving() -> Iterator[tuple[ThreadedMotoServer, str]]:
    """An S3 server and its address. Servers of one process share what they keep."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    try:
        yield server, address
    finally:
        server.stop()


def empty(address: str) -> None:
    """Remove everything that the servers of this process keep."""
    reset = urllib.request.Request(f"{address}/moto-api/reset", method="POST")
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(reset).close()
