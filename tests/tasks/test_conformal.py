"""Conformal widths: which score they are, what they cover, and what clients exchange."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plfl.base.errors import ConfigError, DataError
from plfl.data.dataset import Dataset
from plfl.data.windows import build
from plfl.experiments.baselines import evaluate
from plfl.experiments.train import train
from plfl.experiments.training_setup import TrainingSetup
from plfl.interfaces.baseline import FitSettings
from plfl.study import Study
from plfl.tasks import conformal
from plfl.tasks.loads import first_week
from tests.helpers import tiny
from tests.helpers.refusals import naming

LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]
random = np.random.default_rng(7)


@pytest.mark.parametrize("windows", [9, 10, 11, 99, 100, 685])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.9])
def test_the_width_is_the_conformal_quantile_of_the_scores(windows, share):
    """As Romano et al. write it: the (1 − α)(1 + 1/n) empirical quantile."""
    truth, ends = random.normal(size=windows), np.sort(random.normal(size=(2, windows)), axis=0)
    scores = np.array([max(low - y, y - high) for y, low, high in zip(truth, *ends, strict=True)])
    level = min(1.0, share * (1 + 1 / windows))
    expected = np.quantile(scores, level - 1e-12, method="inverted_cdf")
    assert conformal.width(scores, share) == expected
    assert conformal.width(np.r_[np.nan, scores], share) == expected


@given(
    st.lists(st.sampled_from([-1.0, 0.0, 0.3, 2.0, np.nan]), min_size=1, max_size=60),
    st.integers(0, 5),
    st.sampled_from([0.5, 0.9]),
)
def test_adaptive_widths_cover_their_share_of_any_loads(scores, delay, share):
    """The fraction outside is 1 − s + (q_T − q_0) / (ηT), and q leaves the range of the scores by
    no more than the steps whose loads were not yet known."""
    scores, step, first = np.array([*scores, *[0.0] * (delay + 1)]), 0.25, 1.0
    known = np.maximum(np.arange(len(scores)) - delay, 0)
    widths = conformal.adaptive_widths(first, step, scores, known, share)
    assert widths[0] == first
    counted = ~np.isnan(scores[: known[-1]])
    outside = (scores > widths)[: known[-1]][counted]
    change = widths[-1] - first
    assert change == pytest.approx(step * (outside - (1 - share)).sum())
    assert -1 - step * (delay + 2) <= widths.min() <= widths.max() <= 2 + step * (delay + 2)


QUANTILES = {"name": "quantiles", "levels": LEVELS}
POINT = {"name": "forecast"}


def study(conformal: str, task: dict[str, Any] = QUANTILES, **blocks: Any) -> Study:
    return tiny.study(
        **{
            "task": task | {"conformal": conformal},
            "windows": {"horizons": 2, "target": "change", "split": [0.2, 0.4, 0.4]},
            "model": {"name": "mlp", "hidden": [4]},
            "grid": {"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P2"]},
            "federation": {"rounds": 2, "local_steps": 4, "batch_size": 8},
        }
        | blocks
    )


def exchangeable_of(rows: int) -> Dataset:
    """Three clients whose loads are drawn anew in every row, each with a scale of its own."""
    tables = {}
    for name, scale in (("a", 1.0), ("b", 20.0), ("c", 300.0)):
        load = scale * np.random.default_rng(int(scale)).gamma(2.0, size=rows)
        stamps = pd.date_range("2018-01-01 00:15", periods=len(load), freq="15min")
        tables[name] = pd.DataFrame({"load": load}, stamps)
    return build(tables, study("none").windows)


@pytest.fixture(scope="module")
def exchangeable() -> Dataset:
    return exchangeable_of(20000)


def scores_of(of: Study, dataset: Dataset) -> pd.DataFrame:
    (result,) = train(of, of.cells, dataset).values()
    return result.records.query("round == 2")


@pytest.fixture(scope="module")
def without_widths(exchangeable) -> dict[str, pd.DataFrame]:
    """The test scores of each task."""
    found = {
        task["name"]: scores_of(study("none", task), exchangeable) for task in (QUANTILES, POINT)
    }
    return {name: scores.query("split == 'test'") for name, scores in found.items()}


@pytest.mark.parametrize(
    ("task", "conformal"),
    [*((POINT, conformal) for conformal in ("personal", "adaptive")), (QUANTILES, "personal")],
)
def test_every_client_is_covered_if_its_data_are_exchangeable(
    task, conformal, exchangeable, without_widths
):
    plain = without_widths[task["name"]]
    found = scores_of(study(conformal, task), exchangeable).query("split == 'test'")
    covered = [column for column in found if column.startswith("coverage_")]
    assert {"coverage_90", "coverage_90_h4", "coverage_90_h5"} <= set(covered)
    for column in covered:
        share = int(column.split("_")[1]) / 100
        assert found[column].between(share - 0.02, share + 0.02).all()
    np.testing.assert_array_equal(found["mase"], plain["mase"])  # the median stays
    if task is POINT:
        assert not [column for column in plain if "coverage" in column or "crps" in column]
    else:
        assert (plain["coverage_90"] < 0.85).all()  # an untrained model
        assert (found["crps"] < plain["crps"]).all()


@pytest.mark.parametrize("horizons", [1, 2])
def test_intervals_of_forecasts_are_those_of_a_plain_computation(horizons):
    own_study = study("personal", POINT | {"level": 0.8}, windows={"horizons": horizons})
    dataset = build(tiny.tables(rows=800), own_study.windows)
    (cell,) = own_study.cells[:1]
    (result,) = train(own_study, [cell], dataset).values()
    evaluator = TrainingSetup.for_study(own_study, dataset).evaluator
    for i, rows in enumerate(result.models["local"]):
        outputs = evaluator.engine.predict(torch.from_numpy(rows)[None], [evaluator.starts[i]])
        starts = evaluator.starts[i].numpy()
        loads = dataset.in_kwh(i, starts, outputs[0].double().numpy()).reshape(-1, horizons)
        truth = dataset.truth(starts).reshape(-1, horizons)
        count = len(dataset.starts(i, "validation"))
        errors = np.sort(np.abs(truth - loads)[:count], axis=0)
        width = errors[int(np.ceil((count + 1) * 0.8)) - 1]
        low, high = (loads - width)[count:], (loads + width)[count:]
        inside = ((low <= truth[count:]) & (truth[count:] <= high)).mean()
        scored = result.records.query(
            "round == 2 and split == 'test' and model == 'local' and client == @name",
            local_dict={"name": dataset.clients[i]},
        )
        assert scored["coverage_80"].item() == pytest.approx(inside, abs=1e-9)
        assert scored["width_80"].item() == pytest.approx(2 * width.mean(), rel=1e-6)
        shown = result.forecasts[result.forecasts["client"] == dataset.clients[i]]
        week = np.isin(dataset.starts(i, "test"), first_week(dataset, i))
        np.testing.assert_allclose(shown["local_lower"], low[week].ravel(), rtol=1e-5)
        np.testing.assert_allclose(shown["local_upper"], high[week].ravel(), rtol=1e-5)


def test_adaptive_widths_cover_loads_of_another_season():
    """In the test set, the noise is twice as large as before."""
    tables, first = tiny.tables(rows=4000), study("none").windows.split
    for i, table in enumerate(tables.values()):
        noise = np.random.default_rng(i).normal(size=len(table))
        noise[int(len(table) * sum(first[:2])) :] *= 2
        table["load"] += 0.3 * noise
    dataset = build(tables, study("none").windows)

    def covered(conformal: str) -> pd.Series:
        return scores_of(study(conformal, POINT), dataset).query("split == 'test'")["coverage_90"]

    assert (covered("personal") < 0.85).all()
    assert covered("adaptive").between(0.88, 0.92).all()
    found = evaluate("XX", dataset, FitSettings(trees=3), study("adaptive", POINT).task).scores
    found = found[(found["split"] == "test") & (found["baseline"] == "ridge")]
    assert found["coverage_90"].between(0.88, 0.92).all()


def test_adaptive_widths_know_only_the_loads_before_a_forecast():
    """As a loop over time: at each row first the load that ends there is compared with the
    forecasts of it, then the window that ends there gets its interval. Gaps leave windows out."""
    own_study, tables = study("adaptive", POINT), tiny.tables(rows=800)
    tables["b"].iloc[[600, 650, 651, 700], 0] = np.nan
    dataset = build(tables, own_study.windows)
    starts = np.concatenate([dataset.starts(1, split) for split in ("validation", "test")])
    loads = np.random.default_rng(2).normal(2, 1, size=(len(starts), 2))
    widths = own_study.task.conformal_widths(
        dataset, 1, loads[: len(dataset.starts(1, "validation"))]
    )
    assert widths.shape == (2, 2, 1)
    found = own_study.task.widen(dataset, 1, starts, loads, widths)
    now, steps = dataset.view.scale[1] * widths[..., 0]
    window_at = {int(row): w for w, row in enumerate(dataset.persistence_rows(starts))}
    used: dict[int, list[float]] = {}
    for row in range(*dataset.view.bounds[1, [1, 3]]):
        for h, ahead in enumerate((4, 5)):
            if (made := window_at.get(row - ahead)) in used:
                outside = abs(dataset.load[row] - loads[made, h]) > used[made][h]
                now[h] += steps[h] * (outside - 0.1)
        if (made := window_at.get(row)) is not None:
            if starts[made] >= dataset.view.bounds[1, 2]:
                used[made] = now.tolist()
            np.testing.assert_allclose(found[made, :, 0], loads[made] - now)
            np.testing.assert_allclose(found[made, :, 2], loads[made] + now)
    assert len(used) == len(dataset.starts(1, "test")) < len(dataset.starts(0, "test"))
    assert (now != dataset.view.scale[1] * widths[0, :, 0]).all()


def test_widths_leave_the_quantiles_in_order():
    own_study = study("personal")
    dataset = build(tiny.tables(rows=800), own_study.windows)
    quantiles = np.sort(random.normal(size=(50, 2, 5)), axis=-1)
    starts = dataset.starts(1, "test")[:50]
    for widths in ([-3.0, 0.0], [0.0, 3.0], [-3.0, -2.0], [1.0, 1.0]):
        found = own_study.task.widen(dataset, 1, starts, quantiles, np.array([widths, widths]))
        assert (np.diff(found, axis=-1) >= 0).all()
        np.testing.assert_array_equal(found[..., 2], quantiles[..., 2])
    kwh = dataset.view.scale[1]  # of the last widths
    np.testing.assert_allclose(quantiles[..., 4] + kwh, found[..., 4])
    np.testing.assert_allclose(quantiles[..., 1] - kwh, found[..., 1])


@pytest.mark.parametrize("task", [QUANTILES, POINT], ids=["quantiles", "forecast"])
def test_baselines_get_widths_of_their_own(task):
    task, dataset = study("personal", task).task, exchangeable_of(2500)
    found = evaluate("XX", dataset, FitSettings(trees=3), task).scores.query("split == 'test'")
    covered = found.groupby("baseline")["coverage_90"].mean()
    assert {"persistence", "ridge", "lightgbm"} <= set(covered.dropna().index)
    assert covered.dropna().between(0.87, 0.93).all()


def test_errors_come_before_the_training():
    with naming(ConfigError, "conformal", "[0.1, 0.5]"):
        tiny.study(task={"name": "quantiles", "levels": [0.1, 0.5], "conformal": "personal"})
    own_study = study("personal", windows={"split": [0.8, 0.05, 0.15], "look_back": 4})
    dataset = build(tiny.tables(rows=300), own_study.windows)
    said = "client a: has 8 windows in its validation set, but task.conformal needs 9"
    with naming(DataError, said) as found:
        train(own_study, own_study.cells, dataset)
    assert len(str(found.value).splitlines()) == 3
    with naming(DataError, said):
        evaluate("XX", dataset, task=own_study.task)
    # Nine are enough.
    dataset = build(tiny.tables(rows=320), own_study.windows)
    assert len(dataset.starts(0, "validation")) == 9
    assert not list(own_study.task.find_uncalibrated(dataset))


def test_a_window_without_a_forecast_has_no_part_in_adaptive_widths() -> None:
    """As in a baseline whose lags reach into a gap."""
    own_study = study("adaptive", POINT)
    dataset = build(tiny.tables(rows=800), own_study.windows)
    starts = dataset.starts(0, "validation")
    loads = np.random.default_rng(2).normal(2, 1, size=(len(starts), 2))
    loads[7] = np.nan
    found = own_study.task.conformal_widths(dataset, 0, loads)
    scores = np.delete(np.abs(dataset.truth(starts) - loads), 7, axis=0)
    steps = conformal.WIDTH_STEP * scores.std(axis=0) / dataset.view.scale[0]
    np.testing.assert_allclose(found[1, :, 0], steps)
    assert np.isfinite(found).all()
