"""BuildingsBench: its files become a study, and its scores follow its definitions."""

from math import erf, exp, pi, sqrt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from benchmarks import buildingsbench
from plfl.baselines.trees import Boosting
from plfl.data import sources
from plfl.data.dataset import Dataset
from plfl.experiments.baselines import evaluate
from plfl.study import Study
from plfl.tasks import metrics
from tests.helpers.outside import series


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Its form: a wide file per site and year, and files of single buildings."""
    stamps = pd.date_range("2016-01-01", periods=400 * 24, freq="h", name="timestamp")
    loads = np.stack([series(i, 400, 60)["load"] for i in range(5)], axis=1)
    wide = pd.DataFrame(loads, stamps, ["Fox_a", "Fox_b", "Fox_c", "house1", "house2"])
    wide.iloc[30:33, 0] = np.nan
    for part in ("BDG-2", "SMART", "metadata"):
        (tmp_path / part).mkdir()
    for year, rows in wide.groupby(wide.index.year):
        rows[["Fox_a", "Fox_b", "Fox_c"]].to_csv(tmp_path / "BDG-2" / f"Fox_clean={year}.csv")
        rows[["house1"]].set_axis(["power"], axis=1).to_csv(
            tmp_path / "SMART" / f"house1_clean={year}.csv"
        )
    house = wide[["house2"]].iloc[: 300 * 24].set_axis(["power"], axis=1)
    house.to_csv(tmp_path / "SMART" / "house2_clean=2016.csv")
    lists = {"commercial": "Fox_a\nFox_c\n", "residential": "house1\nhouse2\n"}
    for kind, names in lists.items():
        path = tmp_path / "metadata" / buildingsbench.LIST.format(kind)
        path.write_text(names, encoding="utf-8")
    return tmp_path


def test_files_become_a_study_and_results_a_table(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    to = folder / "prepared"
    buildingsbench.main(["prepare", str(folder), "--to", str(to)])
    assert "3 of the 4 buildings" in (said := capsys.readouterr().out)
    assert "in them: house2" in said
    settings = yaml.safe_load((to / "study.yaml").read_text(encoding="utf-8"))
    settings["baselines"]["leave_out"] += ["naive_week", "ridge", "lightgbm_lags"]
    settings["baselines"]["leave_out"] += ["lightgbm_pooled"]
    study = Study.parse(settings, "a test")
    assert study.data.states == ["Fox_commercial", "SMART_residential"]
    found = []
    for state in study.data.states:
        data = sources.of(study.data).examples_of(study, state)
        assert isinstance(data, Dataset)
        assert np.diff(data.bounds[0]).tolist() == [150 * 24 + 1, 30 * 24, 180 * 24 + 1]
        options = {"task": study.task, "further": study.baselines.further}
        leave_out = study.baselines.leave_out
        found.append(evaluate(state, data, Boosting(), **options, leave_out=leave_out).scores)
    scores = pd.concat(found)
    # The scores of a building as its scripts have them: from the file, a window a day.
    load = pd.concat(
        pd.read_csv(folder / "BDG-2" / f"Fox_clean={year}.csv", index_col=0)
        for year in (2016, 2017)
    )["Fox_a"].fillna(0)
    tested = load.iloc[180 * 24 + 1 :].iloc[: 180 * 24 + 1].to_numpy()
    origins = [168 + 24 * i for i in range((len(tested) - 168 - 24) // 24)]
    assert len(origins) == 172
    truth = np.stack([tested[i : i + 24] for i in origins])
    days = np.stack([tested[i - 168 : i].reshape(7, 24) for i in origins])
    mean, deviation = days.mean(axis=1), np.maximum(days.std(axis=1, ddof=1), 1e-3)
    row = scores.query("client == 'Fox_a' and split == 'test' and baseline == 'week_mean'").iloc[0]
    nrmse = np.sqrt(((truth - mean) ** 2).mean()) / truth.mean()
    assert row["daily_nrmse"] == pytest.approx(nrmse, rel=1e-9)
    hourly = [row[f"daily_crps_h{h}"] for h in range(1, 25)]
    np.testing.assert_allclose(hourly, crps(truth, mean, deviation).mean(axis=0), rtol=1e-6)
    results = folder / "results"
    results.mkdir()
    scores.to_parquet(results / "baselines.parquet")
    mine = scores[scores["baseline"] == "week_mean"].drop(columns="baseline")
    mine.assign(round=1, sharing="P3", model="local").to_parquet(results / "records.parquet")
    monkeypatch.setattr(buildingsbench, "REPETITIONS", 200)
    shown = buildingsbench.table(results).set_index(["buildings", "forecaster"])
    own = scores.query("baseline == 'week_mean' and split == 'test'").set_index("client")
    middle = 100 * own.loc[["Fox_a", "Fox_c"], "daily_nrmse"].median()
    for name in ("week_mean", "P3, local model"):
        assert shown.loc[("commercial", name), "NRMSE %"].startswith(f"{middle:.2f} [")
    assert shown.loc[("residential", "LightGBM (published)"), "NRMSE %"] == "80.07"


def crps(truth: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """That of a Gaussian as its paper has it, number by number."""

    def one(y: float, m: float, s: float) -> float:
        z = (y - m) / s
        below, density = (1 + erf(z / sqrt(2))) / 2, exp(-(z**2) / 2) / sqrt(2 * pi)
        return s * (z * (2 * below - 1) + 2 * density - 1 / sqrt(pi))

    return np.vectorize(one)(truth, mean, deviation)


def test_the_crps_of_a_gaussian_is_the_integral_of_its_pinball_losses() -> None:
    from scipy.stats import norm

    levels = (np.arange(4000) + 0.5) / 4000
    truth, mean, deviation = np.array([1.0, 4.0]), np.array([2.0, 2.0]), np.array([0.5, 3.0])
    found = metrics.gaussian_crps(truth, mean, deviation)
    np.testing.assert_allclose(found, crps(truth, mean, deviation), rtol=1e-12)
    quantiles = mean[:, None] + deviation[:, None] * norm.ppf(levels)
    integral = metrics.crps(truth, quantiles, levels.tolist())
    assert found.mean() == pytest.approx(integral, rel=1e-3)
    fitted = metrics.gaussian_of(
        quantiles[:, [399, 1999, 3799]], levels[[399, 1999, 3799]].tolist()
    )
    np.testing.assert_allclose(fitted, [mean, deviation], rtol=1e-9)


def test_the_bootstrap_gives_the_interval_of_a_median(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buildingsbench, "REPETITIONS", 4000)
    values = np.random.default_rng(3).normal(10, 2, 400)
    middle, low, high = buildingsbench.median(values)
    assert middle == np.median(values)
    wanted = 1.96 * sqrt(pi / 2) * 2 / sqrt(400)  # of a normal distribution, for many values
    assert (high - low) / 2 == pytest.approx(wanted, rel=0.25)
