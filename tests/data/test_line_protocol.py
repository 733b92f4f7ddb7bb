"""Lines in the protocol of InfluxDB are rows of a table, as its tools write them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.config.meters import Meters
from plfl.data.meters.exports import Exports
from plfl.data.meters.line_protocol import is_protocol, read_lines
from plfl.first_study.meters import recognise
from tests.helpers.refusals import naming

HOURS = pd.date_range("2024-01-01", periods=24 * 20, freq="h", tz="UTC")
LOADS = np.random.default_rng(0).uniform(1, 2, len(HOURS)).round(3)


def read(path: Path, **keys: Any) -> Exports:
    return recognise([path], Meters.model_validate({"timezone": "UTC", **keys}), kind="homes")[0]


def test_fields_with_units_are_the_loads_of_the_meters_in_tags(tmp_path: Path) -> None:
    lines = ["# electricity of two flats"]
    for time, load in zip(HOURS, LOADS, strict=True):
        for meter, factor in (("left", 1), ("right", 2)):
            fields = f"energy_kwh={factor * load:.3f},price=0.21,row=7i"
            lines.append(f"power,meter={meter} {fields} {time.value}")
    (path := tmp_path / "a.lp").write_text("\n".join(lines))
    exports = read(path)
    assert [*exports.meters] == ["left", "right"]
    for meter, factor in (("left", 1), ("right", 2)):
        np.testing.assert_allclose(exports.meters[meter].load, factor * LOADS, atol=2e-3)
    assert "line protocol of InfluxDB" in exports.report()[0]


def test_a_measurement_of_home_assistant_names_the_unit(tmp_path: Path) -> None:
    """Its states of a counter that never decreases are a register in kWh."""
    name = 'name_str="Meter 1, total"'
    lines = [
        f"kWh,domain=sensor,entity_id=meter value={state:.3f},{name} {time.value}"
        for time, state in zip(HOURS, 1000 + LOADS.cumsum(), strict=True)
    ]
    (path := tmp_path / "a.txt").write_text("\n".join(lines))
    (meter,) = read(path).meters.values()
    np.testing.assert_allclose(meter.load, LOADS[1:], atol=2e-3)
    assert meter.load.index[0] == HOURS[1]


def test_escapes_texts_and_types_are_those_of_the_protocol(tmp_path: Path) -> None:
    lines = [
        "",
        r'my\ meter,city=New\ York,a\=b=c value=-1.5e2,count=12i,note="say \"hi\", x=1" 1700000000',
        "other value=t 1700003600000",
    ]
    table = read_lines(tmp_path, lines)
    assert table.loc[2].to_dict() == {
        "time": "1700000000",
        "measurement": "my meter",
        "city": "New York",
        "a=b": "c",
        "value": "-1.5e2",
        "count": "12",
        "note": 'say "hi", x=1',
    }
    assert table.loc[3, ["time", "value", "city"]].tolist() == ["1700003600000", "t", ""]


def test_a_line_without_time_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "a.lp").write_text("m v=1 1700000000\nm v=2\n")
    with naming(DataError, "a.lp: line 2 is no `measurement,tags fields time`", "remove it"):
        read(path)


@pytest.mark.parametrize("line", ["time,load", "2024-01-01 00:00 1.5 7", "a=1 1700000000", "a,b c"])
def test_other_texts_are_none_of_the_protocol(line: str) -> None:
    assert not is_protocol([line])
