"""A public model that is written without plfl: examples/public_model.py."""

import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.public.inputs import CONTEXT, HOURS_PER_WEEK, HourlyLoads, inputs_of
from plfl.public.training import TreeSizes, fit, gather

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "public_model.py"
ORIGIN = pd.Timestamp("2024-02-10")


def table(meters: int, seed: int) -> pd.DataFrame:
    """Hourly loads with a daily cycle, by the beginnings of the hours; one has a gap."""
    hours = pd.date_range("2024-01-01", periods=60 * 24, freq="1h")
    random = np.random.default_rng(seed)
    cycle = 1 + 0.8 * np.sin(2 * np.pi * hours.hour.to_numpy() / 24)[:, None]
    loads = cycle * random.gamma(4.0, 0.1, (len(hours), meters))
    loads[300:330, 0] = np.nan
    return pd.DataFrame(loads, hours, [f"{seed}-{meter}" for meter in range(meters)])


def meters(loads: pd.DataFrame) -> list[HourlyLoads]:
    ends = loads.index.to_numpy("datetime64[s]") + np.timedelta64(3600, "s")
    return [HourlyLoads.ending_at(ends, column) for column in loads.to_numpy().T]


def test_it_has_the_error_of_plfl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    public, judged = table(3, 1), table(2, 2)
    files = [tmp_path / "public.parquet", tmp_path / "judged.parquet"]
    for loads, file in zip((public, judged), files, strict=True):
        loads.to_parquet(file)
    monkeypatch.setattr("sys.argv", ["public_model.py", *map(str, files), str(ORIGIN)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = re.fullmatch(r"(\d+) tests: (\d\.\d{4})\n", capsys.readouterr().out)
    assert printed

    features, targets = gather(meters(public), "hour", 400_000 // 3)
    model = fit(features, targets, TreeSizes(300, 63))
    begin = int(judged.index.searchsorted(ORIGIN))
    last = np.arange(begin - 1, min(begin + CONTEXT, len(judged)) - 1)
    errors = []
    for one in meters(judged):
        inputs = inputs_of(one, "hour", last, np.ones_like(last), begin - HOURS_PER_WEEK)
        forecast = inputs.loads_of_outputs(np.asarray(model.predict(inputs.features)))
        truth = one.load[last + 1]
        errors.append(np.abs(forecast - truth).mean() / np.abs(one.load[last] - truth).mean())
    assert int(printed[1]) == 2
    assert float(printed[2]) == pytest.approx(np.mean(errors), abs=2e-3)
    assert np.mean(errors) < 0.8
