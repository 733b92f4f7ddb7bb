"""Codecs in the real round: known trajectories, both ends of memories, and what is counted."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from plfl.base.errors import ConfigError
from plfl.experiments.train import train
from plfl.experiments.workload import workload
from plfl.federated import local_training
from plfl.federated.federation import Federation
from plfl.methods.scaffold import Scaffold
from plfl.optimizers.client.sgd import Sgd
from tests.helpers import tiny
from tests.helpers.interruption import check_resumes
from tests.helpers.problems import AVG, Quadratic, Uploads, trajectory, uploads
from tests.helpers.refusals import naming

DATASET = tiny.dataset()


class Apart(Quadratic):
    """Coordinate a is that of `Q2`; of b, client 1 has ½ (b − 10)², client 2 ½ (b + 10)²."""

    slopes = torch.tensor([[1.0, 1.0], [4.0, 1.0]], dtype=torch.float64)
    minima = torch.tensor([[0.0, 10.0], [1.0, -10.0]], dtype=torch.float64)

    def backward_pass(self, rows: Tensor, kept: Any, forecast: Any, features: Any, out: Tensor):
        clients = kept.tensors[0][:, 0]
        out.copy_(self.slopes[clients] * (rows - self.minima[clients]))


Q2B = Apart([1, 4], [0, 1], [1, 1])


def states_of_two(rounds: int, codecs: Any, method: Any = None, **further: Any) -> list[Any]:
    given = {"problem": Q2B, "shared": (True, True), "start": (2.0, 0.0)} | further
    return trajectory(Sgd(lr=0.1), AVG, method, rounds=rounds, codecs=codecs, **given)


def path(up: str, rounds: int, **further: Any) -> list[float]:
    """The server's coordinate a after each round."""
    found = states_of_two(rounds, {"scales": "one", "up": up}, **further)
    return [one.x[0].item() for one in found]


@pytest.mark.parametrize("up", ["sign", "ef21+sign", "top1e-9", "ef14+top1e-9", "q3", "q8", "q2"])
def test_codecs_of_one_number_are_exact(up):
    codecs = {"up": up, "down": "none"}
    found = trajectory(Sgd(lr=0.1), AVG, rounds=4, codecs=codecs)
    assert [one.x.item() for one in found[:4]] == pytest.approx([2, 1.49, 1.19165, 1.01711525])


@pytest.mark.parametrize(
    ("up", "first", "late"),
    [
        ("none", [1.49, 1.19165, 1.01711525, 0.9150124212], 0.7710843373),
        ("top0.5", [2, 2, 2, 2], 2),
        ("ef21+top0.5", [2, 1.49, 1.19165, 1.01711525], 0.7710843373),
        ("sign", [0.795, 0.7838625, 0.7760940937, 0.7706756304], 0.7581818182),
        ("ef21+sign", [0.795, 0.5350375, 0.5790547187, 0.6678805834], 0.7710843373),
    ],
)
def test_trajectories_of_the_specification(up, first, late):
    found = path(up, 200)
    assert found[1:5] == pytest.approx(first, abs=2e-6)
    assert found[200] == pytest.approx(late, abs=2e-6)


@pytest.mark.parametrize("up", ["ef14+sign", "ef14+top0.5", "ef14+q3"])
def test_what_memories_hold(up):
    """Σ sent + e = Σ D at every client."""
    seen: Uploads = []
    codecs = {"scales": "one", "up": up}
    start, *_ = states_of_two(30, codecs, made=uploads(seen))
    updates, arrived = (torch.stack(rows).sum(0) for rows in zip(*seen, strict=True))
    assert updates.abs().min() > 0.1
    kept = start.f.channel.coder.memory["up.sender"]
    np.testing.assert_allclose(arrived + kept, updates, atol=1e-4)


def test_random_places_are_right_on_average():
    """After three rounds, in each of which a client sends one of two coordinates, twice as large, a
    is one of 64 numbers, or of 8 if both had the same places. Their mean is FedAvg's."""
    found = np.array([path("rand0.5", 3, seed=seed)[3] for seed in range(100)])
    assert 20 < len(np.unique(found.round(6))) <= 64
    assert abs(found.mean() - 1.01711525) < 5 * found.std() / 10


def coded(**further: Any) -> dict[str, Any]:
    """A study with codecs in both directions, in which clients are absent and drop out."""
    federation = {"rounds": 6, "simulation": {"availability": 0.8, "dropout": 0.3}}
    grid = {"client_opt": ["adam"], "server_opt": ["fedavg"]}
    channel = {"up": "ef21+q3", "down": "delta+q3"}
    return {"federation": federation, "grid": grid, "channel": channel} | further


