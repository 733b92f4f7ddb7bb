"""The audit of the paper's program: the facts of its code, and the way back to the algorithm."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from plfl.config.algorithms import ServerOpts
from plfl.experiments.train import train
from plfl.federated.instructions import TrainInstructions, TrainResult
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.prox import Prox
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedadagrad import FedAdagrad
from plfl.optimizers.server.fedadam import FedAdam
from plfl.optimizers.server.fedavg import FedAvg
from plfl.optimizers.server.fedavgadaptive import FedAvgAdaptive
from plfl.optimizers.server.fedyogi import FedYogi
from plfl.study import Study
from plfl_reproductions.methods.authors_code import AuthorsCode
from tests.helpers import tiny
from tests.helpers.problems import Quadratic, trajectory

DATASET = tiny.dataset()
CORRECTED = {
    "iterate": "loaded",
    "anchor": "shared",
    "moments": "reset",
    "v0": 0,
    "server": "once",
    "initial": "common",
}


CLIENTS = ["adam", "adamams", "prox", "proxadam"]
SERVERS = ["fedavg", "fedadam", "fedyogi", "fedavgadaptive", "fedavgm", "slowmo"]

Scores = dict[tuple[str, str, str], Any]
"""The records of cells, by local optimiser, server optimiser and sharing scheme."""


def grid_of(method: str, clients: list[str], servers: list[str], **quirks: Any) -> Scores:
    """The cells of a grid, which train side by side."""
    study = tiny.study(
        method={"authors_code": quirks},
        grid={"method": [method], "client_opt": clients, "server_opt": servers},
        federation={"rounds": 4},
    )
    trained = train(study, study.cells, DATASET)
    return {(c.client_opt, c.server_opt, c.sharing): r.records for c, r in trained.items()}


def scores(client: str, server_opt: str = "fedavg", **quirks: Any) -> dict[str, Any]:
    """The records of the program's cells of one pair of optimisers, by sharing scheme."""
    found = grid_of("authors_code", [client], [server_opt], **quirks)
    return {sharing: records for (_, _, sharing), records in found.items()}


def local(table: Any) -> Any:
    return table[table["model"] == "local"][["loss", "mase"]].to_numpy()


def test_prox_is_the_same_in_every_split_bit_for_bit() -> None:
    found = scores("prox")
    for other in ("P2", "P3"):
        np.testing.assert_array_equal(local(found["P1"]), local(found[other]))


def test_proxadam_is_the_same_in_p1_and_p2_and_differs_in_p3_by_its_counter() -> None:
    found = scores("proxadam")
    np.testing.assert_array_equal(local(found["P1"]), local(found["P2"]))
    assert not np.array_equal(local(found["P1"]), local(found["P3"]))


def test_the_study_of_its_differences_removes_one_after_another() -> None:
    steps = list(Study.load("config/authors-steps.yaml").variants.values())
    own = [step.hyperparameters.method.authors_code.model_dump() for step in steps]
    servers = [step.hyperparameters.server_opt for step in steps]
    assert own[0] == AuthorsCode().model_dump()
    assert {name: own[-1][name] for name in CORRECTED} == CORRECTED
    assert servers[-1] == ServerOpts()
    for i, (a, b) in enumerate(itertools.pairwise(own)):
        changed = {name for name in a if a[name] != b[name]}
        assert len(changed) == (i < len(CORRECTED))
        assert (servers[i] != servers[i + 1]) == (i >= len(CORRECTED))


@pytest.mark.parametrize(("clients", "servers"), [(CLIENTS, ["fedadam"]), (["adam"], SERVERS)])
def test_with_every_quirk_corrected_it_is_the_papers_algorithm(clients, servers):
    corrected = grid_of("authors_code", clients, servers, **CORRECTED)
    for cell, real in grid_of("fedopt", clients, servers).items():
        np.testing.assert_allclose(local(corrected[cell]), local(real), rtol=1e-4)
        if cell[-1] != "P3":  # where it keeps the server's first model as global
            found = corrected[cell]["mase"].to_numpy()
            np.testing.assert_allclose(found, real["mase"].to_numpy(), rtol=1e-4)


