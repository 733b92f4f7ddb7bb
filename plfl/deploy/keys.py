"""Keys and certificates: by which clients know the server, and the server its clients.

One folder for each host, to be copied there and nowhere else::

    keys/ca.key            signs servers' certificates; stays where it was made
    keys/server/           server.key, server.crt, ca.crt, clients/NAME.pub
    keys/clients/NAME/     client.key, ca.crt

Whose private key it is, is who it is: a client's name is the one that its public key has at the
server. All keys are of the curve P-384.
"""

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

from plfl.deploy.private import check_private, private, private_folder
from plfl.errors import PlflError

CA_KEY, CA = "ca.key", "ca.crt"
SERVER_KEY, SERVER, CLIENT_KEY = "server.key", "server.crt", "client.key"
LIFE = timedelta(days=730)
"""For how long certificates are good."""
ALWAYS = ("localhost", "127.0.0.1")
"""Names that every server's certificate has: its own processes use them."""


@dataclass(frozen=True)
class ServerKeys:
    """What a server's folder holds."""

    folder: Path

    @property
    def certificates(self) -> tuple[Path, Path, Path]:
        """Certificates of the CA and the server, and the server's key."""
        return self.folder / CA, self.folder / SERVER, self.folder / SERVER_KEY

    @property
    def clients(self) -> dict[str, str]:
        """Public key of each client, by name."""
        found = sorted((self.folder / "clients").glob("*.pub"))
        return {path.name.removesuffix(".pub"): path.read_text("ascii") for path in found}

    @classmethod
    def of(cls, folder: Path) -> "ServerKeys":
        """The keys in `folder`.

        Raises:
            PlflError: something is not there, or others can read it.
        """
        _check(folder, [CA, SERVER], SERVER_KEY, "--host NAME")
        return cls(folder)


@dataclass(frozen=True)
class ClientKeys:
    """What a client's folder holds."""

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
    def of(cls, folder: Path) -> "ClientKeys":
        """The keys in `folder`.

        Raises:
            PlflError: something is not there, or others can read it.
        """
        _check(folder, [CA], CLIENT_KEY, "--client NAME")
        return cls(folder)


def make(
    folder: Path, clients: Sequence[str], hosts: Sequence[str] = (), *, replace: bool = False
) -> list[Path]:
    """Make what is asked for, with the CA that is in `folder` or else a new one.

    A server's certificate is made with a new CA, and again whenever `hosts` are given.

    Args:
        folder: see the module; it and all in it are for its user alone.
        clients: names of the clients.
        hosts: names and addresses that the server is reached at, beside those of its own machine.
        replace: whether keys that are there may be overwritten.

    Returns:
        The folders to be copied to the hosts.

    Raises:
        PlflError: a name cannot be that of a folder, or keys would be overwritten.
    """
    for name in clients:
        if name in ("", "..") or Path(name).name != name:
            raise PlflError(f"--client {name!r}: a name, not a path, is needed")
    wanted = [folder / "clients" / name for name in clients]
    has_ca = (folder / CA_KEY).exists()
    if hosts or not has_ca:
        wanted.insert(0, folder / "server")
    there = [str(path) for path in wanted if _private_part(path).exists()]
    if there and not replace:
        raise PlflError(
            f"keys are there already: {', '.join(there)}; with --replace they are overwritten, and "
            "hosts that have the old ones are refused"
        )
    private_folder(folder)
    ca_key, ca = _ca(folder) if has_ca else _new_ca(folder)
    for path in wanted:
        private_folder(path.parent)
        private_folder(path)
        _write(path / CA, _pem(ca))
    if hosts or not has_ca:
        _make_server(folder / "server", ca_key, ca, [*ALWAYS, *hosts])
    private_folder(folder / "server" / "clients")
    for name in clients:
        _make_client(folder, name)
    return wanted


def throw_away(folder: Path, clients: Sequence[str]) -> None:
    """Keys for one run on this machine, instead of those of an earlier run."""
    shutil.rmtree(folder, ignore_errors=True)
    make(folder, clients)


def _private_part(folder: Path) -> Path:
    return folder / (SERVER_KEY if folder.name == "server" else CLIENT_KEY)


def _check(folder: Path, public: Iterable[str], key: str, option: str) -> None:
    for path in [folder / name for name in (*public, key)]:
        if not path.exists():
            raise PlflError(
                f"{path} is not there; make it with `plfl deploy keys {option}`, then copy the "
                "whole folder to this host"
            )
    check_private(folder)
    check_private(folder / key)


def _ca(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    _check(folder, [CA], CA_KEY, "--folder NEW")
    key = serialization.load_pem_private_key((folder / CA_KEY).read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise PlflError(f"{folder / CA_KEY}: not of an elliptic curve; make keys in a new folder")
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


def _make_server(
    folder: Path, ca_key: ec.EllipticCurvePrivateKey, ca: x509.Certificate, hosts: Sequence[str]
) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = (
        _certificate("plfl server", "plfl CA", key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_alternative(h) for h in hosts]), False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(issuer, False)
    )
    _write(folder / SERVER_KEY, _pkcs8(key))
    _write(folder / SERVER, _pem(builder.sign(ca_key, hashes.SHA384())))


def _make_client(folder: Path, name: str) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    _write(folder / "clients" / name / CLIENT_KEY, private)
    _write(folder / "server" / "clients" / f"{name}.pub", public + b"\n")


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
        # Clocks of hosts differ.
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
