"""Readings that do not fit those of a study: another scale, another year, a gap."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem

DAY = pd.Timedelta(days=1)
LONGEST_GAP = pd.Timedelta(days=300)
"""A longer time without readings is more likely a wrong year than a rest: a file of up to two
months with the year after has a gap of this length."""
COMPARED_TIME = 28 * DAY
"""The last readings of the study, with whose scale new ones are compared."""
LOOK_BACK = 8 * DAY
"""The last readings that forecasts read, mostly: older faults do not matter."""
QUANTILES = (0.1, 0.5, 0.9)
SCALE_MULTIPLE = 5
"""Loads are on another scale if all quantiles are this multiple, or part, of the known ones."""
LARGEST_SPREAD = 1.6
"""The largest of these ratios is then at most this multiple of the least: heating and holidays
change the nights and the peaks by different factors, a wrong unit does not."""
UNIT_MULTIPLE = 4
"""kW of quarter hours that are taken for kWh, or the reverse: on another scale if all quantiles are
nearly this multiple, or part,"""
UNIT_SPREAD = 1.2
"""at most by this factor more or less."""
DOUBTED_MULTIPLE = 2
"""The same of half hours. Winter does that, too, so it is only told."""
PEAK_MULTIPLE = 2
"""Half of the loads of a day are no peak if they are above this multiple of the largest one."""
FAULT_MULTIPLE = 10
"""A load above this multiple of the largest one is a fault of the meter, or has another unit."""


def check_fit(client: str, load: pd.Series, known_load: pd.Series | None, highest: float) -> None:
    """Refuse loads of a client that do not fit those of the study.

    `load` and `known_load`, that of the study, are in kWh, indexed by the ends of intervals; NaN in
    gaps. `highest`: the largest load of the training, the only one that files of models have.

    Raises:
        DataError: the loads are on another scale, or more than `LONGEST_GAP` is without readings.
    """
    load = load.dropna()
    if load.empty:
        return  # `ForecastModel.predict` says so
    if known_load is None:
        _refuse_far_loads(client, load, highest)
        return
    known_load = known_load.dropna()
    _refuse_another_year(client, load, known_load)
    new_load = load[load.index > known_load.index[-1]]
    recent_load = known_load[known_load.index > _begin(known_load)]
    for part in (new_load, new_load[new_load.index > load.index[-1] - DAY]):
        _refuse_another_scale(client, part, recent_load)
    _refuse_far_loads(client, new_load, highest)


def gap_before(load: pd.Series, known_load: pd.Series) -> pd.Timedelta:
    """The longest time between two readings from the last one of the study on; how much earlier new
    ones end, as a negative number, if none is later."""
    last_known = known_load.dropna().index[-1]
    stamps = load.dropna().index
    new_stamps = stamps[stamps > last_known]
    if not len(new_stamps):
        return pd.Timedelta(stamps[-1] - last_known)
    return pd.Timedelta(pd.DatetimeIndex([last_known, *new_stamps]).to_series().diff().max())


def describe_gap(load: pd.Series, known_load: pd.Series, look_back: pd.Timedelta) -> str:
    """What there is to know about the time between the readings of the study and new ones, in
    words; empty if it is at most the `look_back` of a forecast."""
    gap = gap_before(load, known_load)
    if gap > look_back:
        return (
            f"{format_time(gap)} without readings since those of the study; forecasts read only "
            "what came after, and may have other errors than in the study"
        )
    if gap < pd.Timedelta(0):
        return (
            f"its readings end {format_time(-gap)} before those of the study, so these forecasts "
            "are for the past"
        )
    return ""


def format_time(time: pd.Timedelta) -> str:
    """A time in words: "12 days", "30 hours"."""
    return (
        f"{time / DAY:.0f} days" if time >= 2 * DAY else f"{time / pd.Timedelta(hours=1):.3g} hours"
    )


def _refuse_another_year(client: str, load: pd.Series, known_load: pd.Series) -> None:
    """Refuse readings that are all before those of the study, and those after a very long gap."""
    begin, end = known_load.index[0], known_load.index[-1]
    span = f"those of the study are from {begin:%Y-%m-%d} to {end:%Y-%m-%d}"
    remedy = "correct the year, or say --accept-misfits if it is right"
    if load.index[-1] < known_load.index[0]:
        text = f"its readings end on {load.index[-1]:%Y-%m-%d}, {span}"
        raise DataError(Problem(client, text, remedy, client, kind="another year"))
    gap = gap_before(load, known_load)
    if gap > LONGEST_GAP:
        text = (
            f"{gap.days} days without readings; the new ones end on {load.index[-1]:%Y-%m-%d}, "
            f"{span}"
        )
        raise DataError(Problem(client, text, remedy, client, kind="a long gap"))


def describe_scale(load: pd.Series, known_load: pd.Series) -> str:
    """That new loads are nearly twice those of the study, or half, in words; empty if not. Loads as
    in `check_fit`."""
    known_load = known_load.dropna()
    new_load = load[load.index > known_load.index[-1]].dropna()
    ratios = _scale_ratios(new_load, known_load[known_load.index > _begin(known_load)])
    if not _are_near(ratios, DOUBTED_MULTIPLE):
        return ""
    return (
        f"its new loads are about {'twice' if ratios.min() > 1 else 'half of'} those of the last "
        "four weeks of the study, in the night as in the peak: if that is another unit, such as kW "
        "of half hours, say it with --read-as"
    )


def _begin(known_load: pd.Series) -> pd.Timestamp:
    """Where the last loads of the study begin, with which new ones are compared."""
    return pd.Timestamp(known_load.index[-1] - COMPARED_TIME)


def _scale_ratios(load: pd.Series, known_load: pd.Series) -> NDArray[np.float64]:
    """The quantiles of a day or more of loads over those of known ones; empty if they cannot be
    compared."""
    if load.empty or load.index[-1] - load.index[0] < 0.9 * DAY:
        return np.empty(0)
    known_sizes, sizes = (
        known_load.quantile(QUANTILES).to_numpy(),
        load.quantile(QUANTILES).to_numpy(),
    )
    is_positive = known_sizes > 0
    ratios = sizes[is_positive] / known_sizes[is_positive]
    return ratios if len(ratios) > 1 and ratios.min() > 0 else np.empty(0)


def _are_near(ratios: NDArray[np.float64], multiple: float) -> bool:
    """Whether all ratios are nearly this multiple, or all nearly this part."""
    return len(ratios) == len(QUANTILES) and any(
        bool((ratios > factor / UNIT_SPREAD).all() and (ratios < factor * UNIT_SPREAD).all())
        for factor in (multiple, 1 / multiple)
    )


def _refuse_another_scale(client: str, load: pd.Series, known_load: pd.Series) -> None:
    """Refuse a day or more of loads that are on another scale than the known ones."""
    ratios = _scale_ratios(load, known_load)
    if not len(ratios) or ratios.max() > LARGEST_SPREAD * ratios.min():
        return
    factor = float(np.median(ratios))
    is_usual = 1 / SCALE_MULTIPLE < factor < SCALE_MULTIPLE
    if is_usual and not _are_near(ratios, UNIT_MULTIPLE):
        return
    size = f"{factor:,.0f} times" if factor > 1 else f"1/{1 / factor:.0f} of"
    text = (
        f"since {load.index[0]:%Y-%m-%d} its loads are about {size} those of the study, in the "
        f"night as in the peak (the median is {load.median():.4g} kWh, it was "
        f"{known_load.median():.4g}): another unit? Say it with --read-as, correct the file, or "
        "say --accept-misfits if they are right"
    )
    raise DataError(Problem(client, text, meter=client, kind="another scale"))


def _refuse_far_loads(client: str, load: pd.Series, highest: float) -> None:
    """Refuse loads far above the largest one of the training, or days of which half are above."""
    if load.empty or highest <= 0:
        return
    load = load[load.index > load.index[-1] - LOOK_BACK]
    last_day = load[load.index > load.index[-1] - DAY]
    if load.max() > FAULT_MULTIPLE * highest:
        part = load
    elif max(load.median(), last_day.median()) > PEAK_MULTIPLE * highest:
        part = last_day
    else:
        return
    text = (
        f"{part.max():.4g} kWh at {part.index[int(part.argmax())]} is far above all loads of its "
        f"training data, up to {highest:.4g} kWh"
    )
    remedy = (
        "if it is a fault, --max-jump makes it a gap; if the unit is another one, say it with "
        "--read-as; if it is right, say --accept-misfits"
    )
    raise DataError(Problem(client, text, remedy, client, kind="far above all loads"))
