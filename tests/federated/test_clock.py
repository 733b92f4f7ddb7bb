"""Simulated participation and time: by hand, at random, and in the records."""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl import methods
from plfl.base.errors import ConfigError
from plfl.experiments.train import train
from plfl.optimizers.client.adam import Adam
from plfl.results.collect import summarise
from plfl.results.records import CELL
from plfl.study import Study
from plfl_reproductions.methods.fafed import FaFed
from plfl_reproductions.methods.ifca import Ifca
from tests.helpers import tiny
from tests.helpers.problems import AVG, Q2, SGD, Quadratic, clock, simulated, trajectory
from tests.helpers.refusals import naming

FOUR = Quadratic([1, 4, 0.5, 2], [0, 1, -3, 7], [1, 1])
PERSONAL: dict[str, Any] = {"problem": FOUR, "shared": (True, False), "start": (0.0, 0.0)}
NAMES = [f"client {i}" for i in range(4)]


def test_a_round_by_hand() -> None:
    """8 bytes each way over 64 and 32, or 16 bit/s, and two steps."""
    speeds: Any = {"step_seconds": [0.5, 3], "down_mbit": [64e-6, 32e-6], "up_mbit": 16e-6}
    *_, last = trajectory(SGD, AVG, problem=Q2, made=simulated(**speeds))
    times = last.report.times
    assert times.download.tolist() == pytest.approx([1, 2])
    assert times.compute.tolist() == pytest.approx([1, 6])
    assert times.upload.tolist() == pytest.approx([4, 4])
    assert times.busy.tolist() == pytest.approx([6, 12])
    assert times.waiting.tolist() == pytest.approx([6, 0])
    assert times.round == pytest.approx(12)


def test_speeds_of_single_clients_go_by_name_or_by_order() -> None:
    by_name = {"d": 4, "b": 2, "c": 3, "a": 1, "of another state": 9}
    named = clock(["b", "a"], step_seconds=by_name)
    listed = clock(["b", "a"], step_seconds=[2, 1])
    assert named.step_seconds.tolist() == listed.step_seconds.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("speeds", "words"),
    [
        ({"a": 1}, ("step_seconds", "no speed of b")),
        ([1], ("step_seconds", "1 speeds", "2 clients")),
    ],
)
def test_clients_without_a_speed_are_named(speeds, words):
    with naming(ConfigError, *words):
        clock(["b", "a"], step_seconds=speeds)


def simulating(**simulation: Any) -> Study:
    return tiny.study(federation={"simulation": simulation})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ("speeds.csv cannot be read", "correct the path")),
        ("client,down\na,1\n", ("has no column 'seconds'", "client, down")),
        ("name,seconds\na,1\n", ("has no column 'client'",)),
        ("client,seconds\na,1\na,2\n", ("row 3", "'a' has two rows")),
        ("client,seconds\na,fast\n", ("row 2", "'fast' is no number")),
        ("client,seconds\na,-1\n", ("step_seconds.a", "-1", "greater than 0")),
    ],
)
def test_a_file_that_gives_no_speeds_is_refused(text, words, tmp_path):
    if text is not None:
        (tmp_path / "speeds.csv").write_text(text)
    with naming(ConfigError, "federation.simulation.step_seconds", *words):
        simulating(step_seconds=f"{tmp_path}/speeds.csv:seconds")


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ({"simulation": {"step_seconds": [1, 2]}}, ("step_seconds", "2 speeds", "3 clients of XX")),
        ({"simulation": {"step_seconds": "fast"}}, ("step_seconds", "'fast'", "speeds.csv")),
        (
            {"simulation": {"step_seconds": {"a": 1}, "step_spread": 1}},
            ("step_spread", "one for each"),
        ),
        ({"simulation": {"up_mbit": [1, 2, 3], "link_spread": 1}}, ("link_spread", "up_mbit")),
    ],
)
def test_speeds_that_do_not_fit_the_study_are_refused(blocks, words):
    with naming(ConfigError, "federation.simulation", *words):
        tiny.study(federation=blocks)


def test_a_list_cannot_go_by_the_order_of_clients_that_are_divided() -> None:
    with naming(ConfigError, "step_seconds", "order", "data.federations"):
        tiny.study(data={"federations": 2}, federation={"simulation": {"step_seconds": [1, 2, 3]}})


def test_the_numbers_of_a_file_are_part_of_the_study(tmp_path) -> None:
    file = tmp_path / "speeds.csv"
    file.write_text("client,seconds\na,1\nb,2\nc,3\n")
    before = simulating(step_seconds=f"{file}:seconds")
    file.write_text("client,seconds\na,1\nb,2\nc,4\n")
    after = simulating(step_seconds=f"{file}:seconds")
    cell = before.cells[0]
    assert before.plan.settings(cell) != after.plan.settings(cell)
    file.unlink()
    stored = Study.parse(before.description(), "results")
    assert stored.federation.simulation.step_seconds == {"a": 1, "b": 2, "c": 3}


