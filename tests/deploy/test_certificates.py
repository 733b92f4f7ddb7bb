"""Certificates and key pairs on disk."""

import ssl

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("cryptography", reason="needs Flower: pip install -e '.[deploy]'")

from cryptography.hazmat.primitives.serialization import (
    load_ssh_private_key,
    load_ssh_public_key,
)

from plfl.base.errors import PlflError
from plfl.cli import main as cli
from plfl.deploy.certificates import ClientKeys, SealError, ServerKeys, make
from tests.helpers.refusals import naming


@pytest.fixture
def folder(tmp_path):
    make(tmp_path / "keys", ["a", "b"], ["hub.example", "10.1.2.3"])
    return tmp_path / "keys"


def test_only_their_user_can_read_them(folder):
    paths = [folder, *folder.rglob("*")]
    assert {oct(p.stat().st_mode & 0o777) for p in paths if p.is_file()} == {"0o600"}
    assert {oct(p.stat().st_mode & 0o777) for p in paths if p.is_dir()} == {"0o700"}


def test_a_server_knows_its_clients(folder):
    known = ServerKeys(folder / "server").clients
    assert known.keys() == {"a", "b"}
    for name, path in known.items():
        private = load_ssh_private_key(ClientKeys(folder / "clients" / name).key.read_bytes(), None)
        assert private.public_key() == load_ssh_public_key(path.read_bytes())
        assert private.curve.name == "secp384r1"


def test_what_leaves_for_a_client_is_its_own_alone(folder):
    assert {p.name for p in (folder / "clients/a").iterdir()} == {"server.crt", "client.key"}
    assert not [p for p in (folder / "server").rglob("*") if p.name == "client.key"]


def test_keys_that_exist_stay_and_more_can_be_added(folder):
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    for clients, hosts in ((["a"], []), (["c", "a"], []), ([], ["x"])):
        with naming(PlflError, "exist already", "remove the folder"):
            make(folder, clients, hosts)
    assert before == {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert make(folder, ["c"]) == [folder / "clients/c"]
    assert all(p.read_bytes() == content for p, content in before.items())
    assert ServerKeys(folder / "server").clients.keys() == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("path", "load"),
    [
        ("server", lambda f: ServerKeys(f / "server")),
        ("server/server.key", lambda f: ServerKeys(f / "server")),
        ("clients/a", lambda f: ClientKeys(f / "clients/a")),
        ("clients/a/client.key", lambda f: ClientKeys(f / "clients/a")),
    ],
)
def test_what_others_can_read_is_refused(folder, path, load):
    (folder / path).chmod(0o750 if (folder / path).is_dir() else 0o640)
    with naming(PlflError, path, "chmod"):
        load(folder)


@pytest.mark.parametrize(
    ("path", "load"),
    [
        ("server/server.key", lambda f: ServerKeys(f / "server").seals()),
        ("server/clients/a.pub", lambda f: ServerKeys(f / "server").seals()),
        ("server/clients/a.pub", lambda f: ServerKeys(f / "server").public_keys),
        ("clients/a/client.key", lambda f: ClientKeys(f / "clients/a").seal()),
        ("clients/a/server.crt", lambda f: ClientKeys(f / "clients/a").seal()),
    ],
)
def test_a_damaged_file_is_named(folder, path, load):
    (folder / path).write_text("half a key")
    with naming(PlflError, path, "copy the folder again"):
        load(folder)


@pytest.mark.parametrize(
    ("clients", "hosts", "problem"),
    [
        *(([name], [], "not a path") for name in ("", ".", "..", "a/b", "/a", "a\\b")),
        *(([name], [], "cannot be printed") for name in ("a\nb", "a\0", "\x1b[2J", "a\ud800")),
        *(([name], [], "in a shell") for name in ("*", "a?", "[a]")),
        *(([name], [], "begins or ends with") for name in ("-a", ".a", " a", "a ", "a.")),
        *(([name], [], "bytes, and may have 200") for name in ("a" * 300, "ä" * 101)),
        (["a", "b\n"], [], "cannot be printed"),
        *(
            ([], [host], "without a port")
            for host in ("10.1.2.3:8000", "höst", "a b", "", "a" * 300)
        ),
    ],
)
def test_impossible_names_are_refused_and_nothing_is_written(tmp_path, clients, hosts, problem):
    with pytest.raises(PlflError, match=problem) as caught:
        make(tmp_path, clients, hosts)
    assert len(str(caught.value)) < 200
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a" * 200, "Zähler 1 (Süd)", "a.pub", "9360001"])
def test_other_names_find_their_keys(tmp_path, name):
    make(tmp_path, [name, name])
    assert [*ServerKeys(tmp_path / "server").clients] == [name]
    server, client = ServerKeys(tmp_path / "server").seals()[name], tmp_path / "clients" / name
    assert server.decrypt(ClientKeys(client).seal().encrypt(b"answer")) == b"answer"


def test_a_client_accepts_this_server_at_its_addresses_alone(folder, tmp_path):
    """As Python 3.13 does, which is stricter than earlier ones."""
    make(tmp_path / "others", ["a"])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own = ServerKeys(folder / "server")
    server.load_cert_chain(own.certificate, own.key)

    def connect(keys, host):
        trusted = ssl.create_default_context(cafile=ClientKeys(keys / "clients/a").certificate)
        trusted.verify_flags |= ssl.VERIFY_X509_STRICT
        sent, received = [ssl.MemoryBIO(), ssl.MemoryBIO()], []
        ends = [
            trusted.wrap_bio(sent[1], sent[0], server_hostname=host),
            server.wrap_bio(sent[0], sent[1], server_side=True),
        ]
        for end in ends * 3:
            try:
                end.do_handshake()
                received.append(end)
            except ssl.SSLWantReadError:
                pass
        return set(received) == set(ends)

    assert all(connect(folder, host) for host in ("hub.example", "10.1.2.3", "127.0.0.1"))
    for keys, host in ((folder, "10.9.9.9"), (tmp_path / "others", "127.0.0.1")):
        with pytest.raises(ssl.SSLCertVerificationError):
            connect(keys, host)


@pytest.fixture
def seals(folder):
    """Both ends between the server and client a, and the end of client b."""
    clients = {name: ClientKeys(folder / "clients" / name).seal() for name in "ab"}
    return ServerKeys(folder / "server").seals()["a"], clients["a"], clients["b"]


@given(data=st.binary(max_size=100), place=st.integers(min_value=0))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_the_other_end_opens_what_is_sealed(seals, data, place):
    server, client, other = seals
    sealed = server.encrypt(data)
    assert client.decrypt(sealed) == data
    assert server.decrypt(client.encrypt(data)) == data
    assert sealed != server.encrypt(data)
    changed = bytearray(sealed)
    changed[place % len(sealed)] ^= 1
    for opener, forged in (
        (server, sealed),  # its own message is no answer
        (other, sealed),
        (server, other.encrypt(data)),
        (client, bytes(changed)),
        (client, sealed[:-1]),
        (client, data),
    ):
        with pytest.raises(SealError):
            opener.decrypt(forged)


def test_the_command(tmp_path, capsys):
    pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    command = ["deploy", "keys", "--folder", str(tmp_path / "k"), "--client", "a", "--host", "hub"]
    assert cli.main(command) == 0
    printed = capsys.readouterr().out
    assert "server: copy this folder" in printed
    assert cli.main(command) == 2
    assert "remove the folder" in capsys.readouterr().err
