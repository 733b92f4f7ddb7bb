"""Windows that touch a gap in the readings are left out; all others are as without it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.config.windows import Windows
from plfl.data.dataset import SPLITS, Dataset
from plfl.data.describe import describe, list_warnings
from plfl.data.windows import build
from plfl.experiments.train import train
from plfl.results.collect import describe_clients
from tests.helpers import tiny

ROWS = 96 * 16
LAGS = {"name": "lags", "days": [1, 7], "around": 1}
ENCODING = {"name": "encoding", "bins": 3}
KINDS: dict[str, dict[str, Any]] = {
    "paper": {},
    "covariates": {"covariates": [LAGS, {"name": "level"}, {"name": "calendar"}, ENCODING]}
    | {"target": "change"},
    "known_future": {"covariates": [{"name": "known_future", "features": ["temperature"]}]}
    | {"look_ahead": 20},
}
GAPS = {"a": {"load": [30, 31, 500, 1100, 1300], "temperature": [700, 1420]}, "b": {}}


def tables(gaps: dict[str, dict[str, list[int]]]) -> dict[str, pd.DataFrame]:
    made = tiny.tables(len(gaps), ROWS)
    for table, rows in zip(made.values(), gaps.values(), strict=True):
        for column, missing in rows.items():
            table.loc[table.index[missing], column] = np.nan
    return dict(zip(gaps, made.values(), strict=True))


def windows_of(kind: str) -> Windows:
    return Windows.model_validate({"scaling": "per_client", **KINDS[kind]})


def touched(dataset: Dataset, kind: str, start: int, missing: dict[str, list[int]]) -> bool:
    """Whether a window of the first client reads a gap, found one reading at a time."""
    load, temperature = set(missing.get("load", [])), set(missing.get("temperature", []))
    last = start + dataset.look_back - 1
    target = last + dataset.look_ahead
    inputs = set(range(start, last + 1))
    loads = inputs | {target}
    if kind == "covariates":
        lags = {target - 96 * day + j for day in (1, 7) for j in (-1, 0, 1)}
        changes = {last - 1, last - dataset.look_ahead, start}
        loads |= {row for row in lags | changes if 0 <= row <= last}
    if kind == "known_future":
        inputs |= {target}
    return bool(loads & load or inputs & temperature)


@pytest.mark.parametrize("kind", KINDS)
def test_exactly_the_windows_that_read_a_gap_are_left_out(kind: str) -> None:
    windows = windows_of(kind)
    dataset = build(tables(GAPS), windows)
    whole = build(tables({"a": {}, "b": {}}), windows)
    left_out = 0
    for split in SPLITS:
        every = whole.starts(0, split)
        kept = [s for s in every.tolist() if not touched(whole, kind, s, GAPS["a"])]
        assert dataset.starts(0, split).tolist() == kept
        assert dataset.count_skipped(0, split) == len(every) - len(kept)
        left_out += len(every) - len(kept)
        np.testing.assert_array_equal(dataset.starts(1, split), whole.starts(1, split))
        assert np.isfinite(dataset.targets[dataset.persistence_rows(np.array(kept))]).all()
    assert left_out > 50


@pytest.mark.parametrize("kind", KINDS)
def test_all_other_windows_are_as_without_the_gap(kind: str) -> None:
    # A gap in the test set changes nothing that is estimated in the training set.
    windows, gaps = windows_of(kind), {"a": {"load": [1450], "temperature": [1500]}}
    dataset, whole = build(tables(gaps), windows), build(tables({"a": {}}), windows)
    starts = dataset.starts(0, "test")
    assert 0 < len(starts) < len(whole.starts(0, "test"))
    rows = starts[:, None] + np.arange(dataset.look_back)
    last = dataset.persistence_rows(starts)
    np.testing.assert_array_equal(dataset.features[rows], whole.features[rows])
    np.testing.assert_array_equal(dataset.covariates[last], whole.covariates[last])
    np.testing.assert_array_equal(dataset.targets[last], whole.targets[last])


def test_what_is_estimated_leaves_gaps_out() -> None:
    missing = list(range(100, 300))
    (table,) = tables({"a": {"load": missing}}).values()
    known = table["load"].iloc[: round(0.8 * ROWS)].dropna()
    pooled = build({"a": table}, Windows())
    assert pooled.view.offset[0] == known.min()
    assert pooled.view.scale[0] == pytest.approx(known.max() - known.min())
    change = build({"a": table}, Windows(target="change"))
    differences = table["load"].iloc[: round(0.8 * ROWS)].diff(4).abs()
    assert change.view.scale[0] == pytest.approx(differences.mean())
    assert change.view.offset[0] == pytest.approx(known.mean())


def test_every_part_without_a_window_is_named() -> None:
    validation, test = range(round(0.8 * ROWS), round(0.9 * ROWS)), range(round(0.9 * ROWS), ROWS)
    gaps = {"a": {"load": list(validation)}, "b": {}, "c": {"load": list(test[::10])}}
    with pytest.raises(DataError) as raised:
        build(tables(gaps), Windows())
    first, second = str(raised.value).splitlines()
    assert first.startswith("client a: all 138 windows of its validation set touch a gap")
    assert second.startswith("client c: all 139 windows of its test set") and "max_gap" in second


def test_windows_are_counted() -> None:
    gaps = {"a": {"load": list(range(1000, 1012))}, "b": {}}
    made, windows = tables(gaps), Windows()
    dataset = build(made, windows)
    clients = describe_clients("XX", dataset).set_index("client")
    every = ROWS - 3 * 15
    assert clients["skipped"].tolist() == [12 + 12 + 4 - 1, 0]
    assert clients["windows"].tolist() == [every - 27, every]
    assert clients["rows"].tolist() == [ROWS - 12, ROWS]
    assert clients["mean"].notna().all()
    description = describe(made, 15, windows)
    assert description["skipped"].tolist() == [27, 0]
    assert not any("touch a gap" in worry for worry in list_warnings(description, windows))
    many = describe(tables({"a": {"load": list(range(0, 600, 9))}}), 15, windows)
    assert any("data.meters.max_gap and are left out" in w for w in list_warnings(many, windows))


@pytest.mark.parametrize("engine", ["fused", "stacked"])
def test_training_never_reads_a_gap(engine: str) -> None:
    """Whatever stands in the gap, the models and their scores have the same bits."""
    study = tiny.study(compute={"engine": engine})
    dataset = build(tables({"a": GAPS["a"], "b": GAPS["b"], "c": {}}), study.windows)
    cell = study.cells[0]
    results = []
    for put in (np.nan, 1e9):
        # What can be read is found out before the gap gets other content.
        filled = replace(dataset, features=np.nan_to_num(dataset.features, nan=put))
        filled.__dict__["is_readable"] = dataset.is_readable
        results.append(train(study, [cell], filled)[cell])
    first, second = results
    pd.testing.assert_frame_equal(first.records, second.records, check_exact=True)
    scores = first.records.query("split != 'train'")[["mae", "rmse", "mase"]]
    assert np.isfinite(scores.to_numpy()).all()
