"""Trees as rows: against LightGBM on the pooled rows, and in trainings of all kinds."""

from functools import cache
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import torch

from plfl.base.errors import ConfigError, PlflError
from plfl.config.windows import Windows
from plfl.data.dataset import Dataset
from plfl.data.windows import build
from plfl.experiments.train import train
from plfl.experiments.training_setup import TrainingSetup, place_computation
from plfl.experiments.workload import workload
from plfl.federated.channel import Channel
from plfl.federated.collectives.message_layout import SETTINGS
from plfl.federated.privacy.statement import remarks_outside, statements
from plfl.federated.tree_grower import TreeGrower
from plfl.federated.tree_growth import GrowingClient, Tree, bin_rows
from plfl.forecast.model import load
from plfl.models.trees import leaves_of
from plfl.results.records import CellResult
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.interruption import check_resumes
from tests.helpers.meter_models import make_new_meter, write_models_of

COVARIATES = [{"name": "lags", "days": [1]}, {"name": "level"}, {"name": "calendar"}]
WINDOWS = {"target": "change", "scaling": "per_client", "covariates": COVARIATES}
BINS = 15


def study(**blocks: Any) -> Study:
    """Four trees of the body and two of the head; `blocks` go over the keys."""
    raw: dict[str, Any] = {
        "data": {"states": ["XX"], "clients": 3, "source": "sample"},
        "windows": WINDOWS,
        "model": {"name": "trees", "trees": 4, "own_trees": 2, "leaves": 7},
        "grid": {"method": ["boosting"], "client_opt": ["sgd"], "server_opt": ["fedavg"]},
        "federation": {"rounds": 6, "loss": "mae"},
        "hyperparameters": {"method": {"boosting": {"bins": BINS}}},
    }
    for name, block in blocks.items():
        raw[name] = block if "hidden" in block else raw.get(name, {}) | block
    return Study.parse(raw, "trees")


@cache
def data(**windows: Any) -> Dataset:
    return build(tiny.tables(), Windows.model_validate(WINDOWS | windows))


def trained(of: Study, on: Dataset | None = None) -> dict[str, CellResult]:
    """The results by sharing scheme."""
    found = train(of, of.cells, data() if on is None else on)
    return {cell.sharing: result for cell, result in found.items()}


def sums(result: CellResult, column: str) -> "pd.Series[float]":
    """The sum over clients in each round."""
    table = result.records.query("split == 'train' and model == 'local'")
    return table.groupby("round")[column].sum()


def scores(result: CellResult, model: str = "local") -> float:
    table = result.records.query(f"split == 'test' and model == '{model}'")
    return float(table[table["round"] == table["round"].max()]["mase"].mean())


@pytest.mark.parametrize(("loss", "objective"), [("mse", "l2"), ("huber", "huber")])
def test_shared_trees_are_those_of_lightgbm_on_pooled_rows(loss: str, objective: str) -> None:
    own_study = study(federation={"loss": loss}, grid={"sharing": ["P1"]})
    models = trained(own_study)["P1"].models
    setup = TrainingSetup.for_study(own_study, data())
    starts = [data().starts(i, "train") for i in range(3)]
    both = [setup.engine.inputs(torch.from_numpy(s)[None])[:2] for s in starts]  # type: ignore[attr-defined]
    x = np.concatenate([np.hstack([a[0].flatten(1), b[0]]) for a, b in both])
    y = np.concatenate([data().targets[s + data().look_back - 1] for s in starts])
    public = setup.client_data(10).public_values(BINS).astype(np.float32)
    given = SETTINGS | {"objective": objective, "num_leaves": 7, "learning_rate": 0.3}
    given["alpha"] = 1  # where Huber's loss becomes linear
    pooled = lightgbm.Dataset(
        x, y, params=given | {"max_bin": BINS}, reference=bin_rows(public, BINS)
    )
    alone = lightgbm.train(given | {"max_bin": BINS}, pooled, 6)
    for i, own in enumerate(starts):
        row = torch.from_numpy(models["local"][i : i + 1])
        (found,) = setup.engine.predict(row, [torch.from_numpy(own)])
        first = sum(map(len, starts[:i]))
        expected = alone.predict(x[first : first + len(own)])
        np.testing.assert_allclose(found, expected, atol=1e-5)
    layout = own_study.plan.layout
    features = np.concatenate(
        [
            layout.views(torch.from_numpy(models["global"][:1]))[f"{group}.feature"][0, 0]
            for group in ("body", "head")
        ]
    )
    for tree, line in zip(features, _lines(alone, "split_feature"), strict=True):
        np.testing.assert_array_equal(tree[: len(line)], line)


