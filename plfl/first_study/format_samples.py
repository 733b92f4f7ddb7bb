"""Reads the samples of formats of exports, and compares them with what their formats expect."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from plfl.base.errors import DataError, Problem
from plfl.config.meters import Meters
from plfl.data.meters.formats.schema import FORMATS_FOLDER, FormatSample, load_format
from plfl.first_study.meters import recognise


@dataclass(frozen=True)
class SampleReading:
    """A sample of a format, and what was read from it."""

    path: Path
    words: str
    """The form of the file, in words."""
    kwh: dict[str, float]
    """The sum of the loads in kWh by meter."""
    rows: int
    """Intervals of the longest meter."""
    differences: list[str]
    """What differs from what the format expects, in words; empty if nothing does."""


def read_samples(name: str) -> Iterator[SampleReading]:
    """The samples of a format, given its name or its file, whose samples are in the same folder.

    A shipped format must be recognised without being named; a file of one's own is named.

    Raises:
        DataError: there is no such format or sample, or a sample cannot be read.
    """
    form, is_own = load_format(name), name.endswith(".toml")
    if not form.sample:
        raise DataError(
            Problem(
                name,
                "has no [[sample]]",
                "add one with file, minutes, first, rows and kwh (docs/own-data.md)",
            )
        )
    for sample in form.sample:
        yield _read(name, is_own, sample)


def check_own_samples(name: str | None) -> None:
    """Refuse a format in a file of one's own whose samples are not read as it says."""
    if name is None or not name.endswith(".toml") or not load_format(name).sample:
        return
    differences = [line for sample in read_samples(name) for line in sample.differences]
    if differences:
        raise DataError(
            Problem(
                name,
                f"its sample is read otherwise: {'; '.join(differences)}",
                f"correct one of them (plfl data formats {name} shows both)",
            )
        )


def _read(name: str, is_own: bool, sample: FormatSample) -> SampleReading:
    path = (Path(name).parent if is_own else FORMATS_FOLDER) / sample.file
    keys = {"timezone": sample.timezone, "format": name if is_own else None}
    settings = Meters.model_validate({key: v for key, v in keys.items() if v is not None})
    exports, _ = recognise([path], settings)
    loads = {meter: series.load for meter, series in exports.meters.items()}
    kwh = {meter: float(load.sum()) for meter, load in loads.items()}
    expected_kwh = sample.kwh
    if not isinstance(expected_kwh, dict):
        expected_kwh = dict.fromkeys(loads if len(loads) == 1 else ["(one meter)"], expected_kwh)
    rows = max(map(len, loads.values()))
    found_and_expected = {
        "format": (exports.forms[path].name, name),
        "meters": (sorted(kwh), sorted(expected_kwh)),
        "minutes": ({m.minutes for m in exports.meters.values()}, {sample.minutes}),
        "first": (min(load.index[0] for load in loads.values()), pd.Timestamp(sample.first)),
        "rows": (rows, sample.rows),
        "missing": (sum(int(load.isna().sum()) for load in loads.values()), sample.missing),
    }
    differences = [
        f"{key}: {read_value}, but the format expects {expected}"
        for key, (read_value, expected) in found_and_expected.items()
        if read_value != expected
    ]
    differences += [
        f"kwh of {meter}: {kwh[meter]:g}, but the format expects {expected:g}"
        for meter, expected in expected_kwh.items()
        if meter in kwh and not np.isclose(kwh[meter], expected, rtol=1e-6, atol=1e-12)
    ]
    words = exports.forms[path].words
    differences += [
        f"left_out: {kind!r} was not left out"
        for kind in sample.left_out
        if kind not in words.partition("left out: ")[2]
    ]
    return SampleReading(path, words, kwh, rows, differences)
