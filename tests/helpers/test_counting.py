"""The proxy that counts what crosses the wire, and the search for numbers in it."""

import socket
import threading

import numpy as np
import pytest

from tests.campaigns.deploy_wire import count
from tests.helpers.counting import KINDS, MESSAGE, TRAIN, Proxy


@pytest.fixture
def proxy():
    """A proxy before a server that answers every request of 60 bytes with the same reply."""
    body = b"x" * 20 + MESSAGE + TRAIN["down"]
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        while connection.recv(1 << 16):
            connection.sendall(reply)

    threading.Thread(target=serve, daemon=True).start()
    return Proxy(("127.0.0.1", listener.getsockname()[1])), reply, body


def test_what_crosses_is_counted_by_what_it_is_for(proxy):
    through, reply, body = proxy
    requests = []
    with socket.create_connection(("127.0.0.1", through.port)) as connection:
        for path, content in (
            ("push-object", MESSAGE + TRAIN["up"] + b"123"),
            ("push-object", MESSAGE + b"scores"),
            ("push-object", b"a wrapping"),
            ("pull-object", b""),
            ("pull-messages", b""),
        ):
            head = f"POST /v1/fleet/{path} HTTP/1.1\r\ncontent-length: {len(content)}\r\n\r\n"
            requests.append(head.encode() + content)
            connection.sendall(requests[-1])
            got = b""
            while len(got) < len(reply):
                got += connection.recv(1 << 16)
            assert got == reply
    assert through.bytes["up"] == sum(map(len, requests))
    assert through.bytes["down"] == 5 * len(reply)
    parts = through.parts()
    assert parts["up", "train"] == len(MESSAGE + TRAIN["up"]) + 3
    assert parts["up", "other messages"] == len(MESSAGE + b"scores")
    assert parts["up", "wrapping"] == len(b"a wrapping")
    assert parts["down", "train"] == len(body)
    assert (parts["up", "messages"], parts["down", "messages"]) == (2, 1)
    assert parts["up", "polls"] == 1
    for way in ("up", "down"):
        assert sum(parts[way, kind] for kind in KINDS) == through.bytes[way]


def test_what_encryption_costs_is_told(proxy):
    through, *_ = proxy
    hello = b"\x16\x03\x01" + (200).to_bytes(2, "big") + bytes(200)
    data = b"\x17\x03\x03" + (117).to_bytes(2, "big") + bytes(117)
    through.connections.append({"up": bytearray(hello + data + data), "down": bytearray(data)})
    assert through.encryption() == {"up": 205 + 22 + 22, "down": 22}


@pytest.mark.parametrize("offset", [0, 3, 4])
def test_numbers_are_found_wherever_they_lie(offset):
    values = np.random.default_rng(3).random(40, dtype=np.float32)
    pairs = np.sort(np.stack([values[:-1], values[1:]], 1).view(np.uint64).ravel())
    data = b"\0" * offset + values.tobytes() + b"\1" * 5
    assert count(data, pairs) == 39
    other = np.random.default_rng(4).random(400, dtype=np.float32)
    assert count(other.tobytes(), pairs) == 0
