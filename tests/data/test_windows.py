"""From series to windows: intervals, cuts, scaling, several targets, origins and histories."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plfl.base.errors import ConfigError, DataError
from plfl.config.windows import Windows
from plfl.data import arrays, dataset
from plfl.data.dataset import SPLITS, Dataset, source_table
from plfl.data.features import assemble, resample
from plfl.data.windows import build, number_federations
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.refusals import naming


def table(rows: int, start: float = 0.0, **columns: float) -> pd.DataFrame:
    stamps = pd.date_range("2018-01-01 00:15", periods=rows, freq="15min")
    load = start + np.arange(rows, dtype=float)
    return pd.DataFrame({"load": load, "temperature": 20 - load, **columns}, index=stamps)


def test_windows_of_the_paper() -> None:
    data = build({"a": table(1000), "b": table(500, 5.0)}, Windows())
    assert data.view.bounds.tolist() == [[0, 800, 900, 1000], [1000, 1400, 1450, 1500]]
    starts = data.starts(1, "test")
    assert starts[0] == 1450
    # Inputs t … t+11, target t+15, persistence t+11; the last target is the last row.
    assert data.target_rows(starts)[[0, -1]].tolist() == [1465, 1499]
    assert data.persistence_rows(starts)[0] == 1461
    assert data.load[data.target_rows(starts)[0]] == 5.0 + 465
    # Cuts are rounded: 132.8, 149.4. The 16 rows for validation are a single window.
    data = build({"a": table(166)}, Windows())
    assert data.view.bounds.tolist() == [[0, 133, 149, 166]]
    assert data.starts(0, "validation").tolist() == [133]


def test_windows_of_the_authors_program() -> None:
    """A year at 15 minutes, 5 rows ahead: 28,016 windows of the first 0.8 train, 6,992 of the last
    0.2 test. The last fifth of the training set is held out to choose on, and then trains, too."""
    windows = Windows(look_ahead=5, split=(0.8, 0, 0.2))
    held_out = build({"a": table(35040)}, windows)
    data = held_out.refit()
    assert data.view.bounds.tolist() == [[0, 28032, 28032, 35040]]
    assert [len(data.starts(0, split)) for split in ("train", "test")] == [28016, 6992]
    assert held_out.view.bounds[0, 1] == 28032 - 28032 // 5
    chosen_on = data.target_rows(held_out.starts(0, "validation"))
    assert chosen_on[[0, -1]].tolist() == [28032 - 28032 // 5, 28031]
    # It is the history of a study that begins its test set there.
    whole = build({"a": table(35040)}, Windows(look_ahead=5, split=(0.7, 0.1, 0.2), history=999))
    assert whole.view.bounds.tolist() == held_out.view.bounds.tolist()


@given(
    st.integers(60, 400),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from([(0.8, 0.1, 0.1), (0.5, 0.25, 0.25), (0.34, 0.33, 0.33)]),
)
def test_no_window_leaves_its_part(rows, look_back, look_ahead, split):
    windows = Windows(look_back=look_back, look_ahead=look_ahead, split=split)
    try:
        data = build({"a": table(rows), "b": table(rows + 7)}, windows)
    except DataError:
        assert min(split) * rows < look_back + look_ahead + 1
        return
    for client in range(2):
        for part, (first, end) in zip(
            SPLITS,
            np.lib.stride_tricks.sliding_window_view(data.view.bounds[client], 2),
            strict=True,
        ):
            starts = data.starts(client, part)
            assert starts[0] == first
            assert data.target_rows(starts)[-1] == end - 1


def test_scaling_uses_the_training_parts_of_all_or_of_each_client_and_nothing_else() -> None:
    data = build({"a": table(1000), "b": table(1000, 100.0)}, Windows())
    # Training loads are 0 … 799 and 100 … 899.
    np.testing.assert_array_equal(data.view.offset, [0, 0])
    np.testing.assert_array_equal(data.view.scale, [899, 899])
    assert data.features[0, 0] == 0
    assert data.features[1799, 0] == 1
    assert data.features[1999, 0] == pytest.approx(1099 / 899)
    data = build({"a": table(1000), "b": table(1000, 100.0)}, Windows(scaling="per_client"))
    np.testing.assert_array_equal(data.view.offset, [0, 100])
    np.testing.assert_array_equal(data.view.scale, [799, 799])


def test_a_constant_feature_becomes_one() -> None:
    data = build({"a": table(1000, floor_area=0.1)}, Windows())
    assert set(data.features[:, 2]) == {1.0}


def assert_equal(one: Dataset, other: Dataset) -> None:
    """The same fields, and the same of all views."""
    assert one.views.keys() == other.views.keys()
    pairs = [(one, other), *((one.views[name], other.views[name]) for name in other.views)]
    for one_part, other_part in pairs:
        for name, value in vars(other_part).items():
            if name not in ("views", "series_table"):
                np.testing.assert_array_equal(getattr(one_part, name), value)
    table, other_table = source_table(one), source_table(other)
    assert (table is None) == (other_table is None)
    if table is not None and other_table is not None:
        assert table.windows == other_table.windows
        for name in ("bounds", "offset", "scale"):
            np.testing.assert_array_equal(getattr(table, name), getattr(other_table, name))


def test_a_file_gives_back_the_dataset_and_is_the_same_bytes_again(tmp_path: Path) -> None:
    windows = Windows.model_validate({"target": "change", "covariates": [{"name": "level"}]})
    windows = windows.model_copy(update={"history": 1})
    data = build({"a": table(2000), "b": table(2000, 17.0)}, windows, new_weeks=1)
    assert [*data.views] == ["usual", "whole", "new"]
    data.save(tmp_path / "1.npz")
    data.save(tmp_path / "2.npz")
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()
    assert_equal(Dataset.load_file(tmp_path / "1.npz"), data)


def test_rows_may_stay_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"a": table(300), "b": table(400, 17.0)}
    whole, by_file = build(tables, Windows()), build(tables, Windows(), folder=tmp_path)
    assert isinstance(by_file.features.base, np.memmap)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(arrays, "FEWEST_MAPPED_BYTES", 1)
    by_file.save(tmp_path / "windows.npz")
    again = Dataset.load_file(tmp_path / "windows.npz")
    assert isinstance(again.load.base, np.memmap)
    assert again.load.flags.aligned
    assert_equal(by_file, whole)
    assert_equal(again, whole)
    content = bytearray((tmp_path / "windows.npz").read_bytes())
    content[content.index(again.load.tobytes()) + 9] ^= 1
    (tmp_path / "windows.npz").write_bytes(content)
    with naming(DataError, "load.npy has changed"):
        Dataset.load_file(tmp_path / "windows.npz")


@pytest.mark.parametrize("block", [11, 12, 400])
def test_gaps_are_found_in_blocks_of_rows(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = table(500)
    gaps.iloc[[3, 4, 40, 255, 256, 270], 0] = np.nan
    data = build({"a": gaps}, Windows())
    rows = np.isnan(data.features).any(axis=1)
    expected = [i >= 11 and not rows[i - 11 : i + 1].any() for i in range(500)]
    monkeypatch.setattr(dataset, "ROWS_PER_PASS", block)
    assert data.is_readable.tolist() == expected


@pytest.mark.parametrize(
    ("tables", "windows", "message"),
    [
        ({"a": table(150)}, Windows(), "client a: its validation set has 15 rows"),
        ({"a": table(500)}, Windows(look_back=60), "one window needs 64"),
        ({"a": table(500)}, Windows(split=(0.9, 0.09, 0.01)), "its test set has 5 rows"),
        ({"a": table(500)}, Windows(split=(0.99, 0, 0.01)), "its test set has 5 rows"),
        ({"a": table(500, area=1.0), "b": table(500)}, Windows(), "client b: has no area, but"),
        ({"a": table(500), "b": table(1000)[::2]}, Windows(), "intervals: 15 min (a), 30 min (b)"),
        ({"a": table(800)}, Windows(look_ahead=2, horizons=90), "windows.horizons"),
    ],
)
def test_what_cannot_be_windowed(tables, windows, message):
    with naming(DataError, message):
        build(tables, windows)


def test_a_history_ends_at_the_test_set_and_scales_by_all_of_itself() -> None:
    rows = 10 * 7 * 96
    full = build({"a": table(rows), "b": table(rows, 9.0)}, Windows())
    windows = Windows(history=2, scaling="per_client")
    short = build({"a": table(rows), "b": table(rows, 9.0)}, windows)
    week = 7 * 96
    cuts = [0, 2 * week - 2 * week // 5, 2 * week, 2 * week + rows // 10]
    assert (short.view.bounds[0] - short.view.bounds[0, 0]).tolist() == cuts
    for i in range(2):
        for one, other in ((short, full), (short.refit(), full)):
            np.testing.assert_array_equal(
                one.truth(one.starts(i, "test")), other.truth(other.starts(i, "test"))
            )
    history = short.load[: 2 * week]
    assert (short.view.offset[0], short.view.scale[0]) == (history.min(), np.ptp(history))


STAMPS = pd.date_range("2018-01-01 00:30", periods=12, freq="15min")
"""From the second quarter of an hour to the first of another."""
TABLE = pd.DataFrame({"load": np.arange(12.0), "temperature": 2 * np.arange(12.0)}, STAMPS)


def test_loads_are_added_up_and_other_readings_averaged():
    found = resample(TABLE, 60)
    # The readings up to 01:00 do not fill an hour, nor does the last one.
    assert found.index.tolist() == [*pd.date_range("2018-01-01 02:00", periods=2, freq="h")]
    assert found["load"].tolist() == [3 + 4 + 5 + 6, 7 + 8 + 9 + 10]
    assert found["temperature"].tolist() == [9, 17]
    table = assemble(found, ["load", "time_index"])
    assert table["time_index"].tolist() == [8, 12]


def test_half_hours_at_quarters_make_no_hours() -> None:
    halves = TABLE.set_axis(pd.date_range("2018-01-01 00:15", periods=12, freq="30min"))
    with naming(DataError, "readings that end at 00:15 make no intervals of 60 minutes"):
        resample(halves, 60)


def test_one_reading_makes_no_interval() -> None:
    assert resample(TABLE[:1], 60).empty


def test_an_interval_with_a_gap_has_no_value():
    holed = TABLE.copy()
    holed.iloc[4, 0] = np.nan
    found = resample(holed, 60)
    assert found["load"].isna().tolist() == [True, False]
    assert found["temperature"].tolist() == [9, 17]


# -- several targets -------------------------------------------------------------------------------

TABLES = tiny.tables(rows=800)


def windows_of_three_targets(**keys) -> Windows:
    return Windows.model_validate({"look_ahead": 2, "horizons": 3, **keys})


@pytest.mark.parametrize("target", ["load", "change"])
def test_targets_are_those_of_windows_with_one(target):
    """Each target is the load that many rows ahead, in the units of the dataset."""
    data = build(TABLES, windows_of_three_targets(target=target))
    starts = data.starts(1, "test")
    rows = starts[:, None] + 11 + np.array([2, 3, 4])
    assert (data.target_rows(starts) == rows).all()
    outputs = data.targets[data.persistence_rows(starts)].astype(float)
    np.testing.assert_allclose(data.in_kwh(1, starts, outputs), data.load[rows], rtol=1e-5)
    assert (data.persistence(starts) == data.load[rows[:, :1] - 2]).all()
    for h in range(3):
        one = data.select_target(h)
        assert (one.target_rows(starts) == rows[:, h]).all()
        alone = build(TABLES, windows_of_three_targets(target="load", horizons=1, look_ahead=2 + h))
        if target == "load":
            np.testing.assert_array_equal(one.targets, alone.targets)


def test_a_gap_in_any_target_leaves_the_window_out():
    tables = {name: table.copy() for name, table in TABLES.items()}
    tables["a"].iloc[300, 0] = np.nan
    whole, holed = (build(t, windows_of_three_targets()) for t in (TABLES, tables))
    lost = set(whole.starts(0, "train")) - set(holed.starts(0, "train"))
    # The row between the last input and the first target is not read.
    assert lost == set(range(300 - 11 - 4, 301)) - {300 - 11 - 1}


def test_lags_in_days_are_the_latest_known_at_that_time_of_day():
    w = windows_of_three_targets(
        look_back=6, horizons=30, covariates=[{"name": "lags", "days": [1], "around": 1}]
    )
    hourly = {
        name: t.set_axis(pd.date_range("2018", periods=len(t), freq="h"))
        for name, t in TABLES.items()
    }
    data = build(hourly, w)
    start = data.view.bounds[0, 0] + 100
    last = start + 5
    targets = [last + w.look_ahead + j for j in range(-1, 31)]
    known = [next(row for row in range(g - 24, 0, -24) if row <= last) for g in targets]
    scale = data.view.scale[0]
    wanted = (
        data.load[known] - (data.load[last] if data.relative else data.view.offset[0])
    ) / scale
    np.testing.assert_allclose(data.covariates[last], wanted, rtol=1e-5, atol=1e-6)


# -- origins and histories -------------------------------------------------------------------------

ORIGIN = date(2018, 3, 12)
HOURS = pd.date_range("2018-01-01 01:00", periods=24 * 110, freq="h")


def hourly(level: float = 0.0) -> pd.DataFrame:
    return pd.DataFrame({"load": level + np.arange(len(HOURS), dtype=float)}, HOURS)


@pytest.mark.parametrize(("weeks", "horizons"), [(1, 1), (1, 24), (4, 1), (None, 24)])
def test_windows_are_those_of_a_search_by_time(weeks: int | None, horizons: int) -> None:
    look_back, look_ahead = 24, 1
    windows = Windows(look_back=look_back, look_ahead=look_ahead, horizons=horizons, history=weeks)
    dataset = build({"a": hourly(), "b": hourly(9.0)}, windows, origin=ORIGIN)
    cut = pd.Timestamp(ORIGIN)
    first = HOURS[0] if weeks is None else cut - timedelta(weeks=weeks) + timedelta(hours=1)
    history = HOURS[(first <= HOURS) & (cut >= HOURS)]
    held = max(len(history) // 5, 24)
    chosen_from = history[-held]
    wanted: dict[str, list[pd.Timestamp]] = {"train": [], "validation": [], "test": [], "refit": []}
    for at in HOURS:  # the stamp of the first input
        inputs_end = at + timedelta(hours=look_back - 1)
        target = inputs_end + timedelta(hours=look_ahead)
        end = target + timedelta(hours=horizons - 1)
        if at >= first and end <= cut:
            wanted["refit"].append(at)
        if at >= first and end < chosen_from:
            wanted["train"].append(at)
        if at >= first and target >= chosen_from and end <= cut:
            wanted["validation"].append(at)
        if at > cut and end <= cut + timedelta(weeks=4):
            wanted["test"].append(at)
    for i in range(2):
        for split in ("train", "validation", "test"):
            found = dataset.stamps[dataset.starts(i, split)]
            assert pd.DatetimeIndex(found).tolist() == wanted[split], split
        again = dataset.refit()
        assert pd.DatetimeIndex(again.stamps[again.starts(i, "train")]).tolist() == wanted["refit"]


def test_a_series_that_does_not_reach_over_the_test_set_is_refused() -> None:
    for origin in (date(2018, 4, 10), date(2018, 1, 1)):
        with naming(DataError, "data.origins"):
            build({"a": hourly()}, Windows(), origin=origin)
    with naming(DataError, "windows.history"):
        build({"a": hourly()}, Windows(history=1, look_back=150), origin=ORIGIN)


def test_origins_are_an_axis() -> None:
    study = tiny.study(data={"origins": {"last": "2018-09-30", "count": 3, "step": 13}})
    days = "2018-04-01", "2018-07-01", "2018-09-30"
    assert list(study.variants) == [f"origins={day}" for day in days]
    assert [one.data.origin_date for one in study.variants.values()] == study.data.origin_dates
    both = tiny.study(
        data={"origins": ["2018-04-01", "2018-07-01"]}, grid={"windows.history": [1, 4]}
    )
    assert len(both.variants) == 4
    assert all(one.plan.retrains for one in both.variants.values())
    with naming(ConfigError, "data.origins"):
        Study.parse({"grid": {"data.origins": ["2018-04-01"]}}, "twice")


def test_a_state_is_divided_into_federations_of_a_size() -> None:
    names = [f"m{i}" for i in range(14)]
    found = number_federations(names, 4)
    assert sorted(np.bincount(found)) == [3, 3, 4, 4]
    backwards = number_federations(names[::-1], 4)[::-1]
    np.testing.assert_array_equal(found, backwards)
    assert len(np.unique(number_federations(names, 24))) == 1


def test_a_view_that_is_not_there_is_no_other_one() -> None:
    short = build({"a": table(2000)}, Windows(history=1))
    assert short.with_view("whole").view.bounds[0, 0] != short.view.bounds[0, 0]
    lacking = short.copy_on_rows(views={"usual": short.view})
    for name in ("whole", "new"):
        with naming(DataError, name, "--forcerun windows"):
            lacking.with_view(name)
    assert build({"a": table(2000)}, Windows()).with_view("whole").view_name == "usual"
