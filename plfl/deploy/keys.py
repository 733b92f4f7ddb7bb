"""Keys and certificates, by which clients authenticate the server and the server its clients.

Each host gets one folder, which is copied only to that host::

    keys/ca.key            signs the server's certificates; stays where it was created
    keys/server/           server.key, server.crt, ca.crt, clients/NAME.pub
    keys/clients/NAME/     client.key, client.pem, ca.crt

`client.pem` contains the key of `client.key` and its certificate, in the form that HTTPS programs
read. A client is identified by its private key: its name is the one under which the server stores
the matching public key. All keys use the curve P-384.

TLS ends at Flower's processes, and other accounts of a client's machine can reach those. Messages
are therefore also sealed from the server's rounds to the client's worker (`Seal`).
"""

from __future__ import annotations

import inspect
import ipaddress
import logging
import os
import re
import socket
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from plfl.base.errors import PlflError
from plfl.deploy.host import check_private, private, private_folder

log = logging.getLogger(__name__)

CA_KEY, CA = "ca.key", "ca.crt"
SERVER_KEY, SERVER, CLIENT_KEY = "server.key", "server.crt", "client.key"
CLIENT_PEM = "client.pem"
LIFE = timedelta(days=730)
"""Validity of certificates."""
SOON = timedelta(days=60)
"""A certificate that expires within this time is reported."""
ANSWER = 10.0
"""Seconds within which a server has to show its certificate."""
NONCE = 12
"""Bytes of the random number at the start of a sealed message."""
ALWAYS = ("localhost", "127.0.0.1")
"""Names in every server's certificate, used by the processes on its own host."""


@dataclass(frozen=True)
class ServerKeys:
    """The folder with the keys of a server."""

    folder: Path

    @property
    def certificates(self) -> tuple[Path, Path, Path]:
        """Certificate of the CA, certificate of the server and private key of the server."""
        return self.folder / CA, self.folder / SERVER, self.folder / SERVER_KEY

    def file(self, name: str) -> Path:
        """The file with the public key of a client."""
        return self.folder / "clients" / f"{name}.pub"

    @property
    def clients(self) -> dict[str, ec.EllipticCurvePublicKey]:
        """Public key of each client, by name. Files without one are reported and left out."""
        paths = sorted((self.folder / "clients").glob("*.pub"))
        return {path.stem: key for path in paths if (key := _public(path))}

    def seals(self, names: Iterable[str]) -> dict[str, Seal]:
        """What seals the messages to clients, and opens theirs, by name."""
        private_key = load_pem_private_key((self.folder / SERVER_KEY).read_bytes(), None)
        assert isinstance(private_key, ec.EllipticCurvePrivateKey)
        clients = self.clients
        return {name: Seal(private_key, clients[name], b"server", b"client") for name in names}

    @classmethod
    def of(cls, folder: Path) -> ServerKeys:
        """The keys in `folder`.

        Raises:
            PlflError: a file is missing, or other users can read it.
        """
        _check(folder, [CA, SERVER], SERVER_KEY, "--host NAME")
        for name in (CA, SERVER):
            _check_valid(folder / name)
        return cls(folder)