def test_groups_that_take_turns_add_up() -> None:
    traffic = {kind: np.zeros(4, dtype=np.int64) for kind in ("bytes_down", "bytes_up")}
    c = clock(NAMES, step_seconds=[1, 2, 3, 4])
    c.charge_work(np.arange(3), np.array([2.0, 2.0, 2.0]))
    times = c.close_round(traffic, [np.array([0, 1]), np.array([2])])
    assert times.busy.tolist() == [2, 4, 6, 0]
    assert times.round == 10
    assert times.waiting.tolist() == [8, 6, 4, 0]
    # The next round is a new start.
    assert c.close_round(traffic, [np.array([], dtype=np.int64)]).round == 0


def test_all_wait_for_what_comes_before_round_1() -> None:
    """Client 0 is the slowest of all before round 1 (10 s), client 1 in it (22 s): 32 s pass."""
    c = clock(NAMES[:2], step_seconds=[1, 2], down_mbit=8e-6)
    c.charge_work(np.arange(2), np.array([9.0, 2.0]))
    before = {"bytes_down": np.array([1, 1]), "bytes_up": np.array([0, 0])}
    c.wait_for_all(before)
    c.charge_work(np.array([1]), np.array([10.0]))
    traffic = {"bytes_down": np.array([1, 3]), "bytes_up": np.array([0, 0])}
    times = c.close_round(traffic, [np.array([1])])
    assert times.round == 32
    assert times.download.tolist() == [1, 3]
    assert times.compute.tolist() == [9, 24]
    assert times.waiting.tolist() == [0, 5]
    c.charge_work(np.array([1]), np.array([3.0]))
    traffic = {kind: np.zeros(2, dtype=np.int64) for kind in traffic}
    assert c.close_round(traffic, [np.array([1])]).round == 6


TAUGHT = 4 / 3 * 4
"""Four steps, each with a forward pass besides."""
FORECASTING = [name for name, m in methods.available().items() if not (m.only_task or m.only_model)]

WORK: dict[str, tuple[list[float], dict[str, Any]]] = {
    "cc_fedadagrad": ([4, 4, 4], {"steps": [4, 4]}),
    "fafed": ([1 + 8, 8, 8], {}),
    "fedadc_plus": ([TAUGHT] * 3, {}),
    "fedeff": ([2 + 6, 6, 6], {"epochs": 3, "tau": 1, "epoch_steps": 2, "schedule": "EC"}),
    "apfl": ([2 * 4] * 3, {}),
    "ditto": ([3 + 4] * 3, {"steps": 3}),
    "fedgkd": ([4, TAUGHT, TAUGHT], {}),
    "fedfomo": ([4 + 4 * 256 / 8 / 3] * 3, {}),
    "ifca": ([4 + 2 * 256 / 8 / 3] * 3, {}),
    "moon": ([4 * 5 / 3] * 3, {}),
    "one_shot": ([40 + 4, 4, 4], {}),
    "pfedme": ([5 * 4] * 3, {}),
    "fedala": ([4, 2 * 3 + 4, 3 + 4], {"subset": "shared", "first": 2, "most_steps": 3}),
    "per_fedavg": ([2 * 4] * 3, {}),
    "scaffold": ([8, 8, 8], {"option": "i"}),
}
"""Work of a client in three rounds of four steps, for the methods that do more than steps or do it
before round 1: a forward pass is a third of a step, there are 305 windows, a minibatch has 8."""


@pytest.mark.parametrize("name", FORECASTING)
def test_every_method_is_charged_what_it_does(name: str) -> None:
    expected, parameters = WORK.get(name, ([4.0, 4.0, 4.0], {}))
    assert charged(name, parameters) == pytest.approx(expected)


def charged(name: str, parameters: dict[str, Any]) -> list[float]:
    """Work of every client in each round, in local steps."""
    client = "sgdm" if name == "fedadc_dm" else "sgd"
    grid = {"method": [name], "client_opt": [client], "server_opt": ["fedavg"], "sharing": ["P2"]}
    study = tiny.study(
        grid=grid,
        federation={"simulation": {"step_seconds": 1.0}},
        client_opt={"sgdm": {"dampening": 0.9}},
        method={name: parameters},
    )
    (result,) = train(study, study.cells, tiny.dataset()).values()
    trained = result.records[result.records["split"] == "train"]
    found = trained.groupby("round")["seconds"]
    np.testing.assert_allclose(found.min(), found.max())
    return [float(seconds) for seconds in found.first()]


