"""What is personal stays in the client's folder, unread; a dead process ends a server."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch

from plfl.base.errors import PlflError
from plfl.deploy.folders import OUTCOME
from plfl.deploy.host import Processes, private_folder
from plfl.deploy.server_host import ServerProcesses
from tests.helpers.loopback import NAMES, Deployment, by_split, study
from tests.helpers.refusals import naming

METHODS = ["fedopt", "scaffold", "feddyn"]


@pytest.mark.parametrize("method", METHODS)
def test_no_personal_number_leaves(method, tmp_path):
    """Every number that a client's state holds of its personal part is searched for as bytes."""
    own_study = study(
        grid={"method": [method]},
        federation={"rounds": 2, "opt_state": "keep", "evaluate_every": 1},
    )
    deployed = Deployment(own_study, by_split(own_study)["P2"], tmp_path)
    shared = own_study.plan.layout.mask(own_study.plan.schemes.patterns["P2"])
    numbers_by_part = {name: set() for name in ("shared", "personal")}

    def collect(summary):
        for name in NAMES:
            (folder,) = (tmp_path / name).glob("*/")
            state = safetensors.torch.load_file(folder / f"round-{summary.t}.safetensors")
            rows = [v for v in state.values() if v.shape[-1:] == shared.shape]
            for row in rows:
                numbers_by_part["personal"] |= numbers(row.numpy()[..., ~shared])
            numbers_by_part["shared"] |= numbers(state["local"].numpy()[..., shared])

    deployed.run(collect)
    assert min(map(len, numbers_by_part.values())) > 100
    outside = [*deployed.loopback.crossed_messages]
    outside += [p.read_bytes() for p in (tmp_path / "server").rglob("*") if p.is_file()]
    assert not any(number in data for data in outside for number in numbers_by_part["personal"])
    # The search would find them: what the server sends, a client has started from.
    sent = b"".join(deployed.loopback.crossed_messages)
    start = safetensors.torch.load_file(tmp_path / "server" / "model.safetensors")["x"].numpy()
    assert all(number in sent for number in numbers(start))


def numbers(values: np.ndarray) -> set[bytes]:
    """The bytes of each number but of those that any file holds, such as 0."""
    chosen = values[(values != 0) & (np.abs(values) != 0.25)]
    return {value.tobytes() for value in chosen.ravel()}


def test_no_load_leaves(tmp_path):
    own_study = study(federation={"rounds": 1})
    deployed = Deployment(own_study, by_split(own_study)["P1"], tmp_path)
    deployed.run()
    sent = b"".join(deployed.loopback.crossed_messages)
    for client in deployed.loopback.clients.values():
        loads = client.table["load"].to_numpy()
        # Only the smallest and the largest are sent, by which all scale alike.
        inner = np.sort(loads)[1:-1]
        assert not any(load.tobytes() in sent for load in inner)
        assert not any(repr(float(load)).encode() in sent for load in inner)


def test_files_are_for_their_user_alone(tmp_path):
    own_study = study(federation={"rounds": 2})
    Deployment(own_study, by_split(own_study)["P2"], tmp_path).run()
    for name in NAMES:
        (folder,) = (tmp_path / name).glob("*/")
        kept = {path.name for path in folder.iterdir()}
        arrays = {f"{part}.safetensors" for part in ("limits", "model", "round-1", "round-2")}
        assert kept == {*arrays, "answered.txt"}
        paths = [tmp_path / name, *(tmp_path / name).rglob("*")]
        assert {oct(p.stat().st_mode & 0o777) for p in paths if p.is_file()} == {"0o600"}
        assert {oct(p.stat().st_mode & 0o777) for p in paths if p.is_dir()} == {"0o700"}


def test_a_folder_that_others_can_read_is_refused(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    with naming(PlflError, "700"):
        private_folder(folder)


def test_a_process_that_died_ends_the_server(tmp_path, monkeypatch):
    (tmp_path / "flower").mkdir()
    with Processes(tmp_path / "logs") as group:
        server = ServerProcesses(group, tmp_path, SimpleNamespace(certificate=tmp_path))
        group.start("superlink", ["sleep", "60"])
        group.start("superexec", [sys.executable, "-c", "raise SystemExit('no room')"]).wait()
        with naming(PlflError, "superexec ended with status 1", "no room"):
            group.check_running("superexec")
        monkeypatch.setattr("plfl.deploy.flower.status", lambda run, home: "finished:failed")
        with naming(PlflError, "the ServerApp ended (finished:failed)"):
            server.check_rounds()
        (tmp_path / OUTCOME).touch()
        server.check_rounds()
