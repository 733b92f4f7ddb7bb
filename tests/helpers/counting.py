"""A TCP proxy that keeps what crosses it, one port per client, and what of it is what."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator

from plfl.deploy.hosts.processes import free_port

TRAIN = {"up": b'\\"loss\\"', "down": b'\\"kind\\":\\"train\\"'}
"""What the facts of a message of a training round have in them, as safetensors writes them."""
MESSAGE = b'"__metadata__":{"plfl":'
"""What any message of plfl has in it."""
_RECORD, _TYPE_AND_TAG, _DATA = 5, 17, 23
"""Bytes of a TLS record's header; those that are added to its content; its kind, if it is data."""
KINDS = ["train", "other messages", "wrapping", "headers", "protocol", "polling", "app"]
"""What bytes are for, see `Proxy.parts`."""


class Proxy:
    """Listens at `port` of this machine and passes everything on to `target`, and back."""

    def __init__(self, target: tuple[str, int]):
        self.target, self.port = target, free_port()
        self.bytes = Counter[str]()
        self.connections: list[dict[str, bytearray]] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            inner, _ = self._listener.accept()
            try:
                outer = socket.create_connection(self.target)
            except OSError:
                inner.close()
                continue
            kept = {"up": bytearray(), "down": bytearray()}
            self.connections.append(kept)
            for one, other, way in ((inner, outer, "up"), (outer, inner, "down")):
                given = (one, other, way, kept)
                threading.Thread(target=self._pass, args=given, daemon=True).start()

    def _pass(
        self, one: socket.socket, other: socket.socket, way: str, kept: dict[str, bytearray]
    ) -> None:
        try:
            while data := one.recv(1 << 16):
                with self._lock:
                    self.bytes[way] += len(data)
                    kept[way] += data
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            one.close()
            other.close()

    def parts(self) -> Counter[tuple[str, str]]:
        """Bytes by direction and by what they are for; plain HTTP only.

        `train` are the objects that hold a training round's numbers, `other messages` those by
        which clients join and are scored, `wrapping` those that Flower puts around both; `headers`
        are the rest of the same requests. Requests that carry no object are `polling` (looking for
        messages, heartbeats), `app` (Flower's copy of its application) or `protocol`. How many
        messages of plfl there were, and how many requests of polling, are `messages` and `polls`.
        """
        found = Counter[tuple[str, str]]()
        for kept in self.connections:
            asked = list(_messages(bytes(kept["up"])))
            answered = list(_messages(bytes(kept["down"])))
            # A request whose answer never came is left out; that is at most one a connection.
            for (head, body), (head_back, body_back) in zip(asked, answered, strict=False):
                path = head.split(b" ", 2)[1].decode()
                for way, top, content in (("up", head, body), ("down", head_back, body_back)):
                    carries = path.endswith("push-object" if way == "up" else "pull-object")
                    if carries:
                        found[way, _content(content, way)] += len(content)
                        found[way, "messages"] += MESSAGE in content
                        found[way, "headers"] += len(top)
                    else:
                        purpose = _purpose(path)
                        found[way, purpose] += len(top) + len(content)
                        found[way, "polls"] += purpose == "polling"
        return found

    def encryption(self) -> Counter[str]:
        """What encryption alone costs, in bytes by direction; TLS 1.3 only.

        Of each record of data these are its header, its type and its tag; other records are all
        handshake. The server's certificates come as data, so they are left out.
        """
        found = Counter[str]()
        for kept in self.connections:
            for way, stream in kept.items():
                start = 0
                while start + _RECORD <= len(stream):
                    length = int.from_bytes(stream[start + 3 : start + _RECORD], "big")
                    is_data = stream[start] == _DATA
                    found[way] += _RECORD + (_TYPE_AND_TAG if is_data else length)
                    start += _RECORD + length
        return found


def _content(content: bytes, way: str) -> str:
    if MESSAGE not in content:
        return "wrapping"
    return "train" if TRAIN[way] in content else "other messages"


def _purpose(path: str) -> str:
    if path.endswith(("pull-messages", "send-node-heartbeat")):
        return "polling"
    return "app" if path.endswith("get-fab") else "protocol"


def _messages(stream: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Head and body of each HTTP message of a stream."""
    start = 0
    while (end := stream.find(b"\r\n\r\n", start)) >= 0:
        head = stream[start : end + 4]
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        start = end + 4 + length
        yield head, stream[end + 4 : start]
