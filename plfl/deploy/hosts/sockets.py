"""The socket in a worker's folder, through which a relay on the same machine reaches the worker.

Only the user of the folder can access the socket.
"""

import contextlib
from collections.abc import Iterator
from multiprocessing.connection import Client, Listener
from pathlib import Path

SOCKET = "worker.socket"


def ask(folder: Path, data: bytes) -> bytes:
    """The answer of the worker of `folder` to a message.

    Raises:
        OSError: no worker listens, or it ended before it answered.
    """
    # The path of a socket must be short, so it is relative to the folder.
    with contextlib.chdir(folder):
        connection = Client(SOCKET, family="AF_UNIX")
    with connection:
        connection.send_bytes(data)
        try:
            return connection.recv_bytes()
        except EOFError:
            raise ConnectionError(f"{folder}: the worker ended before it answered") from None


@contextlib.contextmanager
def listen(folder: Path) -> Iterator[Listener]:
    """The worker's end of the socket.

    The caller must hold the lock of the folder: an existing socket is assumed to belong to a dead
    worker and is removed.
    """
    with contextlib.chdir(folder):
        Path(SOCKET).unlink(missing_ok=True)
        listener = Listener(SOCKET, family="AF_UNIX")
    try:
        yield listener
    finally:
        with contextlib.chdir(folder):
            listener.close()
