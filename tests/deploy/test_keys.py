"""Certificates and key pairs on disk."""

import ipaddress
import shutil
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("cryptography", reason="needs Flower: pip install -e '.[deploy]'")

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from plfl.base.errors import PlflError
from plfl.cli import main as cli
from plfl.deploy import keys
from plfl.deploy.keys import ClientKeys, Seal, SealError, ServerKeys, expiry, make
from tests.helpers.refusals import naming


@pytest.fixture
def folder(tmp_path):
    make(tmp_path / "keys", ["a", "b"], ["hub.example", "10.1.2.3"])
    return tmp_path / "keys"


def alternatives(folder):
    certificate = x509.load_pem_x509_certificate(
        ServerKeys.of(folder / "server").certificates[1].read_bytes()
    )
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = names.get_values_for_type(x509.IPAddress)
    return set(names.get_values_for_type(x509.DNSName)), {str(address) for address in addresses}


def test_only_their_user_can_read_them(folder):
    paths = [folder, *folder.rglob("*")]
    assert {oct(p.stat().st_mode & 0o777) for p in paths if p.is_file()} == {"0o600"}
    assert {oct(p.stat().st_mode & 0o777) for p in paths if p.is_dir()} == {"0o700"}


def test_a_server_knows_its_clients(folder):
    known = ServerKeys.of(folder / "server").clients
    assert known.keys() == {"a", "b"}
    for name, public in known.items():
        private = load_ssh_private_key(
            ClientKeys.of(folder / "clients" / name).key.read_bytes(), None
        )
        assert private.public_key() == public
        assert public.curve.name == "secp384r1"
    assert known["a"] != known["b"]


def test_what_leaves_for_a_client_is_its_own_alone(folder):
    assert {p.name for p in (folder / "clients/a").iterdir()} == {
        "ca.crt",
        "client.key",
        "client.pem",
    }
    assert not [p for p in (folder / "server").rglob("*") if p.name in ("ca.key", "client.key")]


def test_nothing_is_overwritten_unasked(folder):
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    for clients, hosts in ((["a"], []), (["c", "a"], []), ([], ["x"])):
        with naming(PlflError, "--replace"):
            make(folder, clients, hosts)
    assert before == {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_client_more_leaves_the_others_as_they_are(folder):
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert make(folder, ["c"]) == [folder / "clients/c"]
    assert all(p.read_bytes() == content for p, content in before.items())
    assert ServerKeys.of(folder / "server").clients.keys() == {"a", "b", "c"}


def test_a_new_address_keeps_the_authority(folder):
    before = (folder / "ca.crt").read_bytes()
    make(folder, [], ["10.9.9.9"], replace=True)
    assert (folder / "ca.crt").read_bytes() == before
    assert str(ipaddress.ip_address("10.9.9.9")) in alternatives(folder)[1]


@pytest.mark.parametrize(
    ("path", "load"),
    [
        ("server", lambda f: ServerKeys.of(f / "server")),
        ("server/server.key", lambda f: ServerKeys.of(f / "server")),
        ("clients/a", lambda f: ClientKeys.of(f / "clients/a")),
        ("clients/a/client.key", lambda f: ClientKeys.of(f / "clients/a")),
        ("ca.key", lambda f: make(f, ["c"])),
    ],
)
def test_what_others_can_read_is_refused(folder, path, load):
    (folder / path).chmod(0o750 if (folder / path).is_dir() else 0o640)
    with naming(PlflError, path, "chmod"):
        load(folder)


@pytest.mark.parametrize(
    ("clients", "hosts", "problem"),
    [
        *(([name], [], "not a path") for name in ("", "..", "a/b", "/a")),
        *(([], [host], "without a port") for host in ("10.1.2.3:8000", "höst", "a b", "")),
    ],
)
def test_a_name_is_no_path_and_a_host_has_no_port(tmp_path, clients, hosts, problem):
    with pytest.raises(PlflError, match=problem):
        make(tmp_path, clients, hosts)
    assert not list(tmp_path.iterdir())


def test_a_public_key_that_is_none_leaves_the_others_connected(folder, caplog):
    (folder / "server/clients/c.pub").write_bytes("ecdsa-sha2-nistp384 schlüssel".encode())
    assert ServerKeys.of(folder / "server").clients.keys() == {"a", "b"}
    assert "c.pub: not a public key" in caplog.text


def test_what_has_expired_is_refused_and_makes_no_keys(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(keys, "LIFE", timedelta(days=30))
    folder = tmp_path / "keys"
    make(folder, ["a"])
    ServerKeys.of(folder / "server")
    assert "server.crt: expires on" in caplog.text, "it is reported before"
    # A certificate of a young authority does not outlive it.
    monkeypatch.setattr(keys, "LIFE", timedelta(days=730))
    make(folder, [], ["hub"], replace=True)
    assert expiry(folder / "server/server.crt") <= expiry(folder / "server/ca.crt")
    monkeypatch.setattr(keys, "LIFE", timedelta(seconds=-5))
    shutil.rmtree(folder)
    make(folder, ["a"])
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    for load in (
        lambda: ServerKeys.of(folder / "server"),
        lambda: ClientKeys.of(folder / "clients/a"),
        lambda: make(folder, ["a"], replace=True),
    ):
        with naming(PlflError, "ca.crt: expired on", "--folder NEW"):
            load()
    assert before == {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def seals(folder):
    """Both ends between the server and client a, and the end of client b."""
    server = ServerKeys.of(folder / "server")
    ends = server.seals("ab")
    certificate = x509.load_pem_x509_certificate(server.certificates[1].read_bytes())

    def client(name):
        private = load_ssh_private_key(
            (folder / "clients" / name / "client.key").read_bytes(), None
        )
        return Seal(private, certificate.public_key(), b"client", b"server")

    return ends["a"], client("a"), client("b")


@given(data=st.binary(max_size=100), place=st.integers(min_value=0))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_the_other_end_opens_what_is_sealed(seals, data, place):
    server, client, other = seals
    sealed = server.close(data)
    assert client.open(sealed) == data
    assert server.open(client.close(data)) == data
    assert sealed != server.close(data)
    changed = bytearray(sealed)
    changed[place % len(sealed)] ^= 1
    for opener, forged in (
        (server, sealed),  # its own message is no answer
        (other, sealed),
        (server, other.close(data)),
        (client, bytes(changed)),
        (client, sealed[:-1]),
        (client, data),
    ):
        with pytest.raises(SealError):
            opener.open(forged)


def test_the_command(tmp_path, capsys):
    pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    command = ["deploy", "keys", "--folder", str(tmp_path / "k"), "--client", "a", "--host", "hub"]
    assert cli.main(command) == 0
    printed = capsys.readouterr().out
    assert "server: copy this folder" in printed
    assert "valid until 20" in printed
    assert cli.main(command) == 2
    assert "--replace" in capsys.readouterr().err
