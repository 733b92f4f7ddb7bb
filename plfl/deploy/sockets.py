"""How the relay reaches the worker of the same machine: a socket in the worker's folder.

The folder is its user's alone, and so is what lies in it.
"""

import contextlib
from collections.abc import Iterator
from multiprocessing.connection import Client, Listener
from pathlib import Path

SOCKET = "worker.socket"


def ask(folder: Path, data: bytes) -> bytes:
    """The answer of the worker of `folder`.

    Raises:
        OSError: there is none, or it ended before it had an answer.
    """
    # The path of a socket has to be short, so it is named from within the folder.
    with contextlib.chdir(folder):
        connection = Client(SOCKET, family="AF_UNIX")
    with connection:
        connection.send_bytes(data)
        try:
            return connection.recv_bytes()
        except EOFError:
            raise ConnectionError(f"{folder}: the worker ended before it had an answer") from None


@contextlib.contextmanager
def listen(folder: Path) -> Iterator[Listener]:
    """The worker's end. Its caller holds the folder, so what is left there is of a dead one."""
    with contextlib.chdir(folder):
        Path(SOCKET).unlink(missing_ok=True)
        listener = Listener(SOCKET, family="AF_UNIX")
    try:
        yield listener
    finally:
        with contextlib.chdir(folder):
            listener.close()
