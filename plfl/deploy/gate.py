"""The gate through which other machines reach a SuperLink: which requests pass, and how large.

A SuperLink holds a whole request in memory before it asks who has sent it. The gate therefore
refuses a request by its path, its size and its signature before it reads the body. Whoever has no
key of a client gets a tiny request, a single one per connection, and few connections.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from base64 import b64decode
from collections import defaultdict
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from http import HTTPStatus
from string import ascii_letters, digits
from typing import Any, TypeAlias

from plfl.base.lazy import ec, exceptions, hashes, httpx
from plfl.deploy import flower
from plfl.deploy.annotations import ServerKeys

FLEET = "/v1/fleet/"
"""The part of a SuperLink's interface that SuperNodes use. It requires authentication; the other
parts, such as starting a run or registering a key, do not."""
ANSWER_PATH = f"{FLEET}push-object"
"""The path to which a SuperNode sends the content of an answer. Other requests are small."""
PATH_CHARACTERS = {*ascii_letters, *digits, *"/-_"}
"""Characters of the paths that the gate passes on."""
STRANGERS = 128
"""Most connections that are open at once without a request that a client has signed."""
TINY_REQUEST = 1 << 12
"""Most bytes of a request that no client has signed."""
SMALL_REQUEST = 1 << 16
"""Most bytes of a client's request that is not the content of an answer."""
ENVELOPE = 1 << 16
"""Most bytes that the seal and Flower add to an answer."""
WAIT = 120.0
"""Seconds within which a request has to arrive, and within which a SuperLink has to answer it."""
PASSED_HEADERS = (b"content-type", b"accept", b"user-agent")
"""Names of the headers that the gate passes on, besides those of Flower."""
FLOWER_PREFIX = b"flwr-"
"""First characters of the names of Flower's own headers."""
KEY, STAMP, SIGNATURE = b"flwr-public-key", b"flwr-timestamp", b"flwr-signature"
"""Headers by which a SuperNode authenticates: its public key as PEM, the time, and the signature of
that time; key and signature in Base64."""
Address: TypeAlias = tuple[str, int]
"""Host and port of the other end of a connection."""


class Door(socket.socket):
    """A listening socket that keeps few connections of strangers: for a new one, the oldest ends.

    The loop of asyncio calls `accept`.
    """

    def __init__(self, family: socket.AddressFamily):
        super().__init__(family)
        self.admitted_addresses: set[Address] = set()
        """Connections on which a client has signed a request."""
        self._connections: dict[Address, socket.socket] = {}

    def accept(self) -> tuple[socket.socket, Any]:
        """A new connection, and the address of its other end."""
        newest, address = super().accept()
        self._connections = {
            place: open_connection
            for place, open_connection in self._connections.items()
            if open_connection.fileno() >= 0
        }
        self._connections[address[:2]] = newest
        self.admitted_addresses &= self._connections.keys()
        strangers = [
            open_connection
            for place, open_connection in self._connections.items()
            if place not in self.admitted_addresses
        ]
        for connection in strangers[:-STRANGERS]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        return newest, address


class RefusedError(Exception):
    """A request that the gate answers itself."""

    def __init__(self, status: HTTPStatus):
        super().__init__(status.phrase)
        self.status = status


class LeftError(Exception):
    """The sender of a request has gone before it was complete."""


def open_gate(door: Door, link: flower.Link, keys: ServerKeys, largest: int) -> None:
    """Pass on what arrives at `door` for the SuperLink at `link`, in a thread, for as long as
    this process lives. `largest`: most bytes of an answer of a client, before it is sealed."""
    import uvicorn

    settings = uvicorn.Config(
        Gate(door, link, keys, largest),
        ssl_certfile=keys.certificate,
        ssl_keyfile=keys.key,
        http="h11",  # limits the headers, which others do not
        loop="asyncio",
        proxy_headers=False,
        log_config=None,
        lifespan="off",
        ws="none",
        timeout_keep_alive=60,  # longer than the pauses between the requests of a SuperNode
    )
    threading.Thread(target=uvicorn.Server(settings).run, args=([door],), daemon=True).start()


