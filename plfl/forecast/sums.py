"""The sum of meters beside each of them: that of a feeder, a campus or an energy community."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from plfl.base.errors import DataError, Problem
from plfl.data.meters.stamps import standard_offset
from plfl.forecast.backtest import FORECASTS, score_pairs

SUM = "sum"
"""The name of the sum among those of the meters."""


def check_members(names: Sequence[str]) -> None:
    """Refuse a sum of one meter, or beside a meter of its name, with a DataError."""
    if len(names) < 2:
        raise DataError(
            Problem("--sum", f"needs several meters, but only {''.join(names)!r} is there")
        )
    if SUM in names:
        raise DataError(Problem("--sum", f"a meter has the name {SUM!r}", "rename it in its file"))


def on_one_clock(
    tables: Mapping[str, pd.DataFrame], zones: Mapping[str, ZoneInfo | None]
) -> dict[str, pd.DataFrame]:
    """Tables of meters whose times, the index and `made_at`, are naive standard time of their
    zones, with times of the zone of the first one. Those without a zone stay."""
    clocks = {name: standard_offset(zone) for name, zone in zones.items() if zone is not None}
    shifts = {name: next(iter(clocks.values())) - clock for name, clock in clocks.items()}
    return {
        name: table.assign(
            **{column: table[column] + shifts[name] for column in table if column == "made_at"}
        ).set_axis(table.index + shifts[name])
        if shifts.get(name)
        else table
        for name, table in tables.items()
    }


def score_sum(
    pairs: Mapping[str, pd.DataFrame], zones: Mapping[str, ZoneInfo | None]
) -> dict[str, Any]:
    """The errors of the sum of the meters' forecasts. `pairs`: of each meter, as
    `plfl.forecast.backtest.pairs` returns them. `zones`: of each meter; the times of the first and
    the last error are of the first one's."""
    table = add_up(on_one_clock(pairs, zones), ["truth", *FORECASTS])
    zone = next(iter(zones.values()))
    return score_pairs(table.dropna(subset=["last", "naive_day"]), zone)


def add_up(tables: Mapping[str, pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    """The sum of columns of meters, in rows that all of them have.

    A row is a time (the index); if a table has a time more than once, a time and the `made_at` of
    its forecast. `made_at`, if the tables have it, is the latest of those that are added: the time
    of the last reading that any of them uses. Quantiles have no sum and must not be among the
    columns.

    Raises:
        DataError: the meters have no row in common.
    """
    is_repeated = any(table.index.has_duplicates for table in tables.values())
    has_origin = all("made_at" in table for table in tables.values())
    keyed = [
        table.set_index("made_at", append=True) if is_repeated else table
        for table in tables.values()
    ]
    common = reduce(pd.Index.intersection, [table.index for table in keyed]).sort_values()
    if common.empty:
        raise DataError(
            Problem(
                SUM, f"{', '.join(tables)} have no time in common", "give readings of the same span"
            )
        )
    parts = [table.loc[common] for table in keyed]
    total: pd.DataFrame = sum((part[[*columns]] for part in parts[1:]), parts[0][[*columns]])
    if is_repeated:
        return total.reset_index("made_at")
    if has_origin:
        origins = pd.concat([part["made_at"] for part in parts], axis=1)
        total = total.assign(made_at=origins.max(axis=1))
    return total
