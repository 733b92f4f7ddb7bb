"""Certificates and key pairs on disk."""

import ipaddress
import shutil
import subprocess

import pytest

pytest.importorskip("cryptography", reason="needs Flower: pip install -e '.[deploy]'")

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from plfl.base.errors import PlflError
from plfl.cli import main as cli
from plfl.deploy.hosts.keys import ClientKeys, ServerKeys, make, make_temporary
from tests.helpers.refusals import naming


@pytest.fixture
def folder(tmp_path):
    make(tmp_path / "keys", ["a", "b"], ["hub.example", "10.1.2.3"])
    return tmp_path / "keys"


def alternatives(folder):
    found = x509.load_pem_x509_certificate(
        ServerKeys.of(folder / "server").certificates[1].read_bytes()
    )
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = names.get_values_for_type(x509.IPAddress)
    return set(names.get_values_for_type(x509.DNSName)), {str(address) for address in addresses}


def test_only_their_user_can_read_them(folder):
    paths = [folder, *folder.rglob("*")]
    assert {oct(p.stat().st_mode & 0o777) for p in paths if p.is_file()} == {"0o600"}
    assert {oct(p.stat().st_mode & 0o777) for p in paths if p.is_dir()} == {"0o700"}


def test_a_server_knows_its_clients(folder):
    known = ServerKeys.of(folder / "server").clients
    assert known.keys() == {"a", "b"}
    for name, text in known.items():
        private = load_ssh_private_key(
            ClientKeys.of(folder / "clients" / name).key.read_bytes(), None
        )
        public = load_ssh_public_key(text.encode())
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


def test_the_server_is_known_by_its_names(folder):
    assert alternatives(folder) == ({"localhost", "hub.example"}, {"127.0.0.1", "10.1.2.3"})


def test_openssl_agrees(folder):
    if not shutil.which("openssl"):
        pytest.skip("no openssl")
    ca, server, _ = ServerKeys.of(folder / "server").certificates
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile"]
    ran = subprocess.run([*command, ca, server], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


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


@pytest.mark.parametrize("name", ["", "..", "a/b", "/a"])
def test_a_name_is_no_path(tmp_path, name):
    with pytest.raises(PlflError, match="not a path"):
        make(tmp_path, [name])


def test_keys_of_one_run_replace_those_of_another(folder):
    before = (folder / "ca.crt").read_bytes()
    make_temporary(folder, ["z"])
    assert (folder / "ca.crt").read_bytes() != before
    assert ServerKeys.of(folder / "server").clients.keys() == {"z"}


def test_the_command(tmp_path, capsys):
    pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    command = ["deploy", "keys", "--folder", str(tmp_path / "k"), "--client", "a", "--host", "hub"]
    assert cli.main(command) == 0
    assert "server: copy this folder" in capsys.readouterr().out
    assert cli.main(command) == 2
    assert "--replace" in capsys.readouterr().err