def _lines(booster: Any, name: str) -> list[list[int]]:
    text = booster.model_to_string().splitlines()
    return [
        [int(n) for n in line.split("=")[1].split()] for line in text if line.startswith(f"{name}=")
    ]


def test_each_scheme_shares_its_trees_and_counts_their_bytes() -> None:
    results = trained(study())
    up = {scheme: sums(result, "bytes_up") for scheme, result in results.items()}
    assert (up["P1"] > 0).all() and not up["P3"].any()
    assert up["P2"][:4].equals(up["P1"][:4]) and not up["P2"][4:].any()
    extras = sums(results["P1"], "extras_up")
    assert extras.equals(up["P1"])  # no parameters cross
    for result in results.values():
        assert (np.diff(sums(result, "loss")) < 0).all()
        np.testing.assert_allclose(sums(result, "epochs"), 3)
    body = study().plan.layout.mask(["body"])
    both = [results[scheme].models["local"] for scheme in ("P1", "P2")]
    np.testing.assert_array_equal(both[0][:, body], both[1][:, body])
    assert (both[0][0] == both[0]).all()
    assert not (both[1][0] == both[1][1])[~body].all()


def test_a_client_that_drops_out_scores_the_tree_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own_study, everyone = study(grid={"sharing": ["P1"]}), range(3)
    row = torch.zeros(3, own_study.plan.layout.width)
    quantiles = GrowingClient.leaf_quantiles

    def fails(client: GrowingClient, leaves: Any, residuals: Any, level: float) -> Any:
        if client.server.clients == 3 and client.rank == 1:
            raise ConnectionError
        return quantiles(client, leaves, residuals, level)

    def forester() -> TreeGrower:
        return TreeGrower(
            TrainingSetup.for_study(own_study, data()).client_data(1),
            own_study.plan.layout,
            7,
            0.3,
            BINS,
        )

    grown = forester()
    monkeypatch.setattr(GrowingClient, "leaf_quantiles", fails)
    grown.add(row, everyone, 0, Channel(0, 3))
    losses = [f.add(row, everyone, 1, Channel(0, 3), grows=False) for f in (grown, forester())]
    torch.testing.assert_close(*losses)


def test_noise_has_the_epsilon_of_all_its_sums() -> None:
    def with_noise(z: float, **blocks: Any) -> Study:
        method = {"method": {"boosting": {"bins": BINS, "noise": z}}}
        return study(hyperparameters=method, **blocks)

    own_study = with_noise(30)
    stated = statements(own_study).set_index("cell")["epsilon"]
    # Four or six trees, each with the sums of all windows, six histograms, and three counts.
    for scheme, count in (("P1", 60), ("P2", 40)):
        mu, delta = count**0.5 / 30, own_study.federation.privacy.delta
        epsilon = float(next(v for cell, v in stated.items() if f"{scheme}-" in str(cell)))
        # δ(ε) of N(0, 1) and N(μ, 1) by its definition, the integral of max(0, p − e^ε q).
        x = np.linspace(-20, 20, 400_001)
        densities = [np.exp(-((x - m) ** 2) / 2) / np.sqrt(2 * np.pi) for m in (mu, 0)]
        above = (densities[0] - np.exp(epsilon) * densities[1]).clip(0)
        assert float(above.sum() * (x[1] - x[0])) == pytest.approx(delta, rel=1e-3)
    assert any("Trees:" in line for line in remarks_outside(own_study))
    plain, noisy = trained(study()), trained(own_study)
    for scheme in ("P1", "P2"):
        assert not np.array_equal(plain[scheme].models["local"], noisy[scheme].models["local"])
    np.testing.assert_array_equal(plain["P3"].models["local"], noisy["P3"].models["local"])
    with pytest.raises(ConfigError, match="has noise for L1 errors only"):
        with_noise(1, federation={"loss": "mse"})