@dataclass(frozen=True)
class ClientKeys:
    """The folder with the keys of a client."""

    folder: Path

    @property
    def trusted(self) -> Path:
        """Certificate of the CA."""
        return self.folder / CA

    @property
    def key(self) -> Path:
        """The client's private key."""
        return self.folder / CLIENT_KEY

    @classmethod
    def of(cls, folder: Path) -> ClientKeys:
        """The keys in `folder`.

        Raises:
            PlflError: a file is missing, or other users can read it.
        """
        _check(folder, [CA], CLIENT_KEY, "--client NAME")
        _check_valid(folder / CA)
        return cls(folder)

    def seal(self, address: str) -> Seal:
        """What opens the messages of the server at an address, and seals the answers.

        Raises:
            OSError: the server does not answer.
            PlflError: it has no valid certificate for the address.
        """
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        trusted = ssl.create_default_context(cafile=self.trusted)
        try:
            with (
                socket.create_connection((host, int(port)), ANSWER) as connection,
                trusted.wrap_socket(connection, server_hostname=host) as secured,
            ):
                shown = secured.getpeercert(binary_form=True)
        except ssl.SSLCertVerificationError as error:
            raise PlflError(
                f"the certificate of the server at {address} is not valid for {self.trusted}: "
                f"{error.verify_message}; copy the folder that `plfl deploy keys` created for this "
                "client together with the server's, and give the server's address to `plfl deploy "
                "keys` with --host"
            ) from None
        public = x509.load_der_x509_certificate(shown or b"").public_key()
        private_key = load_ssh_private_key(self.key.read_bytes(), None)
        assert isinstance(private_key, ec.EllipticCurvePrivateKey)
        if not isinstance(public, ec.EllipticCurvePublicKey):
            raise PlflError(f"the server at {address} has no key of `plfl deploy keys`")
        return Seal(private_key, public, b"client", b"server")


class SealError(PlflError):
    """Bytes that the other side has not sealed."""


class Seal:
    """Encrypts messages between two owners of keys, so that only they can read or write them.

    AES-256-GCM with a key that both derive from their private key and the other's public key.
    `side` and `other`: names of both ends, so that no message passes for an answer.
    """

    def __init__(
        self,
        private_key: ec.EllipticCurvePrivateKey,
        peer: ec.EllipticCurvePublicKey,
        side: bytes,
        other: bytes,
    ) -> None:
        shared = private_key.exchange(ec.ECDH(), peer)
        derived = HKDF(hashes.SHA384(), 32, salt=None, info=b"plfl messages").derive(shared)
        self._cipher, self._side, self._other = AESGCM(derived), side, other

    def close(self, data: bytes) -> bytes:
        """A sealed message."""
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, data, self._side)

    def open(self, data: bytes) -> bytes:
        """The message that the other side has sealed.

        Raises:
            SealError: the other side has not sealed these bytes.
        """
        try:
            return self._cipher.decrypt(data[:NONCE], data[NONCE:], self._other)
        except (InvalidTag, ValueError):
            raise SealError(f"{len(data)} bytes are not sealed with the expected keys") from None