@pytest.mark.parametrize(("initial", "expected"), [("apart", [2, 3]), ("common", [2, 2])])
def test_the_copies_of_the_server_may_start_apart(initial: Any, expected: list[int]) -> None:
    """Another seed is another start. The copies come together in every second round (q)."""
    server = FedAvgAdaptive(lr=1e-3, q=2)
    start, *rounds = trajectory(Sgd(), server, AuthorsCode(initial=initial), rounds=2)
    assert start.x.flatten().tolist() == expected
    apart = [(s.x[1] - s.x[0]).item() for s in rounds]
    assert apart == pytest.approx([expected[1] - expected[0], 0], abs=0.02)


def test_every_message_carries_all_parameters_in_double_precision() -> None:
    width = 8 * (4 * 3 * (2 + 3) + 2 * 12 + 36 * 4 + 4 + 4 + 4 + 1)
    for table in scores("adam").values():
        trained = table[table["split"] == "train"]
        assert set(trained["bytes_down"]) == set(trained["bytes_up"]) == {width}


RATES = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 1e-8}


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (FedAdagrad(**RATES), (0.0004472136, -0.000019996)),
        (FedAdam(**RATES), (0.0005024555, -0.0000201008)),
        (FedYogi(**RATES), (0.0005025824, -0.0000201008)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_adaptive_servers_apply_their_rate_twice(server, expected):
    """The first round of the two-coordinate stream, x = 0 and D̄ = (0.5, −0.02)."""
    nothing, both = Quadratic([0], [0], [0, 0]), (True, True)
    method, given = AuthorsCode(), {"problem": nothing, "start": (0.0, 0.0), "rounds": 1}
    start, _ = trajectory(Sgd(), server, method, shared=both, **given)  # type: ignore[arg-type]
    assert start.state["v"].tolist() == [1, 1]
    f = start.f
    assert f.server.state["x"].tolist() == [0, 0]
    f.server.state["m"].zero_()
    f.server.state["v"].fill_(1)
    D = torch.tensor([[0.5, -0.02]], dtype=torch.float64)
    f.state.before = torch.zeros_like(D)
    f.local = D
    result = TrainResult(TrainInstructions(D), torch.tensor([1]), D, None)
    method.aggregate(f, f.state, 1, torch.tensor([0]), result)
    assert f.server.state["x"].tolist() == pytest.approx(expected, rel=1e-5)


def test_two_rounds_by_hand() -> None:
    """One client, f = ½ y². Adam: only the first gradient is taken at the server's parameters, from
    which the update is measured, too. Prox: these are the anchor, and nothing else."""
    one = Quadratic([1], [0], [1])
    given: dict[str, Any] = {"problem": one, "start": (2.0,), "rounds": 2}
    adam = Adam(lr=0.1, beta1=0.5, beta2=0.9)
    _, first, second = trajectory(adam, FedAvg(lr=0.5), AuthorsCode(), **given)

    def step(z: float, g: float, m: float, v: float, k: int) -> tuple[float, float, float]:
        m, v = 0.5 * m + 0.5 * g, 0.9 * v + 0.1 * g * g
        return z - 0.1 * (m / (1 - 0.5**k)) / ((v / (1 - 0.9**k)) ** 0.5 + 1e-8), m, v

    z, m, v = step(2.0, 2.0, 0.0, 1.0, 1)
    z, m, v = step(z, z, m, v, 2)
    assert first.local.item() == pytest.approx(z, abs=1e-12)
    x = 2 + 0.5 * (z - 2)
    assert first.x.item() == pytest.approx(x, abs=1e-12)
    z, m, v = step(z, x, m, v, 1)
    z, m, v = step(z, z, m, v, 2)
    assert second.local.item() == pytest.approx(z, abs=1e-12)
    assert second.x.item() == pytest.approx(x + 0.5 * (z - x), abs=1e-12)

    _, first, second = trajectory(Prox(lr=0.1, mu=1), FedAvg(lr=0.5), AuthorsCode(), **given)
    z = 2 - 0.1 * 2
    z -= 0.1 * (z + z - 2)
    x = 2 + 0.5 * (z - 2)
    assert (first.local.item(), first.x.item()) == pytest.approx((z, x), abs=1e-12)
    before = z
    for _ in range(2):
        z -= 0.1 * (z + z - x)
    assert second.local.item() == pytest.approx(z, abs=1e-12)
    assert second.x.item() == pytest.approx(x + 0.5 * (z - before), abs=1e-12)
