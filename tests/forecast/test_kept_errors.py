"""Errors of kept forecasters by lead time and of the sum, against sums over the readings."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.forecast.choice import Forecasters
from plfl.forecast.kept_errors import LEADS, SUMS, errors_of_kept
from plfl.report.kept_errors import by_lead, sum_rows
from tests.helpers.kept_baselines import write_results
from tests.helpers.meter_models import MLP, make_study, write_readings


@pytest.fixture
def folder() -> Path:
    """Results that keep the load of a day before, of three meters and four lead times."""
    write_readings(96 * 30)
    windows = {"look_ahead": 1, "horizons": 4, "scaling": "per_client", "target": "change"}
    study = make_study(windows=windows, baselines={"trees": 2}, model=MLP)
    return write_results(study, "naive_day")


def test_errors_are_those_of_the_readings(folder: Path) -> None:
    leads, sums = errors_of_kept(folder, {"XX": folder / "data" / "XX.npz"})
    assert list(leads) == [*LEADS] and list(sums) == [*SUMS]
    forecasters = Forecasters(folder)
    known = forecasters.any_model.scalings
    loads = pd.DataFrame({name: t["load"] for name, t in forecasters.readings.items()})
    after = pd.Timestamp(known["a"].known)
    tested = loads[loads.index > after]
    before = loads.shift(96).loc[tested.index]
    shares = (tested - before).abs().sum() / tested.sum()
    assert leads["minutes"].tolist() == [15, 30, 45, 60]
    assert (leads["meters"] == 3).all() and (leads["forecaster"] == "naive_day").all()
    np.testing.assert_allclose(leads["percent_of_load"], 100 * shares.mean(), rtol=0.02)
    np.testing.assert_allclose(leads["percent_of_load"], leads["naive_day"])
    (total,) = sums.to_dict("records")
    error = (tested.sum(axis=1) - before.sum(axis=1)).abs().mean()
    assert total["mae"] == pytest.approx(error, rel=0.02)
    assert total["meters"] == 3 and total["percent_of_load"] <= leads["percent_of_load"].max()


def test_the_page_shows_them(folder: Path) -> None:
    for name, table in zip(
        ("lead_times", "sums"),
        errors_of_kept(folder, {"XX": folder / "data" / "XX.npz"}),
        strict=True,
    ):
        table.to_csv(folder / "models" / f"{name}.csv", index=False)
    shown = by_lead(folder)
    assert [lead.replace("\N{NO-BREAK SPACE}", " ") for lead in shown["leads"]] == [
        *("15 min", "30 min", "45 min", "1 h")
    ]
    (row,) = shown["rows"]  # the load of a day before is not shown twice
    assert row["forecaster"] == "Seasonal naive (day)" and len(row["errors"]) == 4
    (total,) = sum_rows(folder)
    assert total["percent"] == total["day"]
    assert total["peak"].endswith("h")
    assert by_lead(folder / "nowhere") == {} and sum_rows(folder / "nowhere") == []


def test_of_a_day_a_few_lead_times_are_shown(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    minutes = np.arange(1, 25) * 60
    rows = pd.DataFrame({"state": "A", "forecaster": "P2", "minutes": minutes, "meters": 2})
    rows = rows.assign(percent_of_load=minutes / 60, naive_day=30.0)
    rows.to_csv(tmp_path / "models" / "lead_times.csv", index=False)
    shown = by_lead(tmp_path)
    assert [text.split("\N{NO-BREAK SPACE}")[0] for text in shown["leads"]] == [
        *("1", "4", "8", "11", "14", "17", "21", "24")
    ]
    own, day = shown["rows"]
    assert [error.split("\N{NO-BREAK SPACE}")[0] for error in own["errors"]][-1] == "24.0"
    assert day["forecaster"] == "Seasonal naive (day)" and len(set(day["errors"])) == 1