def test_an_interrupted_training_has_the_same_bits(tmp_path: Path) -> None:
    check_resumes(study(), data(), tmp_path, after=3)
    check_resumes(study(), data(), tmp_path / "own", after=5)


def test_who_drops_out_gets_the_trees_that_it_lacks() -> None:
    absent = {"dropout": 0.4}
    own_study = study(federation={"simulation": absent}, grid={"sharing": ["P1"]})
    result = trained(own_study)["P1"]
    table = result.records.query("split == 'train' and model == 'local'")
    left = table[table["epochs"] < 1]
    assert 0 < len(left) < len(table)
    assert (left["bytes_up"] == 0).all()
    whole = trained(study(grid={"sharing": ["P1"]}))["P1"]
    assert scores(result, "global") < 1
    assert not np.array_equal(result.models["global"], whole.models["global"])


def test_clients_that_join_later_add_their_own_trees() -> None:
    unseen = {"join": "unseen", "turns": 3}
    schemes = {"all": unseen, "own": unseen | {"share": "body"}, "raw": {"join": "raw"}}
    results = trained(study(sharing=schemes, grid={"sharing": [*schemes]}))
    assert scores(results["all"]) == pytest.approx(scores(results["all"], "global"), rel=1e-6)
    assert scores(results["own"]) < scores(results["own"], "global")
    pooled = results["raw"].models["local"]
    whole = trained(study(grid={"sharing": ["P1"]}))["P1"].models["local"]
    np.testing.assert_array_equal(pooled, whole)


def test_trees_need_no_minibatch_of_windows() -> None:
    """The key that sets their size has no effect on trees, so that nobody could lower it."""
    split = {"split": [0.15, 0.35, 0.5]}
    own_study = study(grid={"sharing": ["P1"]}, windows=split)
    series = build(tiny.tables(3, 160), own_study.windows)
    assert max(len(series.starts(i, "train")) for i in range(3)) < own_study.federation.batch_size
    assert np.isfinite(trained(own_study, series)["P1"].models["local"]).all()


def test_quantiles_and_several_targets_have_trees_of_their_own() -> None:
    windows = {"horizons": 2}
    levels = {"name": "quantiles", "levels": [0.1, 0.5, 0.9]}
    raw = {"windows": WINDOWS | windows, "task": levels, "grid": {"sharing": ["P1"]}}
    own_study = study(**raw, federation={"loss": "mse"})
    assert own_study.plan.layout.shapes["body.value"] == (6, 4, 7)
    result = trained(own_study, data(**windows))["P1"]
    table = result.records.query("split == 'test'")
    assert (table[table["round"] == 6]["coverage_80"].between(0.4, 1)).all()


def test_a_new_meter_adds_own_trees(here: Path) -> None:
    meters = {"columns": {"timestamp": "timestamp", "load": "kWh", "temperature": "out"}}
    source = {"source": "meters", "meters": {"timezone": "Etc/GMT+5", **meters}}
    own_study = study(data=source, grid={"sharing": ["P2"]})
    write_models_of(own_study, Path("m.safetensors"))
    model, readings = load("m.safetensors"), make_new_meter(rows=96 * 14)
    new = model.adapt(readings, "d", epochs=2)
    (received,), (own,) = new.models["global"], new.models["local"]
    body = own_study.plan.layout.mask(["body"])
    np.testing.assert_array_equal(received[body], model.models["global"][0][body])
    np.testing.assert_array_equal(received[body], own[body])
    assert not own_study.plan.layout.views(torch.from_numpy(received[None]))["head.value"].any()
    assert own_study.plan.layout.views(torch.from_numpy(own[None]))["head.value"].any()
    model.adapt(readings, "e")  # with a number that it chooses


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        ({"federation": {"local_steps": 5}}, "federation.local_steps has no effect; remove it"),
        ({"federation": {"rounds": 5}}, "set federation.rounds to 6"),
        ({"federation": {"ema": 0.9}}, "remove the method, or federation.opt_state and"),
        ({"federation": {"privacy": {"clip": 1}}}, "learns more from the clients than their mean"),
        ({"compute": {"device": "cuda"}}, "the model trees grows on the CPU; set cpu or auto"),
        ({"windows": {"target": "load"}}, "cannot predict 'load'; set it to change"),
        ({"channel": {"up": "f16"}}, "works without codecs only"),
        ({"grid": {"method": ["fedopt"]}}, "cannot train trees4-2-7; use boosting"),
        ({"grid": {"client_opt": ["adam"]}}, "trees have no local steps; use sgd"),
        ({"grid": {"server_opt": ["fedadam"]}}, "its server adds sums, and no updates"),
        ({"model": {"leaves": 5}}, "more leaves, 6, than model.leaves 5"),
        ({"sharing": {"a": ["body.value"]}, "grid": {"sharing": ["a"]}}, "it shares whole trees"),
    ],
)
def test_what_makes_no_sense_is_refused(blocks: dict[str, Any], text: str) -> None:
    if "model" in blocks:
        blocks = blocks | {"hyperparameters": {"method": {"boosting": {"leaves": 6}}}}
    with pytest.raises(ConfigError) as refused:
        study(**blocks)
    assert sum(text in str(problem) for problem in refused.value.problems) == 1


