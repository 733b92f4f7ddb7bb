"""`data.meters.exports`: a study reads raw exports."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import ConfigError, DataError
from plfl.base.files import sha256
from plfl.config.meters import Meters
from plfl.data import meters, sources
from plfl.study import Study
from tests.helpers.meter_files import read_meter
from tests.helpers.refusals import naming
from tests.helpers.repository import ROOT

ROWS = 24 * 40
KEYS = {"timezone": "UTC", "interval": 60}


def raw(**columns: Any) -> pd.DataFrame:
    """Hourly readings of `b 1` and `a/2`, and further columns."""
    draw = np.random.default_rng(0)
    stamps = pd.date_range("2020-02-01 01:00", periods=ROWS, freq="h").strftime("%Y-%m-%d %H:%M")
    loads = {name: draw.uniform(1, 2, ROWS).round(3) for name in ("b 1", "a/2")}
    return pd.DataFrame({"when": stamps, **loads, **columns})


def study(*exports: Path, clients: int = 2, **keys: Any) -> Study:
    data: dict[str, Any] = {"source": "meters", "states": ["all"], "clients": clients}
    if features := keys.pop("features", None):
        data["features"] = features
    data["meters"] = {"exports": list(map(str, exports))} | KEYS | keys
    return Study.parse({"data": data, "windows": {"scaling": "per_client"}}, "test")


def test_the_receipt_lists_the_exports_and_the_weather(tmp_path: Path) -> None:
    raw().to_csv(path := tmp_path / "all.csv", index=False)
    raw().assign(Ta=1).to_csv(weather := tmp_path / "weather.csv", index=False)
    data = study(path, weather=str(weather), columns={"temperature": "Ta"}).data
    receipt = sources.source_of(data).fetch(data, "all")
    assert receipt["files"] == {str(file): sha256(file) for file in (path, weather)}


def test_a_key_set_to_its_default_makes_other_data() -> None:
    """A format says what no key says: the default of a key overrules it."""
    sample = ROOT / "plfl/data/meters/formats/nem12.sample.csv"
    plain, *others = (
        study(sample, clients=1, **keys) for keys in ({}, {"stamp": "end"}, {"cumulative": False})
    )
    settings = [sources.source_of(s.data).settings(s.data, "all") for s in (plain, *others)]
    assert settings[0] not in settings[1:]


def test_states_can_share_an_export(tmp_path: Path) -> None:
    table = raw(**{"a/3": raw()["b 1"]})
    table.to_csv(path := tmp_path / "all.csv", index=False)
    keys = {"exports": [str(path)], "only": ["{state}*"], **KEYS}
    data = {"source": "meters", "states": ["a", "b"], "clients": 1, "meters": keys}
    found = Study.parse({"data": data}, "test").data
    assert list(meters.clients(found, "a")) == ["a-2"]
    assert list(meters.clients(found, "b")) == ["b 1"]
    more = Study.parse({"data": data | {"clients": {"a": 2, "b": 1}}}, "test").data
    assert [list(meters.clients(more, state)) for state in "ab"] == [["a-2", "a-3"], ["b 1"]]
    zones = keys | {"timezones": {"b*": "Asia/Tokyo"}}  # no meter of the state a
    zoned = Study.parse({"data": data | {"meters": zones}}, "test").data
    assert [list(meters.clients(zoned, state)) for state in "ab"] == [["a-2"], ["b 1"]]
    del data["meters"]["only"]
    with naming(ConfigError, "2 states"):
        Study.parse({"data": data}, "test")
    keys["exports"] = [str(tmp_path / "{state}.csv")]
    table.to_csv(tmp_path / "a.csv", index=False)
    found = Study.parse({"data": data}, "test").data
    assert meters.files(found, "a") == [tmp_path / "a.csv"]


def test_states_can_have_files_and_stamps_of_their_own(tmp_path: Path) -> None:
    raw().to_csv(one := tmp_path / "one.csv", index=False)
    raw().to_csv(other := tmp_path / "other.csv", index=False)
    marks = {"a": "end", "b": "start"}
    keys = {"exports": {"a": [str(one)], "b": [str(other)]}, "stamp": marks, **KEYS}
    data = {"source": "meters", "states": ["a", "b"], "clients": 2, "meters": keys}
    found = Study.parse({"data": data}, "test").data
    assert [meters.files(found, state) for state in "ab"] == [[one], [other]]
    first, second = (meters.read(found, state)["b 1"]["load"] for state in "ab")
    np.testing.assert_array_equal(first, second)
    assert second.index[0] - first.index[0] == pd.Timedelta(hours=1)
    settings = [sources.source_of(found).settings(found, state) for state in "ab"]
    assert [s["meters"]["stamp"] for s in settings] == ["end", "start"]
    data["meters"] = keys | {"stamp": {"a": "end", "b": "end"}}
    changed = Study.parse({"data": data}, "test").data
    again = [sources.source_of(changed).settings(changed, state) for state in "ab"]
    assert [s == t for s, t in zip(settings, again, strict=True)] == [True, False]
    for key, lacking in (("exports", {"a": [str(one)]}), ("stamp", {"a": "end", "c": "start"})):
        with naming(ConfigError, f"meters.{key}", "data.states has a, b; give a value for each"):
            Study.parse({"data": data | {"meters": keys | {key: lacking}}}, "test")
    with naming(ConfigError, "data.meters.cumulative", "data.meters.stamp: end"):
        Study.parse({"data": data | {"meters": keys | {"cumulative": True}}}, "test")


def test_a_meter_is_read_from_a_later_export(tmp_path: Path) -> None:
    """The choice of meters and times is that of the training."""
    raw().to_csv(path := tmp_path / "all.csv", index=False)
    keys = study(path, until="2020-02-20", only=["b*"], clients=1).data.meters
    found = read_meter(path, keys, "a-2")
    np.testing.assert_array_equal(found["load"], raw()["a/2"])
    with naming(DataError, "'b2'", "'b 1'", "'a/2'"):
        read_meter(path, keys, "b2")
    raw()[["when", "b 1"]].to_csv(later := tmp_path / "later.csv", index=False)
    assert len(read_meter(later, keys, "anyone")) == ROWS


def test_each_file_is_read_in_the_unit_that_it_states(tmp_path: Path) -> None:
    raw().to_csv(path := tmp_path / "all.csv", index=False)
    power = raw().rename(columns=lambda name: f"{name} [W]" if name != "when" else name)
    power.to_csv(later := tmp_path / "later.csv", index=False)
    for unit, expected in ((None, 1000.0), ("kWh", 1.0)):
        keys = study(path, unit=unit).data.meters
        found = read_meter(later, keys, "a-2")["load"] * expected
        np.testing.assert_allclose(found, raw()["a/2"], rtol=1e-12)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"columns": {"rain": "mm"}, "features": ["load", "rain"]}, "data.meters.columns.rain)"),
        ({"leave_out": ["*"]}, "data.meters.leave_out"),
        ({"clients": 3}, "all has 2 of 3 meters (data.clients)"),
        ({"missing": [1.5]}, "data.meters.allow_negative: true, data.meters.missing: [-1]"),
    ],
)
def test_a_message_names_the_keys(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    table = raw()
    table.loc[9, "b 1"] = -1
    table.to_csv(path := tmp_path / "all.csv", index=False)
    if "missing" not in keys:
        keys = {"missing": [-1], **keys}
    with naming(DataError, message) as caught:
        meters.read(study(path, **keys).data, "all")
    assert "--" not in str(caught.value)


def test_an_export_that_does_not_exist(tmp_path: Path) -> None:
    data = study(tmp_path / "none.csv").data
    with naming(DataError, "none.csv", "data.meters.exports"):
        sources.source_of(data).own_files(data, "all")


@pytest.mark.parametrize("names", [("b", "a"), ("a", "b")])
def test_where_files_overlap_the_one_that_ends_last_counts(
    names: tuple[str, str], tmp_path: Path
) -> None:
    """Of two that end at the same time, the one that was written last."""
    early, late = (tmp_path / name / "home.csv" for name in names)
    for file in (early, late):
        file.parent.mkdir()
    table = raw()[["when", "b 1"]].set_axis(["when", "load"], axis=1)
    table[:-10].to_csv(early, index=False)
    table.assign(load=table["load"] + 5).to_csv(late, index=False)
    for rule, added in (("last", 5), ("first", 0)):
        keys = Meters(timezone="UTC", interval=60, duplicates=rule)
        load = meters.read_files(sorted([early, late]), keys, "home")[0]["home"]["load"]
        np.testing.assert_allclose(load[:-10], table["load"][:-10] + added)
    table.to_csv(early, index=False)
    for is_early_newest in (False, True):
        os.utime(early, (1e9 + is_early_newest, 1e9 + is_early_newest))
        os.utime(late, (1e9 + 0.5, 1e9 + 0.5))
        keys = Meters(timezone="UTC", interval=60)
        load = meters.read_files(sorted([early, late]), keys, "home")[0]["home"]["load"]
        np.testing.assert_allclose(load, table["load"] + 5 * (not is_early_newest))