def test_both_ends_of_a_memory_agree_and_only_who_stayed_changes_them(monkeypatch):
    seen = []
    closed = local_training.aggregate

    def aggregate(f: Federation, t: int, clients: Tensor, result: Any) -> None:
        before = {key: rows.clone() for key, rows in f.channel.coder.memory.items()}
        closed(f, t, clients, result)
        memory = f.channel.coder.memory
        for direction in ("up", "down"):
            ends = [memory[f"{direction}.{end}"] for end in ("sender", "receiver")]
            assert torch.equal(*ends)
            if f"{direction}.sender" in before:
                changed = (before[f"{direction}.sender"] != ends[0]).any(1).nonzero()[:, 0]
                assert set(changed.tolist()) <= set(clients.tolist())
        seen.append(clients.tolist())

    monkeypatch.setattr(local_training, "aggregate", aggregate)
    study = tiny.study(**coded())
    train(study, study.cells[:1], DATASET)
    assert any(len(clients) < 3 for clients in seen)


@pytest.mark.parametrize("up", ["q2", "ef14+sign", "ef21+q3", "ef21+topq0.1+rc"])
def test_a_resumed_training_gives_the_same_bits(up, tmp_path: Path):
    entropy = up.endswith("+rc") * "+rc"
    if entropy:
        pytest.importorskip("constriction")
    grid = {"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P2"]}
    study = tiny.study(**coded(channel={"up": up, "down": f"delta+q3{entropy}"}, grid=grid))
    check_resumes(study, DATASET, tmp_path, after=4)


def test_the_bytes_of_coded_messages_are_known_before():
    study = tiny.study(
        data={"features": ["load", "temperature"]},
        grid={"sharing": ["P1", "P2"]},
        channel={"up": "ef21+q3", "down": "bf16"},
    )
    results = train(study, study.cells, DATASET)
    records = pd.concat([result.records for result in results.values()])
    sent = records.query("split == 'train' and model == 'local'")
    sums = sent.groupby("sharing")[["bytes_up", "bytes_down"]].sum().sum(axis=1) / 1e6
    assert sums.tolist() == pytest.approx(workload(study)["megabytes"].tolist())


def test_only_codecs_change_the_settings_of_cells():
    plain, none = tiny.study(), tiny.study(channel={"up": "none"})
    q3 = tiny.study(channel={"up": "q3"})
    for cell in plain.cells:
        assert plain.plan.settings(cell) == none.plan.settings(cell)
        assert (q3.plan.settings(cell) == plain.plan.settings(cell)) == plain.plan.trains_alone(
            cell
        )


@pytest.mark.parametrize(
    ("channel", "problem"),
    [
        ({"up": "delta+q3"}, "its stages are ef14 or ef21"),
        ({"down": "ef21+q3"}, "its stages are delta"),
        ({"up": "ef21+q2"}, "smaller than what it encodes"),
        ({"up": "f16+rc"}, "no whole numbers"),
        ({"up": "q5"}, "2, 3, 4 or 8"),
        ({"up": "zip"}, "no codec"),
        ({"up": "q3+q3"}, "one codec"),
        ({"scales": 0}, "channel.scales"),
    ],
)
def test_impossible_stages_are_refused(channel, problem):
    with naming(ConfigError, problem):
        tiny.study(channel=channel)


@pytest.mark.parametrize("method", ["authors_code", "ifca", "fedac", "fedfomo"])
@pytest.mark.parametrize("way", ["up", "down"])
def test_methods_whose_messages_cannot_be_coded_are_refused(method, way):
    grid = {"method": [method], "client_opt": ["sgd"], "server_opt": ["fedavg"], "refused": "skip"}
    with pytest.raises(ConfigError, match="works without codecs only"):
        tiny.study(grid=grid, channel={way: "q3"})


@pytest.mark.parametrize("method", ["fedamp", "fedsplit", "feddyn"])
def test_methods_whose_updates_cannot_be_coded_are_refused(method):
    grid = {"method": [method], "client_opt": ["sgd"], "server_opt": ["fedavg"], "refused": "skip"}
    with pytest.raises(ConfigError, match="needs updates without a codec"):
        tiny.study(grid=grid, channel={"up": "q3"})
    assert tiny.study(grid=grid, channel={"down": "q3"}).cells


def test_an_update_that_is_not_finite_is_not_sent():
    options = {"sgd": {"lr": 1e30}}
    study = tiny.study(**coded(grid={"client_opt": ["sgd"]}, client_opt=options))
    (result,) = train(study, study.cells[:1], DATASET).values()
    rows = result.records.query("split == 'train' and model == 'local'")
    assert not rows["bytes_up"].any()


def test_scaffold_keeps_its_own_messages_as_they_are():
    """Only x and D are coded: with a codec without error for them, nothing changes."""
    plain, changed = (
        states_of_two(3, codecs, Scaffold())
        for codecs in (None, {"up": "sign", "down": "sign", "scales": 1})
    )
    for one, other in zip(plain, changed, strict=True):
        assert one.x.tolist() == pytest.approx(other.x.tolist(), rel=1e-5)
    assert (changed[1].report.traffic["extras_up"] == 16).all()
