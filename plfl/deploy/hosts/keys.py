"""Keys and certificates, by which clients authenticate the server and the server its clients.

Each host gets one folder, which is copied only to that host::

    keys/ca.key            signs the server's certificates; stays where it was created
    keys/server/           server.key, server.crt, ca.crt, clients/NAME.pub
    keys/clients/NAME/     client.key, client.pem, ca.crt

`client.pem` contains the key of `client.key` and its certificate, in the form that HTTPS programs
read. A client is identified by its private key: its name is the one under which the server stores
the matching public key. All keys use the curve P-384.
"""

from __future__ import annotations

import ipaddress
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from plfl.base.errors import PlflError
from plfl.deploy.hosts.private import check_private, private, private_folder

CA_KEY, CA = "ca.key", "ca.crt"
SERVER_KEY, SERVER, CLIENT_KEY = "server.key", "server.crt", "client.key"
CLIENT_PEM = "client.pem"
LIFE = timedelta(days=730)
"""Validity of certificates."""
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

    @property
    def files(self) -> dict[str, Path]:
        """File with the public key of each client, by name."""
        found = sorted((self.folder / "clients").glob("*.pub"))
        return {path.name.removesuffix(".pub"): path for path in found}

    @property
    def clients(self) -> dict[str, str]:
        """Public key of each client, by name."""
        return {name: path.read_text("ascii") for name, path in self.files.items()}

    @classmethod
    def of(cls, folder: Path) -> ServerKeys:
        """The keys in `folder`.

        Raises:
            PlflError: a file is missing, or other users can read it.
        """
        _check(folder, [CA, SERVER], SERVER_KEY, "--host NAME")
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
        return cls(folder)


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
    has_ca = (folder / CA_KEY).exists()
    if hosts or not has_ca:
        wanted.insert(0, folder / "server")
    existing = [str(path) for path in wanted if _private_key(path).exists()]
    if existing and not replace:
        raise PlflError(
            f"keys exist already: {', '.join(existing)}; --replace overwrites them, and hosts "
            "with the old keys are then refused"
        )
    private_folder(folder)
    ca_key, ca = _ca(folder) if has_ca else _new_ca(folder)
    for path in wanted:
        private_folder(path.parent)
        private_folder(path)
        _write(path / CA, _pem(ca))
    if hosts or not has_ca:
        _make_server(folder / "server", ca_key, [*ALWAYS, *hosts])
    private_folder(folder / "server" / "clients")
    for name in clients:
        _make_client(folder, name, ca_key)
    return wanted


def make_temporary(folder: Path, clients: Sequence[str]) -> None:
    """Create keys for one run on this machine, and remove those of an earlier run."""
    shutil.rmtree(folder, ignore_errors=True)
    make(folder, clients)


def _private_key(folder: Path) -> Path:
    return folder / (SERVER_KEY if folder.name == "server" else CLIENT_KEY)


def _check(folder: Path, public: Iterable[str], key: str, option: str) -> None:
    for path in [folder / name for name in (*public, key)]:
        if not path.exists():
            raise PlflError(
                f"{path}: not found; create it with `plfl deploy keys {option}` and copy the "
                "whole folder to this host"
            )
    check_private(folder)
    check_private(folder / key)


def _ca(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    _check(folder, [CA], CA_KEY, "--folder NEW")
    key = serialization.load_pem_private_key((folder / CA_KEY).read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise PlflError(
            f"{folder / CA_KEY}: not a key of an elliptic curve; create keys in a new folder"
        )
    return key, x509.load_pem_x509_certificate((folder / CA).read_bytes())


def _new_ca(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP384R1())
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _certificate("plfl CA", "plfl CA", key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    ca = builder.sign(key, hashes.SHA384())
    _write(folder / CA_KEY, _pkcs8(key))
    _write(folder / CA, _pem(ca))
    return key, ca


def _make_server(folder: Path, ca_key: ec.EllipticCurvePrivateKey, hosts: Sequence[str]) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    builder = _certificate("plfl server", "plfl CA", key).add_extension(
        x509.SubjectAlternativeName([_alternative(h) for h in hosts]), False
    )
    certificate = _signed(builder, ca_key, ExtendedKeyUsageOID.SERVER_AUTH)
    _write(folder / SERVER_KEY, _pkcs8(key))
    _write(folder / SERVER, _pem(certificate))


def _make_client(folder: Path, name: str, ca_key: ec.EllipticCurvePrivateKey) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    builder = _certificate("plfl client", "plfl CA", key)  # names can be too long for it
    certificate = _signed(builder, ca_key, ExtendedKeyUsageOID.CLIENT_AUTH)
    _write(folder / "clients" / name / CLIENT_KEY, private)
    _write(folder / "clients" / name / CLIENT_PEM, _pkcs8(key) + _pem(certificate))
    _write(folder / "server" / "clients" / f"{name}.pub", public + b"\n")


def _signed(
    builder: x509.CertificateBuilder,
    ca_key: ec.EllipticCurvePrivateKey,
    usage: x509.ObjectIdentifier,
) -> x509.Certificate:
    """A certificate of the CA for one usage."""
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), False)
        .add_extension(issuer, False)
        .sign(ca_key, hashes.SHA384())
    )


def _certificate(
    subject: str, issuer: str, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # The clocks of hosts differ.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pkcs8(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, content: bytes) -> None:
    with private(path) as temporary:
        temporary.write_bytes(content)
