"""Rounds of networks whose updates are masked, against those without masks."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

from plfl.base.errors import ConfigError
from plfl.experiments.train import train
from plfl.experiments.training_setup import TrainingSetup
from plfl.federated.channel import read_sum, sum_fields, with_check
from plfl.federated.privacy.mechanism import clip_updates
from plfl.federated.secure.updates import (
    LARGEST_UPDATE,
    Crowd,
    UpdateGrid,
    UpdateNoise,
    fewest_honest,
    sum_bytes,
)
from plfl.results.records import CellResult
from plfl.study import Study
from tests.helpers import tiny

MASKED = {"channel": {"secure": True}}


def trained(**blocks: Any) -> dict[str, CellResult]:
    """The results of the tiny study with four clients, by sharing scheme."""
    grid = {"client_opt": ["adam"], "server_opt": ["fedavg"]}
    study = tiny.study(data={"clients": 4}, grid=grid, **blocks)
    results = train(study, study.cells, tiny.dataset(4))
    return {cell.sharing: result for cell, result in results.items()}


def mase(result: CellResult) -> "pd.Series[float]":
    return result.records.query("split != 'train'").set_index(["model", "split", "client"])["mase"]


@pytest.mark.parametrize(
    "federation",
    [
        {},
        {"weighting": "samples"},
        {"participation": 0.75},
        {"simulation": {"dropout": 0.1}},
        {"privacy": {"clip": 1.0, "delta": 1e-3}},
    ],
    ids=["plain", "weighted", "drawn", "dropouts", "clipped"],
)
def test_masks_change_errors_by_rounding_only(federation: dict[str, Any]) -> None:
    plain, masked = trained(federation=federation), trained(federation=federation, **MASKED)
    for scheme in ("P1", "P2"):
        expected, found = mase(plain[scheme]), mase(masked[scheme])
        assert (found - expected).abs().max() < 1e-3
        rows = [r[scheme].records.query("split == 'train'") for r in (plain, masked)]
        assert rows[0]["client"].tolist() == rows[1]["client"].tolist()
    pd.testing.assert_frame_equal(plain["P3"].records, masked["P3"].records, check_exact=True)


def test_each_client_pays_for_keys_shares_and_masks() -> None:
    plain, masked = trained(), trained(**MASKED)
    rows = masked["P1"].records.query("split == 'train' and model == 'local'")
    before = plain["P1"].records.query("split == 'train' and model == 'local'")
    others, number_bytes = 3, before["bytes_up"].to_numpy()
    # Two public keys, sealed shares for each neighbour, four bytes for each number and for one that
    # checks them, a share each.
    up = 64 + others * 82 + number_bytes + 4 + others * 33
    down = 12 + others * 64 + others * 82 + 1
    assert (rows["bytes_up"] == up).all()
    assert (rows["bytes_down"] == before["bytes_down"].to_numpy() + down).all()
    assert (rows["extras_up"] == up).all()


def test_the_sum_of_whole_numbers_is_the_mean_of_updates() -> None:
    random = np.random.default_rng(0)
    updates, weights = random.normal(size=(9, 300)), random.integers(1, 900, 9).astype(float)
    grid, crowd = UpdateGrid(), Crowd(9, float(weights.sum()))
    generators = [np.random.default_rng(n) for n in range(9)]
    numbers = grid.round(crowd, [*range(9)], updates, weights, generators)
    mean = grid.mean(crowd, numbers.sum(0), crowd.weight).numpy()
    assert np.abs(mean - weights @ updates / weights.sum()).max() < grid.step(crowd)
    assert grid.step(crowd) < 1e-3
    assert Crowd.unpack(crowd.pack() + b"more") == crowd


def test_rounding_has_no_bias_and_no_sum_is_too_long() -> None:
    crowd, count = Crowd(20_000, 20_000.0), 4000
    update = np.full((1, count), 0.3 * UpdateGrid().step(crowd))
    numbers = UpdateGrid().round(crowd, [0], update, np.ones(1), [np.random.default_rng(1)])
    assert {*numbers.ravel().tolist()} == {0, 1}
    assert abs(numbers.mean() - 0.3) < 4 * np.sqrt(0.21 / count)
    largest = UpdateGrid().round(
        crowd, [0], np.array([[1e9, -1e9, np.nan]]), np.ones(1), [np.random.default_rng(1)]
    )
    assert largest[0, 2] == 0 and -largest[0, 1] == largest[0, 0] <= 2**31 // crowd.clients
    assert largest[0, 0] * UpdateGrid().step(crowd) == LARGEST_UPDATE


@pytest.mark.parametrize("clients", [4, 5, 16, 1024])
@pytest.mark.parametrize("update", [LARGEST_UPDATE, -LARGEST_UPDATE])
def test_a_sum_of_the_largest_updates_does_not_wrap(clients: int, update: float) -> None:
    crowd, grid, fields = Crowd(clients, clients), UpdateGrid(), sum_fields(1)
    numbers = grid.round(
        crowd, [0], np.full((1, 1), update), np.ones(1), [np.random.default_rng(0)]
    )
    lanes = fields.sum_lanes([fields.encode(with_check(numbers)[0])] * clients)
    assert grid.mean(crowd, read_sum(fields, lanes), clients).item() == update


def test_noise_of_the_honest_has_the_deviation_of_the_sum() -> None:
    """And the norm of what is rounded does not exceed the bound."""
    count, width = 40, 2000
    noise = UpdateNoise(
        0.5, 3.0, lambda client, n: np.random.default_rng(client).standard_normal(n)
    )
    silent = UpdateNoise(0.5, 0.0, noise.normals)
    updates = clip_updates(
        torch.from_numpy(np.random.default_rng(7).normal(size=(count, width))),
        torch.full((count,), 0.5),
    )
    assert np.allclose(updates.norm(dim=1), 0.5)
    crowd = Crowd(count, float(count))
    args = crowd, [*range(count)], updates.numpy(), np.ones(count)
    rounded = UpdateGrid(silent).round(*args, [np.random.default_rng(n) for n in range(count)])
    assert np.linalg.norm(rounded, axis=1).max() <= 0.5 / UpdateGrid(silent).step(crowd)
    step = UpdateGrid(noise).step(crowd)
    numbers = UpdateGrid(noise).round(*args, [np.random.default_rng(n) for n in range(count)])
    noise_and_rounding = numbers * step - updates.numpy()
    told = fewest_honest(count)
    assert told == 30
    assert abs(noise_and_rounding[:told].sum(0).std() / 3.0 - 1) < 4 / np.sqrt(2 * width)


def test_too_little_noise_is_refused_before_training() -> None:
    privacy = {"clip": 1.0, "noise": 1e-9, "delta": 1e-3}
    study = tiny.study(
        data={"clients": 4}, grid={"sharing": ["P1"]}, federation={"privacy": privacy}, **MASKED
    )
    setup, cell = TrainingSetup.for_study(study, tiny.dataset(4)), study.cells[0]
    with pytest.raises(ConfigError, match=r"federation.privacy.noise: .* steps of the grid"):
        setup.make_federation(cell, study.plan.candidates(cell)[0])


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        ({"grid": {"method": ["scaffold"]}}, "'scaffold' needs more than the clients' mean update"),
        ({"federation": {"participation": 0.5}}, "a round has 2 clients"),
        (
            {"data": {"states": ["CA", "NY"], "clients": {"CA": 12, "NY": 2}}},
            "a round has 2 clients",
        ),
        (
            {
                "sharing": {"P1": ["*"], "late": {"join": "unseen", "turns": 2}},
                "grid": {"sharing": ["P1", "late"]},
            },
            "a round of the sharing scheme 'late' has 2 clients",
        ),
        (
            {"federation": {"privacy": {"clip": 1.0, "noise": 0.1, "quantile": 0.5}}},
            "federation.privacy.quantile: each client tells",
        ),
        ({"channel": {"secure": True, "up": "q8"}}, "channel.up: 'q8' sends other things"),
        (
            {"federation": {"loss": "mse", "calibration": {"epochs": 1, "variant": "kd"}}},
            "federation.calibration.variant: 'kd' computes quantiles",
        ),
    ],
)
def test_what_needs_single_updates_is_refused_in_one_line(
    blocks: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError) as error:
        tiny.study(**{"data": {"clients": 4}} | MASKED | blocks)
    assert any(reason in str(problem) for problem in error.value.problems)
    assert isinstance(tiny.study(**{"data": {"clients": 4}} | MASKED), Study)


def test_the_model_of_the_cost_is_what_crosses() -> None:
    masked = trained(**MASKED)["P1"].records.query("split == 'train' and model == 'local'")
    plain = trained()["P1"].records.query("split == 'train' and model == 'local'")
    numbers = int(plain["bytes_up"].iloc[0]) // 4
    up, down = sum_bytes(4, numbers)
    assert {*masked["bytes_up"]} == {up}
    assert {*masked["bytes_down"]} == {4 * numbers + down}
    assert sum(sum_bytes(10_000, 2500)) + 10_000 <= 2 * 20_000  # twice those of 10 kB, both ways


@pytest.mark.parametrize("steps", [0.5, 1.0])
def test_a_sum_of_rounded_gaussians_is_a_rounded_gaussian_with_more_noise(steps: float) -> None:
    """Up to the bound that the module states: here the Gaussian of the sum has the noise of m − 1
    uniform numbers added, as its characteristic function tells, before it is rounded."""
    count, reach = 4, np.arange(-40, 41)
    edges = norm.cdf((np.append(reach, 41) - 0.5) / steps)
    rounded = np.diff(edges)
    total = rounded
    for _ in range(count - 1):
        total = np.convolve(total, rounded, mode="same")
    frequency = np.linspace(-40 * np.pi, 40 * np.pi, 80_001)
    spectrum = (
        np.exp(-count * (steps * frequency) ** 2 / 2) * np.sinc(frequency / 2 / np.pi) ** count
    )
    waves = np.cos(np.outer(reach, frequency))
    expected = np.trapezoid(waves * spectrum, frequency, axis=1) / 2 / np.pi
    bound = 5 * count * np.exp(-((np.pi * steps) ** 2) / 2)
    assert np.abs(total - expected).max() < bound
    assert total.sum() == pytest.approx(1) and expected.sum() == pytest.approx(1)
    if steps == 1:
        assert bound < 0.2 and np.abs(total - expected).max() < 1e-3


@pytest.mark.parametrize("count", [3, 100, 10_000])
@pytest.mark.parametrize("noise", [0.3, 5.0])
def test_the_grid_is_fine_enough_for_its_noise(count: int, noise: float) -> None:
    def normals(_: int, size: int) -> Any:
        return np.zeros(size)

    def rounded(noise: float) -> Any:
        grid, one = UpdateGrid(UpdateNoise(1.0, noise, normals)), np.ones(1)
        return grid.round(
            Crowd(count, count), [0], np.zeros((1, 2)), one, [np.random.default_rng(0)]
        )

    assert (rounded(noise) == 0).all()
    with pytest.raises(ConfigError, match="ε holds from 10 on"):
        rounded(1e-9)