def make(
    folder: Path, clients: Sequence[str], hosts: Sequence[str] = (), *, replace: bool = False
) -> list[Path]:
    """Create keys and certificates with the CA in `folder`, or with a new one if there is none;
    return the folders to copy to the hosts.

    The keys of a server are created together with a new CA, and whenever `hosts` are given: names
    and addresses at which clients reach the server, in addition to `ALWAYS`.

    Raises:
        PlflError: a name cannot be the name of a folder, or keys exist and `replace` is not set.
    """
    for name in clients:
        if name in ("", "..") or Path(name).name != name:
            raise PlflError(f"--client {name!r}: give a name, not a path")
    wanted = [folder / "clients" / name for name in clients]
    names = [_alternative(host) for host in (*ALWAYS, *hosts)]
    has_ca = (folder / CA_KEY).exists()
    if hosts or not has_ca:
        wanted.insert(0, folder / "server")
    existing = [
        str(path)
        for path in wanted
        if (path / (SERVER_KEY if path.name == "server" else CLIENT_KEY)).exists()
    ]
    if existing and not replace:
        raise PlflError(
            f"keys exist already: {', '.join(existing)}; --replace overwrites them, and hosts "
            "with the old keys are then refused"
        )
    private_folder(folder)
    ca_key = _ca_key(folder) if has_ca else _new_ca(folder)
    ca = (folder / CA).read_bytes()
    end = min(datetime.now(UTC) + LIFE, expiry(folder / CA))
    for path in wanted:
        private_folder(path.parent)
        private_folder(path)
        _write(path / CA, ca)
    server = folder / "server"
    private_folder(server / "clients")
    if hosts or not has_ca:
        key = ec.generate_private_key(ec.SECP384R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        extensions = [usage, x509.SubjectAlternativeName(names)]
        _write(server / SERVER_KEY, _private_pem(key, PrivateFormat.PKCS8))
        _write(server / SERVER, _certificate("plfl server", key, ca_key, end, extensions))
    for name in clients:
        key, path = ec.generate_private_key(ec.SECP384R1()), folder / "clients" / name
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        # The subject is no name, which can be too long for it.
        certificate = _certificate("plfl client", key, ca_key, end, [usage])
        _write(path / CLIENT_KEY, _private_pem(key, PrivateFormat.OpenSSH))
        _write(path / CLIENT_PEM, _private_pem(key, PrivateFormat.PKCS8) + certificate)
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        _write(ServerKeys(server).file(name), public + b"\n")
    return wanted


def expiry(certificate: Path) -> datetime:
    """The time after which a certificate is not accepted."""
    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc


def _check(folder: Path, public: Iterable[str], key: str, option: str) -> None:
    for path in [folder / name for name in (*public, key)]:
        if not path.exists():
            raise PlflError(
                f"{path}: not found; create it with `plfl deploy keys {option}` and copy the "
                "whole folder to this host"
            )
    check_private(folder)
    check_private(folder / key)


def _check_valid(certificate: Path) -> None:
    """Refuse a certificate that has expired, and report one that soon will."""
    end = expiry(certificate)
    if end < datetime.now(UTC):
        raise PlflError(
            f"{certificate}: expired on {end:%Y-%m-%d}; create keys for all hosts in a new folder "
            "with `plfl deploy keys --folder NEW`, and copy them to the hosts"
        )
    if end < datetime.now(UTC) + SOON:
        log.warning("%s: expires on %s; create new keys before", certificate, f"{end:%Y-%m-%d}")


def _public(path: Path) -> ec.EllipticCurvePublicKey | None:
    try:
        key = load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        log.warning("%s: not a public key (%s); remove the file", path, error)
        return None
    return key if isinstance(key, ec.EllipticCurvePublicKey) else None


def _ca_key(folder: Path) -> ec.EllipticCurvePrivateKey:
    """The key of the CA in a folder, which must still be valid."""
    _check(folder, [CA], CA_KEY, "--folder NEW")
    _check_valid(folder / CA)
    key = load_pem_private_key((folder / CA_KEY).read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise PlflError(
            f"{folder / CA_KEY}: not a key of an elliptic curve; create keys in a new folder"
        )
    return key


def _new_ca(folder: Path) -> ec.EllipticCurvePrivateKey:
    """The key of a new CA, whose certificate and key are written to a folder."""
    key = ec.generate_private_key(ec.SECP384R1())
    uses = dict.fromkeys(inspect.signature(x509.KeyUsage).parameters, False)
    usage = x509.KeyUsage(**uses | {"key_cert_sign": True, "crl_sign": True})
    end = datetime.now(UTC) + LIFE
    _write(folder / CA_KEY, _private_pem(key, PrivateFormat.PKCS8))
    _write(folder / CA, _certificate("plfl CA", key, key, end, [usage]))
    return key


def _certificate(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    ca_key: ec.EllipticCurvePrivateKey,
    end: datetime,
    extensions: Iterable[x509.ExtensionType],
) -> bytes:
    """A certificate for `key`, as PEM: that of the CA itself, or one that the CA signs."""
    is_ca = key is ca_key
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in (subject, "plfl CA")]
    builder = (
        x509.CertificateBuilder()
        .subject_name(names[0])
        .issuer_name(names[1])
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # The clocks of hosts differ.
        .not_valid_before(datetime.now(UTC) - timedelta(hours=1))
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(is_ca, path_length=0 if is_ca else None), True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )
    if not is_ca:
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
        builder = builder.add_extension(issuer, False)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=is_ca)
    return builder.sign(ca_key, hashes.SHA384()).public_bytes(Encoding.PEM)


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not re.fullmatch(r"[A-Za-z0-9.-]+", host):
            raise PlflError(f"--host {host!r}: give a name or an address, without a port") from None
        return x509.DNSName(host)


def _private_pem(key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> bytes:
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def _write(path: Path, content: bytes) -> None:
    with private(path) as temporary:
        temporary.write_bytes(content)
