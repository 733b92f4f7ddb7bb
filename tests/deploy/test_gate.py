"""What a server takes from whoever reaches its port: a real gate, before a counting SuperLink."""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")

import httpx
import uvicorn
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.proto.fleet_pb2 import ActivateNodeRequest
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from plfl.deploy import certificates, flower, gate

MEGABYTE = 1 << 20
LARGEST = 2 * MEGABYTE
"""Most bytes of an answer here."""
ENDED = 0
POST = b"POST /v1/fleet/activate-node HTTP/1.1\r\nhost: x\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A gate at `port`, the `sizes` of the requests that have passed it, and the folder of keys."""
    folder = tmp_path_factory.mktemp("gate")
    certificates.make(folder, ["a", "b"])
    own, sizes = certificates.ServerKeys(folder / "server"), []

    async def superlink(scope: Any, receive: Any, send: Any) -> None:
        event = await receive()
        size = len(event["body"])
        while event["more_body"]:
            event = await receive()
            size += len(event["body"])
        sizes.append(size)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with socket.socket() as behind, gate.Door(socket.AF_INET) as door:
        for listener in (behind, door):
            listener.bind(("127.0.0.1", 0))
            listener.listen(gate.STRANGERS)  # connections wait for the threads
        settings = uvicorn.Config(
            superlink, ssl_certfile=own.certificate, ssl_keyfile=own.key, lifespan="off", ws="none"
        )
        stub = uvicorn.Server(settings)
        threading.Thread(target=stub.run, args=([behind],), daemon=True).start()
        link = flower.Link(f"127.0.0.1:{behind.getsockname()[1]}", own.certificate)
        gate.open_gate(door, link, own, LARGEST)
        yield SimpleNamespace(port=door.getsockname()[1], sizes=sizes, folder=folder)


def connect(server: SimpleNamespace) -> ssl.SSLSocket:
    trusted = ssl.create_default_context(cafile=server.folder / "server" / "server.crt")
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    return trusted.wrap_socket(plain, server_hostname="127.0.0.1")


def supernode(server: SimpleNamespace, key: str, public: str = "") -> FleetHttpClient:
    """Flower's client with the private key of a client; `public`: whose public key it states."""
    private = {
        name: load_ssh_private_key(
            (server.folder / "clients" / name / "client.key").read_bytes(), None
        )
        for name in ("a", "b")
    }
    signer = NodeAuthHttpInterceptor(private[key], private[public or key].public_key())
    certificate = (server.folder / "server" / "server.crt").read_bytes()
    address = f"127.0.0.1:{server.port}"
    return FleetHttpClient.from_server_address(address, False, certificate, [signer])


def status_of(call: Any, request: Any) -> int:
    """The status of the gate's answer; `ENDED` if the connection ends before that."""
    try:
        call(request)
    except httpx.HTTPStatusError as error:
        return error.response.status_code
    except httpx.TransportError:
        return ENDED
    return 200


FLOODS = {
    "body": (POST + b"content-length: 209715200\r\n\r\n", b"x" * MEGABYTE),
    "answer": (
        b"POST /v1/fleet/push-object HTTP/1.1\r\nhost: x\r\ncontent-length: 209715200\r\n\r\n",
        b"x" * MEGABYTE,
    ),
    "other path": (
        b"POST /v1/control/x HTTP/1.1\r\nhost: x\r\ncontent-length: 209715200\r\n\r\n",
        b"x" * MEGABYTE,
    ),
    "no length": (
        POST + b"transfer-encoding: chunked\r\n\r\n",
        b"100000\r\n" + b"x" * MEGABYTE + b"\r\n",
    ),
    "headers": (POST, b"name: " + b"x" * MEGABYTE + b"\r\n"),
    "path": (b"POST /v1/fleet/", b"x" * MEGABYTE),
    "many requests": (b"", (POST + b"content-length: 4000\r\n\r\n" + b"x" * 4000) * 250),
}


@pytest.mark.parametrize("case", FLOODS)
def test_a_stranger_cannot_send_much(server: SimpleNamespace, case: str) -> None:
    begin, part = FLOODS[case]
    server.sizes.clear()
    with connect(server) as connection, pytest.raises((ConnectionError, ssl.SSLError)):
        connection.sendall(begin)
        for _ in range(200):
            connection.sendall(part)
    assert sum(server.sizes) <= 4000


def test_a_stranger_gets_one_answer_per_connection(server: SimpleNamespace) -> None:
    with connect(server) as connection:
        connection.sendall(POST + b"content-length: 3\r\n\r\nabc")
        answer = b"".join(iter(lambda: connection.recv(MEGABYTE), b""))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.lower().count(b"connection: close") == 1


def test_a_forbidden_path_ends_the_connection(server: SimpleNamespace) -> None:
    with connect(server) as connection:
        connection.sendall(b"POST /v1/control/x HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(MEGABYTE), b""))
    assert answer.startswith(b"HTTP/1.1 403 ")


def test_a_client_can_send_the_longest_answer_and_no_longer_one(server: SimpleNamespace) -> None:
    client = supernode(server, "a")
    most = LARGEST + gate.ENVELOPE
    frame = PushObjectRequest(object_content=b"x" * LARGEST).ByteSize() - LARGEST
    for excess, status in ((0, 200), (1, 413)):
        request = PushObjectRequest(object_content=b"x" * (most - frame + excess))
        assert status_of(client.PushObject, request) == status
    small = ActivateNodeRequest(public_key=b"x" * gate.SMALL_REQUEST)
    assert status_of(client.ActivateNode, small) == 413
    assert status_of(client.ActivateNode, ActivateNodeRequest()) == 200


def test_a_key_that_has_not_signed_admits_nothing_large(server: SimpleNamespace) -> None:
    server.sizes.clear()
    request = PushObjectRequest(object_content=b"x" * gate.SMALL_REQUEST)
    assert status_of(supernode(server, "b", public="a").PushObject, request) in (413, ENDED)
    assert server.sizes == []
    assert status_of(supernode(server, "a").PushObject, request) == 200


def test_idle_connections_do_not_keep_clients_out(server: SimpleNamespace) -> None:
    client = supernode(server, "a")
    assert status_of(client.ActivateNode, ActivateNodeRequest()) == 200
    address = ("127.0.0.1", server.port)
    idle = [socket.create_connection(address, timeout=60) for _ in range(3 * gate.STRANGERS)]
    try:
        assert all(connection.recv(1) == b"" for connection in idle[: gate.STRANGERS])
        # Its connection, though older, is still there.
        assert status_of(client.ActivateNode, ActivateNodeRequest()) == 200
    finally:
        for connection in idle:
            connection.close()


def test_connections_that_break_off_leave_no_trace(
    server: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    server.sizes.clear()
    for sent in (b"", b"POST /v1/f", POST + b"content-length: 1000\r\n\r\nabc") * 10:
        connection = connect(server)
        connection.sendall(sent)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    assert status_of(supernode(server, "a").ActivateNode, ActivateNodeRequest()) == 200
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
    assert len(server.sizes) == 1
