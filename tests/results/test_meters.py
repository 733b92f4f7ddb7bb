"""Gains of clients, rebuilt from errors by day, beside scipy's paired t interval."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plfl.baselines import BASELINE
from plfl.report.answer import answer
from plfl.results.findings import findings
from plfl.results.meters import ALONE, BOOSTING, FEDERATION, MONTH, choices, meters
from plfl.results.tables import Tables
from tests.helpers.constructed import config
from tests.helpers.fake_results import write

WINS = {"P1": 0.5, "P2": 0.3, "P3": 0.6}
LOSES = {"P1": 0.9, "P2": 0.8, "P3": 0.2}


def study(folder: Path, levels: dict[str, float], clients: int = 4) -> Tables:
    """Results with these levels; the last client has no scale."""
    return write(
        folder,
        config(data={"states": ["CA"], "clients": clients}, grid={"client_opt": ["adam"]}),
        lambda cell, *_: levels[cell["sharing"]],
        baseline=lambda name: 0.4 if name == "lightgbm_lags" else 2.0,
        constant=clients - 1,
    )


def weekly(tables: Tables, client: str, **labels: str) -> Any:
    table = tables.errors(["client", "day", "error", "forecasts"], client=client, **labels)
    by_day = table.groupby("day")[["error", "forecasts"]].sum()
    by_week = by_day.groupby(np.arange(len(by_day)) // 7).sum()
    return by_week["error"] / by_week["forecasts"]


def test_gains_and_their_intervals(tmp_path: Path) -> None:
    tables = study(tmp_path, WINS)
    (choice,) = choices(tables)
    names = {kind: one.axes for kind, one in choice.best.items()}
    assert names[FEDERATION][0] == "P2"
    assert names[ALONE][0] == "P3"
    assert names[BOOSTING][1] == "lightgbm_lags"
    assert choice.rival == BOOSTING
    found = meters(tables, choice)
    error_of_persistence = tables.clients.set_index("client")["persistence_mae_test"]
    assert [one.client for one in found] == ["ca100", "ca137", "ca174"]  # the last: no scale
    for one in found:
        rival = weekly(tables, one.client, sharing=BASELINE, method="lightgbm_lags")
        ours = weekly(tables, one.client, sharing="P2", model="local")
        assert one.mase[FEDERATION] == pytest.approx(ours.mean())
        assert one.gain == pytest.approx(rival.mean() - ours.mean())
        interval = stats.ttest_rel(rival, ours).confidence_interval(0.95)
        assert (one.low, one.high) == pytest.approx((interval.low, interval.high))
        assert one.share == pytest.approx(one.gain / one.mase[BOOSTING])
        persistence = error_of_persistence[one.client]  # kWh per interval
        assert one.energy == pytest.approx(one.gain * persistence * 96 * MONTH)


def test_a_short_test_set_gives_no_interval(tmp_path: Path) -> None:
    tables = study(tmp_path, WINS)
    errors = pd.read_parquet(tmp_path / "errors.parquet")
    early = errors["day"] < errors["day"].min() + pd.Timedelta(weeks=3)
    errors[early].to_parquet(tmp_path / "errors.parquet")
    (choice,) = choices(tables)
    assert all(np.isnan(one.low) and one.answer == 0 for one in meters(tables, choice))


@pytest.mark.parametrize(("levels", "short", "sign"), [(WINS, "Yes.", 1), (LOSES, "No.", -1)])
def test_the_answer(levels: dict[str, float], short: str, sign: int, tmp_path: Path) -> None:
    tables = study(tmp_path, levels, clients=12)
    told = answer(tables, findings(tables))
    assert told is not None
    assert told.short == short
    (rows,) = told.states.values()
    assert [float(row.gain.split()[0]) * sign > 0 for row in rows] == [True] * 11
    assert [kind for kind, *_ in rows[0].dots] == [BOOSTING, ALONE, FEDERATION]
