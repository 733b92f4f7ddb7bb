"""Keys and certificates, by which clients authenticate the server and the server its clients.

Each host gets one folder, which is copied only to that host::

    keys/server/           server.key, server.crt, clients/NAME.pub
    keys/clients/NAME/     client.key, server.crt

The server signs its certificate itself, and clients trust this certificate alone. A client is
identified by its private key: its name is the one under which the server stores the matching public
key. All keys use the curve P-384.

TLS ends at Flower's processes, and other accounts of a client's machine can reach those. Messages
are therefore also sealed from the server's rounds to the client's worker (`Seal`).
"""

from __future__ import annotations

import inspect
import ipaddress
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import NameOID

from plfl.base.errors import PlflError, Problem
from plfl.deploy.host import check_private, private, private_folder

SERVER_KEY, SERVER, CLIENT_KEY = "server.key", "server.crt", "client.key"
LIFE = timedelta(days=3650)
"""Validity of certificates."""
NONCE = 12
"""Bytes of the random number at the start of a sealed message."""
LONGEST_HOST_NAME = 200
"""Most bytes of a client's name."""
LONGEST_SHOWN = 40
"""Characters of a wrong name in a message."""
PATTERNS = "*?[]"
"""Characters by which a shell finds files."""
K = TypeVar("K")
"""What a file holds: a key or a certificate."""
LOCAL_NAMES = ("localhost", "127.0.0.1")
"""Names in every server's certificate, used by the processes on its own host."""


@dataclass(frozen=True)
class _KeyFolder:
    """The folder with the keys of a host. PlflError: a file is missing, or others can read it."""

    key_name: ClassVar[str]
    """The file with the private key."""
    option: ClassVar[str]
    """The option of `plfl deploy keys` that makes the folder."""

    folder: Path

    def __post_init__(self) -> None:
        _check(self.folder, self.key_name, self.option)

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.folder / SERVER

    @property
    def key(self) -> Path:
        """The private key of this host."""
        return self.folder / self.key_name


class ServerKeys(_KeyFolder):
    """The folder with the keys of a server."""

    key_name, option = SERVER_KEY, "--host NAME"

    @property
    def clients(self) -> dict[str, Path]:
        """The file with the public key of each client, by name."""
        return {path.stem: path for path in sorted((self.folder / "clients").glob("*.pub"))}

    def seals(self) -> dict[str, Seal]:
        """What seals the messages to clients, and opens theirs, by name."""
        private_key = _load(self.key, lambda data: load_pem_private_key(data, None))
        public = {name: _load(path, load_ssh_public_key) for name, path in self.clients.items()}
        return {name: Seal(private_key, key, b"server", b"client") for name, key in public.items()}

    @property
    def public_keys(self) -> dict[bytes, ec.EllipticCurvePublicKey]:
        """The public keys of the clients by their text, as PEM."""
        keys = [_load(path, load_ssh_public_key) for path in self.clients.values()]
        form = PublicFormat.SubjectPublicKeyInfo
        return {
            key.public_bytes(Encoding.PEM, form): key
            for key in keys
            if isinstance(key, ec.EllipticCurvePublicKey)
        }


class ClientKeys(_KeyFolder):
    """The folder with the keys of a client."""

    key_name, option = CLIENT_KEY, "--client NAME"

    def seal(self) -> Seal:
        """What opens the messages of the server, and seals the answers."""
        server = _load(self.certificate, x509.load_pem_x509_certificate).public_key()
        private_key = _load(self.key, lambda data: load_ssh_private_key(data, None))
        return Seal(private_key, server, b"client", b"server")


class SealError(PlflError):
    """Bytes that the other side has not sealed."""


class Seal:
    """Encrypts messages between two owners of keys, so that only they can read or write them.

    AES-256-GCM with a key that both derive from their private key and the other's public key, both
    of P-384. `side` and `other`: names of both ends, so that no message passes for an answer.
    """

    def __init__(self, private_key: object, peer: object, side: bytes, peer_side: bytes) -> None:
        assert isinstance(private_key, ec.EllipticCurvePrivateKey)
        assert isinstance(peer, ec.EllipticCurvePublicKey)
        shared_secret = private_key.exchange(ec.ECDH(), peer)
        derived = HKDF(hashes.SHA384(), 32, salt=None, info=b"plfl messages").derive(shared_secret)
        self._cipher, self._side, self._peer_side = AESGCM(derived), side, peer_side

    def encrypt(self, data: bytes) -> bytes:
        """A sealed message."""
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, data, self._side)

    def decrypt(self, data: bytes) -> bytes:
        """The message that the other side has sealed.

        Raises:
            SealError: the other side has not sealed these bytes.
        """
        try:
            return self._cipher.decrypt(data[:NONCE], data[NONCE:], self._peer_side)
        except (InvalidTag, ValueError):
            raise SealError(f"{len(data)} bytes are not sealed with the expected keys") from None