def test_an_input_at_the_threshold_goes_left() -> None:
    tree = Tree(*(np.array(values, float) for values in ([0], [1.5], [-1], [-2], [3, 4])))
    x = np.array([[1.5], [np.nextafter(1.5, 2)]])
    assert tree.leaves(x).tolist() == [0, 1]
    nodes = [torch.from_numpy(values)[None] for values in tree[:4]]
    assert leaves_of(nodes, torch.from_numpy(x)).tolist() == [[0], [1]]


def test_it_trains_no_network_and_on_no_gpu() -> None:
    assert place_computation(study()).device == "cpu"
    with pytest.raises(ConfigError, match="needs the model trees"):
        study(model={"name": "mlp", "hidden": [4]})


def test_masked_sums_grow_the_same_trees() -> None:
    """Every record is equal but for bytes, which count keys and masks."""
    plain, masked = study(), study(channel={"secure": True})
    found, hidden = trained(plain), trained(masked)
    for scheme in ("P1", "P2", "P3"):
        table, other = found[scheme].records, hidden[scheme].records
        byte_columns = [name for name in table if name.startswith(("bytes", "extras"))]
        pd.testing.assert_frame_equal(
            table.drop(columns=byte_columns), other.drop(columns=byte_columns), check_exact=True
        )
        # A client may even send less, but both ways together take more.
        assert (other[byte_columns].sum().sum() > table[byte_columns].sum().sum()) == (
            scheme != "P3"
        )
        if scheme == "P1":  # the estimate is the most that crosses, and not ten times as much
            rows = other.drop_duplicates(["round", "client"])
            crossed = rows[["bytes_up", "bytes_down"]].sum().sum() / 1e6
            most = workload(masked).set_index("sharing").loc["P1", "megabytes"]
            assert crossed <= most < 10 * crossed
            assert workload(plain).set_index("sharing").loc["P1", "megabytes"] < most
    assert not [c for c in plain.cells if plain.plan.settings(c) == masked.plan.settings(c)]
    assert "channel" not in plain.plan.settings(plain.cells[0])


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        ({"federation": {"loss": "huber"}}, "gradients of huber, which are no whole numbers"),
        ({"federation": {"participation": 0.5}}, "by the difference of two rounds"),
        ({"data": {"clients": 2}}, "a round has 2 clients"),
        (
            {"hyperparameters": {"method": {"boosting": {"bins": BINS, "noise": 4.0}}}},
            "the sums before it adds the noise",
        ),
        ({"channel": {"secure": True, "up": "q8"}}, "sends other things than numbers"),
    ],
)
def test_what_masks_cannot_hide_is_refused_in_one_line(blocks: Any, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        study(**({"channel": {"secure": True}} | blocks))
    assert any(reason in str(problem) for problem in error.value.problems)


def test_masks_need_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plfl.base.extras.find_spec", lambda name: None)
    with pytest.raises(PlflError, match=r"channel.secure needs .*cryptography.*'plfl\[secure\]'"):
        trained(study(channel={"secure": True}))