class Gate:
    """An ASGI application that forwards requests of `FLEET` to the SuperLink at `link`.

    A client's answers are at most `largest` bytes long.
    """

    def __init__(self, door: Door, link: flower.Link, keys: ServerKeys, largest: int):
        trusted = ssl.create_default_context(cafile=link.trusted_certificate)
        self._superlink = httpx.AsyncClient(
            base_url=f"https://{link.address}", verify=trusted, timeout=WAIT, trust_env=False
        )
        self._door, self._largest, self._keys = door, largest + ENVELOPE, keys.public_keys
        self._turns: defaultdict[bytes, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Answer a request."""
        client, headers = None, dict(scope["headers"])
        try:
            client = self._signer_of(headers)
            if client is not None:
                self._door.admitted_addresses.add(scope["client"])
            response = await self._answer(scope, headers, client, receive)
        except RefusedError as refused:
            response = httpx.Response(refused.status, text=str(refused))
        except LeftError:
            return
        # What else a client sends too much of is read and dropped: its SuperNode would take the end
        # of the connection for a fault of the network, and send it again.
        is_last = client is None or response.status_code == HTTPStatus.FORBIDDEN
        last_header = [(b"connection", b"close")] if is_last else []
        start = {"type": "http.response.start", "status": response.status_code}
        await send(start | {"headers": [*response.headers.raw, *last_header]})
        await send({"type": "http.response.body", "body": response.content})

    async def _answer(
        self,
        scope: Mapping[str, Any],
        headers: Mapping[bytes, bytes],
        client: bytes | None,
        receive: Any,
    ) -> httpx.Response:
        """The SuperLink's answer to a request of a `client`, if its key has signed it.

        Raises:
            RefusedError: it is not passed on, or the SuperLink does not answer.
            LeftError: its sender has gone.
        """
        # As it was sent: a decoded path could mean another one to the SuperLink.
        path = scope["raw_path"].decode("ascii")
        if not path.startswith(FLEET) or not set(path) <= PATH_CHARACTERS:
            raise RefusedError(HTTPStatus.FORBIDDEN)
        if b"transfer-encoding" in headers:
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED)
        size = int(headers.get(b"content-length", 0))
        if size > (
            TINY_REQUEST
            if client is None
            else self._largest
            if path == ANSWER_PATH
            else SMALL_REQUEST
        ):
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        forwarded_headers = [
            (n, v) for n, v in headers.items() if n in PASSED_HEADERS or n.startswith(FLOWER_PREFIX)
        ]
        try:
            # A client sends its long requests one after the other.
            async with self._turns[client] if client and size > TINY_REQUEST else nullcontext():
                return await self._superlink.request(
                    scope["method"], path, headers=forwarded_headers, content=await _read(receive)
                )
        except httpx.TransportError:  # a SuperNode then tries again
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE) from None

    def _signer_of(self, headers: Mapping[bytes, bytes]) -> bytes | None:
        """The public key of the client that has signed a request; None without such a signature."""
        with suppress(KeyError, ValueError, exceptions.InvalidSignature):
            claimed, signature = (b64decode(headers[n], validate=True) for n in (KEY, SIGNATURE))
            # The SuperLink checks that the time is near.
            self._keys[claimed].verify(signature, headers[STAMP], ec.ECDSA(hashes.SHA256()))
            return claimed
        return None


async def _read(receive: Any) -> bytes:
    """The body of a request.

    Raises:
        RefusedError: it does not arrive in time.
        LeftError: the sender has gone.
    """
    body, is_complete = bytearray(), False
    try:
        async with asyncio.timeout(WAIT):
            while not is_complete:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise LeftError
                body += event.get("body", b"")
                is_complete = not event.get("more_body", False)
    except TimeoutError:
        raise RefusedError(HTTPStatus.REQUEST_TIMEOUT) from None
    return bytes(body)