def make(folder: Path, clients: Sequence[str], hosts: Sequence[str] = ()) -> list[Path]:
    """Create keys of clients, and those of the server unless they exist; return the new folders, to
    copy to the hosts.

    `hosts`: names and addresses at which clients reach the server, in addition to `LOCAL_NAMES`.

    Raises:
        PlflError: a name cannot be the name of a folder, or its keys exist.
    """
    server = folder / "server"
    folders = [] if (server / SERVER_KEY).exists() and not hosts else [server]
    clients = [*dict.fromkeys(clients)]
    for name in clients:
        _check_name(name)
        folders.append(folder / "clients" / name)
    names = [_alternative(host) for host in (*LOCAL_NAMES, *hosts)]
    if existing := [str(path) for path in folders if path.exists()]:
        raise PlflError(
            Problem(
                "",
                f"keys exist already: {', '.join(existing)}",
                "to replace them, remove the folder first and copy the new one to its host. "
                "With a new server, replace those of all clients",
            )
        )
    for path in (folder, folder / "clients", server, server / "clients", *folders):
        private_folder(path)
    if server in folders:
        key = ec.generate_private_key(ec.SECP384R1())
        _write(server / SERVER_KEY, _private_pem(key, PrivateFormat.PKCS8))
        _write(server / SERVER, _certificate(key, names))
    for name in clients:
        key, path = ec.generate_private_key(ec.SECP384R1()), folder / "clients" / name
        _write(path / CLIENT_KEY, _private_pem(key, PrivateFormat.OpenSSH))
        _write(path / SERVER, (server / SERVER).read_bytes())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        _write(server / "clients" / f"{name}.pub", public + b"\n")
    return folders


def _check_name(name: str) -> None:
    """Check that a client's name can be that of a file everywhere, and an option of Flower."""
    if name in ("", ".", "..") or "/" in name or "\\" in name:
        raise PlflError(
            Problem(f"--client {name[:LONGEST_SHOWN]!r}", "is no name", "give one, not a path")
        )
    problem = ""
    if not name.isprintable():
        problem = "it has characters that cannot be printed"
    elif wildcards := sorted({*name} & {*PATTERNS}):
        problem = f"it has {' '.join(wildcards)}, which stand for other characters in a shell"
    elif name[0] in "-. " or name[-1] in ". ":
        problem = f"it begins or ends with {name[0] if name[0] in '-. ' else name[-1]!r}"
    elif (size := len(name.encode())) > LONGEST_HOST_NAME:
        problem = f"it has {size} bytes, and may have {LONGEST_HOST_NAME}"
    if problem:
        raise PlflError(
            Problem(
                f"--client {name[:LONGEST_SHOWN]!r}",
                problem,
                "give another name, such as letters and digits",
            )
        )


def _load(path: Path, load: Callable[[bytes], K]) -> K:
    """The key or certificate in a file; PlflError if it has none of this kind."""
    try:
        return load(path.read_bytes())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise PlflError(
            Problem(
                path,
                f"is damaged, or no key of `plfl deploy keys` ({error})",
                "copy the folder again from where it was made",
            )
        ) from None


def _check(folder: Path, key: str, option: str) -> None:
    for path in (folder / SERVER, folder / key):
        if not path.exists():
            raise PlflError(
                Problem(
                    path,
                    "not found",
                    f"create it with `plfl deploy keys {option}` and copy the whole folder to "
                    "this host",
                )
            )
    check_private(folder)
    check_private(folder / key)


def _certificate(key: ec.EllipticCurvePrivateKey, names: Iterable[x509.GeneralName]) -> bytes:
    """A certificate that the server signs itself, as PEM."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "plfl server")])
    uses = dict.fromkeys(inspect.signature(x509.KeyUsage).parameters, False)
    usage = x509.KeyUsage(**uses | {"digital_signature": True, "key_cert_sign": True})
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        # The clocks of hosts differ. A client tells by how much, if it can reach the server.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + LIFE)
        .add_extension(x509.BasicConstraints(True, path_length=0), True)
        .add_extension(usage, True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(x509.SubjectAlternativeName(names), False)
    )
    return builder.sign(key, hashes.SHA384()).public_bytes(Encoding.PEM)


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not re.fullmatch(r"[A-Za-z0-9.-]{1,253}", host):
            raise PlflError(
                Problem(
                    f"--host {host[:LONGEST_SHOWN]!r}",
                    "is neither a name nor an address",
                    "give one without a port",
                )
            ) from None
        return x509.DNSName(host)


def _private_pem(key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> bytes:
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def _write(path: Path, content: bytes) -> None:
    with private(path) as temporary:
        temporary.write_bytes(content)
