"""Windows with several targets."""

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import ConfigError, DataError
from plfl.config.sections import Windows
from plfl.config.study import Study
from plfl.data.windows import build
from tests.helpers import tiny
from tests.helpers.refusals import naming

TABLES = tiny.tables(rows=800)


def windows(**keys) -> Windows:
    return Windows.model_validate({"look_ahead": 2, "horizons": 3, **keys})


@pytest.mark.parametrize("target", ["load", "change"])
def test_targets_are_those_of_windows_with_one(target):
    """Each target is the load that many rows ahead, in the units of the dataset."""
    data = build(TABLES, windows(target=target))
    starts = data.starts(1, "test")
    rows = starts[:, None] + 11 + np.array([2, 3, 4])
    assert (data.target_rows(starts) == rows).all()
    outputs = data.targets[data.persistence_rows(starts)].astype(float)
    np.testing.assert_allclose(data.in_kwh(1, starts, outputs), data.load[rows], rtol=1e-5)
    assert (data.persistence(starts) == data.load[rows[:, :1] - 2]).all()
    for h in range(3):
        one = data.at(h)
        assert (one.target_rows(starts) == rows[:, h]).all()
        alone = build(TABLES, windows(target="load", horizons=1, look_ahead=2 + h))
        if target == "load":
            np.testing.assert_array_equal(one.targets, alone.targets)


def test_a_gap_in_any_target_leaves_the_window_out():
    tables = {name: table.copy() for name, table in TABLES.items()}
    tables["a"].iloc[300, 0] = np.nan
    whole, holed = (build(t, windows()) for t in (TABLES, tables))
    lost = set(whole.starts(0, "train")) - set(holed.starts(0, "train"))
    # The row between the last input and the first target is not read.
    assert lost == set(range(300 - 11 - 4, 301)) - {300 - 11 - 1}


def test_the_context_is_of_every_target():
    context = [
        {"name": "lags", "days": [1], "around": 1},
        {"name": "ahead", "features": ["temperature"]},
        {"name": "calendar", "harmonics": 1, "weekday": False},
    ]
    data = build(TABLES, windows(context=context))
    assert data.context.shape[1] == windows(context=context).context_width == 5 + 3 + 2
    row = 400
    scaled = data.features[:, 0]
    np.testing.assert_allclose(
        data.context[row, :5], scaled[row + 2 - 96 - 1 : row + 4 - 96 + 2], rtol=1e-6
    )
    np.testing.assert_array_equal(data.context[row, 5:8], data.features[row + 2 : row + 5, 1])


def test_the_week_to_look_at_goes_from_window_to_window():
    data = build(TABLES, windows(look_ahead=1, horizons=4))
    starts = data.first_week(0)
    assert (np.diff(starts) == 4).all()
    made_at = data.stamps[data.persistence_rows(starts)]
    assert made_at[0] == made_at[0].astype("datetime64[D]")
    assert len(set(data.target_rows(starts).ravel())) == starts.size * 4


def test_a_part_shorter_than_its_targets_is_an_error():
    with naming(DataError, "look_ahead", "windows.horizons", "90"):
        build(TABLES, windows(horizons=90))


def test_lags_in_rows_after_the_last_input_row_are_an_error():
    raw = {"windows": {"horizons": 96, "context": [{"name": "lags", "days": [], "rows": [96]}]}}
    with naming(ConfigError, "101"):
        Study.parse(raw, "study.yaml")


def test_lags_in_days_are_the_latest_known_at_that_time_of_day():
    w = windows(look_back=6, horizons=30, context=[{"name": "lags", "days": [1], "around": 1}])
    hourly = {
        name: t.set_axis(pd.date_range("2018", periods=len(t), freq="h"))
        for name, t in TABLES.items()
    }
    data = build(hourly, w)
    start = data.bounds[0, 0] + 100
    last = start + 5
    targets = [last + w.look_ahead + j for j in range(-1, 31)]
    known = [next(row for row in range(g - 24, 0, -24) if row <= last) for g in targets]
    scale = data.load_scale[0]
    wanted = (
        data.load[known] - (data.load[last] if data.relative else data.load_offset[0])
    ) / scale
    np.testing.assert_allclose(data.context[last], wanted, rtol=1e-5, atol=1e-6)
