"""benchmarks/outside.py, which repeats cells without plfl, agrees with plfl on generated meters."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import outside
from plfl.data import sources
from plfl.experiments.baselines import evaluate
from plfl.public.making import SiteMeters, gather_sites
from plfl.public.packing import pack
from plfl.public.training import TreeSizes, fit
from plfl.study import Study
from tests.helpers.outside import series

ORIGIN, WEEKS = "2018-04-10", 5
TREES = 40
"""More than the 30 after which training stops early."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three meters for a hundred days, with a short gap and a longer one."""
    wide = pd.DataFrame({f"Fox_{i}": series(i, 100, 60)["load"] for i in range(3)})
    wide.index = pd.DatetimeIndex(wide.index).floor("h").rename("timestamp")
    wide.iloc[1400, 1] = wide.iloc[1500:1504, 2] = np.nan
    path = tmp_path / "fox.parquet"
    wide.to_parquet(path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file of public models of two other meters."""
    places = {"here": SiteMeters.from_series({str(i): series(i, 90, 60) for i in (7, 8)}, 60)}
    windows = gather_sites([place.meters for place in places.values()], "hour")
    text = fit(*windows, TreeSizes(20, 15)).model_to_string()
    path = tmp_path / "without-fox.xz"
    path.write_bytes(pack({"hour_50": text}, np.array([1], np.uint64)))
    return path


def test_baselines(table: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "METERS", 3)
    monkeypatch.setattr(outside, "TREES", TREES)
    settings = outside.study("fox", ORIGIN, WEEKS, table, model)
    settings["baselines"]["trees"] = TREES
    study = Study.parse(settings, "a test")
    data = sources.source_of(study.data).examples_of(study, "fox")
    boosting = study.baselines.fit_settings
    further, leave_out = study.baselines.further, study.baselines.leave_out
    written = evaluate("fox", data, boosting, additional=further, leave_out=leave_out).scores
    own, whole = outside.meters(table, ORIGIN, WEEKS), outside.meters(table, ORIGIN, None)
    whole = [replace(w, held=m.held, chosen_on=m.held) for w, m in zip(whole, own, strict=True)]
    gaps = outside.furthest(written, outside.baselines(own, whole, model))
    assert len(gaps) == 15
    assert gaps.max() < outside.LIMIT


def test_a_difference_is_found() -> None:
    keys = {"baseline": ["a", "a", "b", "c"], "split": "test", "client": ["x", "y", "x", "x"]}
    one = pd.DataFrame(keys | {name: [1.0, 2.0, 3.0, np.nan] for name in outside.SCORES})
    other = one.assign(mae=[1.0, 2.1, np.nan, np.nan])
    gaps = outside.furthest(one, other).to_dict()
    assert gaps == {"a": pytest.approx(0.1 / 2.1), "b": np.inf, "c": 0}
    assert outside.furthest(one[:2], one)["b"] == np.inf


def test_the_published_row_is_repeated(
    table: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all meters at each origin, the mean of what `baselines` has."""
    monkeypatch.setattr(outside, "table_of", lambda *_: table)
    raw = {"last": "2018-04-10", "count": 2, "step": 1}
    monkeypatch.setattr(outside.yaml, "safe_load", lambda _: {"data": {"origins": raw}})
    computed, stated = outside.published(Path(), model, "fox", 1)
    forecast = outside.PublicTrees(model).forecast
    mases = [
        outside.errors(meter, "test", forecast)["mase"]
        for origin in ("2018-04-10", "2018-04-03")
        for meter in outside.meters(table, origin, 1)
    ]
    assert computed == pytest.approx(np.mean(mases))
    assert 0.6 < stated < 0.7