def test_who_drops_out_has_compared_the_models_and_taken_some_steps() -> None:
    """FAFED's two steps take two gradients each; what comes before them is done in full."""
    for method, before, steps in ((FaFed(), 0, 4), (Ifca(), 2 / 3, 2)):
        made = simulated(dropout=0.5, step_seconds=1.0)
        path = trajectory(SGD, AVG, method, **PERSONAL, made=made)
        for t, step in enumerate(path[1:], 1):
            progress = step.f.clock.share_before_dropout(t)
            expected = before + steps * progress
            assert step.report.times.compute == pytest.approx(expected)


@settings(max_examples=10)
@given(
    st.floats(0.2, 1), st.floats(0, 0.9), st.floats(0.2, 1), st.booleans(), st.integers(0, 2**32)
)
def test_under_random_participation(availability, dropout, share, keep, seed):
    """Who cannot be reached gets nothing; who drops out sends nothing, changes nothing."""
    path = trajectory(
        Adam(),
        AVG,
        **PERSONAL,
        rounds=5,
        participation=share,
        opt_state="keep" if keep else "reset",
        seed=seed,
        made=simulated(availability=availability, dropout=dropout, step_seconds=1.0),
    )
    for t, (before, after) in enumerate(pairwise(path), 1):
        present = after.report.participants
        reached, progress = after.f.clock.available(t), after.f.clock.share_before_dropout(t)
        assert reached[present].all()
        stays = np.array([i in present and progress[i] == 1 for i in range(4)])
        traffic, times = after.report.traffic, after.report.times
        assert traffic["bytes_down"].tolist() == [8 * (i in present) for i in range(4)]
        assert traffic["bytes_up"].tolist() == (8 * stays).tolist()
        compute = [2 * progress[i] * (i in present) for i in range(4)]
        assert times.compute.tolist() == pytest.approx(compute)
        assert times.round == pytest.approx(max(compute))
        assert torch.equal(before.local[~stays], after.local[~stays])
        for name, rows in before.moments.items():
            assert torch.equal(rows[~stays], after.moments[name][~stays])
        # The server holds the mean of those who stayed, or what it had.
        expected = after.local[stays, 0].mean().item() if stays.any() else before.x.item()
        assert after.x.item() == pytest.approx(expected, rel=1e-12)


def test_shares_are_those_asked_for() -> None:
    c = clock(NAMES, availability=0.7, dropout=0.2)
    reached = np.stack([c.available(t) for t in range(1, 501)])
    progress = np.stack([c.share_before_dropout(t) for t in range(1, 501)])
    assert reached.mean() == pytest.approx(0.7, abs=0.03)
    assert (progress < 1).mean() == pytest.approx(0.2, abs=0.03)
    assert progress[progress < 1].mean() == pytest.approx(0.5, abs=0.05)


def test_draws_belong_to_the_client_and_the_round() -> None:
    keys: dict[str, Any] = {"availability": 0.5, "dropout": 0.5}
    keys |= {"step_seconds": 2.0, "step_spread": 1.0}
    one, other = clock(NAMES, **keys), clock(NAMES[::-1], **keys)
    np.testing.assert_array_equal(one.available(3), other.available(3)[::-1])
    np.testing.assert_array_equal(one.share_before_dropout(3), other.share_before_dropout(3)[::-1])
    np.testing.assert_array_equal(one.step_seconds, other.step_seconds[::-1])
    assert not np.array_equal(one.share_before_dropout(3), one.share_before_dropout(4))
    assert not np.array_equal(
        one.share_before_dropout(3), clock(NAMES, 1, **keys).share_before_dropout(3)
    )


def test_what_is_recorded() -> None:
    simulation = {"step_seconds": 2.0, "down_mbit": 0.01, "dropout": 0.3}
    grid = {"client_opt": ["adam"], "server_opt": ["fedavg"]}
    study = tiny.study(grid=grid, federation={"simulation": simulation})
    tables = [result.records for result in train(study, study.cells, tiny.dataset()).values()]
    records = pd.concat(tables, ignore_index=True)
    trained = records[records["split"] == "train"]
    assert trained["loss"].notna().all()
    assert (trained["seconds"] <= trained["round_seconds"]).all()
    slowest = trained.groupby([*CELL, "round"])["seconds"].transform("max")
    np.testing.assert_allclose(slowest, trained["round_seconds"])
    stayed = trained[trained["bytes_up"] > 0]
    expected = 4 * 2.0 + stayed["bytes_down"] * 8e-4
    np.testing.assert_allclose(stayed["seconds"], expected)
    assert 0 < len(stayed) < len(trained[trained["bytes_down"] > 0])


def test_without_simulated_time_nothing_of_it_is_recorded() -> None:
    study = tiny.study(federation={"simulation": {"availability": 0.3}})
    cell = tiny.cell("XX-P1-fedopt-adam-fedavg-10", study)
    records = train(study, [cell], tiny.dataset())[cell].records
    assert {"seconds", "round_seconds"}.isdisjoint(records)
    assert "seconds" not in summarise(records, "sample")
