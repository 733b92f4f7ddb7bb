"""Privacy among real clients: whose noise and draws nobody can repeat."""

from contextlib import suppress

import pytest
import torch
from safetensors.torch import load_file

from plfl.base.errors import PlflError
from plfl.deploy.protocol.rounds import RELEASES_FILE
from plfl.deploy.protocol.server import SERVER_MODEL_FILE
from plfl.federated.privacy.statement import least_bound
from tests.helpers.loopback import NAMES, Deployment, by_split, study


def deployment(folder, **federation):
    privacy = {"clip": 0.05, "noise": 0.2, "delta": 1e-2}
    settings = {"rounds": 4, "local_steps": 3, "evaluate_every": 2, "privacy": privacy}
    own_study = study(federation=settings | federation)
    return Deployment(own_study, by_split(own_study)["P2"], folder)


def test_noise_and_draws_are_not_those_of_the_seed(tmp_path):
    models, took_part = [], []
    for n in range(2):
        deployed = deployment(tmp_path / str(n), participation=0.5, selection="allocation")
        deployed.run()
        models.append(load_file(deployed.folder / "server" / SERVER_MODEL_FILE)["x"])
        took_part.append([summary.asked for summary in deployed.server.history])
        counts = [sum(name in some for some in took_part[n]) for name in NAMES]
        assert counts == [2] * len(NAMES), "each client in half of the rounds"
    assert not (models[0] == models[1]).any()
    assert took_part[0] != took_part[1]  # equal once in 6^4


@pytest.mark.parametrize(
    ("drawn", "clients"), [({}, 4), ({"participation": 0.01, "selection": "poisson"}, 0.04)]
)
def test_a_round_without_answers_has_noise(drawn, clients, tmp_path):
    deployed = deployment(tmp_path, **drawn)
    deployed.loopback.is_lost = lambda name, message: message.about["kind"] == "train"
    with suppress(PlflError):  # none ever took part, if any was drawn
        deployed.run()
    moved = load_file(deployed.folder / "server" / SERVER_MODEL_FILE)["x"]
    # Four rounds of 0.2 C each, divided by the expected clients, around the initial parameters.
    start = deployed.server.initial_federation().x0
    assert (moved - start).std().item() == pytest.approx(4**0.5 * 0.2 * 0.05 / clients, rel=0.25)
    assert torch.isfinite(moved).all()


def test_a_bound_that_adapts_with_more_noise_than_one_client_alone_could_have(tmp_path):
    privacy = {"clip": 0.05, "noise": 0.2, "delta": 1e-2, "quantile": 0.5}
    deployed = deployment(tmp_path, privacy=privacy)
    records = deployed.run()
    assert [summary.took_part for summary in deployed.server.history] == [NAMES] * 4
    assert records["loss"].notna().any()
    bounds = {
        float(deployed.loopback.clients[name]._f.privacy.received_bounds[0]) for name in NAMES
    }
    assert len(bounds) == 1
    assert bounds != {0.05}, "the bound of the last round has adapted"


def test_a_repeated_round_counts_twice(tmp_path):
    deployed = deployment(tmp_path)

    def crash(summary):
        if summary.t == 2:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        deployed.run(crash)
    deployed.server = deployed.new_server()
    deployed.run()
    lines = (deployed.folder / "server" / RELEASES_FILE).read_text().splitlines()
    assert lines == [f"{deployed.server.run_id} {t}" for t in (1, 2, 2, 3, 4)]
    (note,) = deployed.server.notes
    planned, actual = (least_bound(deployed.study, 1e-2, times).epsilon for times in ((), (2,)))
    assert f"ε = {actual:.3g} instead of {planned:.3g}" in note


def test_an_abandoned_run_is_named_and_not_counted_as_repeated(tmp_path):
    """A server that ends in round 1 leaves no checkpoint: the next one begins another run."""
    deployed = deployment(tmp_path)

    def crash(summary):
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        deployed.run(crash)
    deployed.server = deployed.new_server()
    deployed.run()
    (note,) = deployed.server.notes
    assert note.startswith("1 round of earlier runs that were not continued")
