"""Readings that do not fit those of a study: another scale, another year, a gap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem
from plfl.base.text import format_span

ToLocalTime = Callable[[pd.Timestamp, str], pd.Timestamp]
"""`MeterFiles.local_time`."""
ONE_DAY = pd.Timedelta(days=1)
LONGEST_GAP = pd.Timedelta(days=300)
"""A longer time without readings is more likely a wrong year than a rest: a file of up to two
months with the year after has a gap of this length."""
COMPARED_TIME = 28 * ONE_DAY
"""The last known readings, with whose scale new ones are compared."""
LOOK_BACK = 8 * ONE_DAY
"""The last readings that forecasts read, mostly: older faults do not matter."""
QUANTILES = (0.1, 0.5, 0.9)
SCALE_MULTIPLE = 5
"""Loads are on another scale if all quantiles are this multiple, or part, of the known ones."""
LARGEST_SPREAD = 1.6
"""On another scale, the largest ratio of the quantiles is at most this multiple of the least ratio:
heating and holidays change the nights and the peaks by different factors, a wrong unit does not."""
UNIT_MULTIPLE = 4
"""kW of quarter hours that are taken for kWh, or the reverse, make all quantiles about this
multiple of the known ones, or this part."""
UNIT_SPREAD = 1.2
"""The ratio of each quantile is `UNIT_MULTIPLE`, or its inverse, within this factor."""
DOUBTED_MULTIPLE = 2
"""The multiple if kW of half hours are taken for kWh. Winter does that, too, so it is only told."""
DOUBTED_SPREAD = 1.15
"""Loads are doubted if their median ratio is at least `DOUBTED_MULTIPLE` divided by this factor."""
DOUBTED_RANGE = 1.4
"""Loads are doubted only if the largest ratio of the quantiles is at most this multiple of the
least ratio: homes change from week to week."""
DOUBTED_TIME = 14 * ONE_DAY
"""Loads of a Saturday or of a week of guests are often doubled, so there must be two weeks of them.
Asked every day, this doubts a home about once in five years, and 86 % of those whose loads are
doubled (186 homes of London, Zonnedael and Sydney)."""
PEAK_MULTIPLE = 2
"""Half of the loads of a day are no peak if they are above this multiple of the largest one."""
FAULT_MULTIPLE = 10
"""A load above this multiple of the largest one is a fault of the meter, or has another unit."""
EQUAL_PART = 0.01
"""Loads of the same time are equal if they differ by at most this part of the mean load."""
MOST_CHANGED = 0.5
"""New readings contradict known ones only if more than this part of them differs: replaced
estimates are rarely most readings."""
LEAST_PART = 0.1
"""New readings contradict known ones only if their mean difference is more than this part of the
mean load."""
LEAST_CHANGE = 0.5
"""New readings contradict known ones only if their mean difference is more than this multiple of
the mean change from one day to the next. Most other homes of a town differ by more."""
FEWEST_CHANGED = 3 * ONE_DAY
"""In less time all readings may be estimates that are replaced later."""


def check_fit(
    client: str,
    load: pd.Series,
    known_load: pd.Series | None,
    highest: float,
    local_time: ToLocalTime,
) -> None:
    """Refuse loads of a client that do not fit those of the study.

    `load` and `known_load`, that of the study, are in kWh, indexed by the ends of intervals; NaN in
    gaps. `highest`: the largest load of the training, the only one that files of models have.
    `local_time`: what a time is in the client's zone, for messages.

    Raises:
        DataError: the loads are on another scale, or more than `LONGEST_GAP` is without readings.
    """
    load = load.dropna()
    if load.empty:
        return  # `ForecastModel.predict` says so
    if known_load is None:
        _refuse_far_loads(client, load, highest, local_time)
        return
    known_load = known_load.dropna()
    _refuse_another_year(client, load, known_load)
    new_load = load[load.index > known_load.index[-1]]
    recent_load = known_load[known_load.index > _begin(known_load)]
    for part in (new_load, new_load[new_load.index > load.index[-1] - ONE_DAY]):
        _refuse_another_scale(client, part, recent_load)
    _refuse_far_loads(client, new_load, highest, local_time)


def check_unit(
    client: str, load: pd.Series, trained_range: tuple[float, float], interval: int
) -> None:
    """Refuse, with a DataError, loads of a client every `interval` minutes that are as much above
    the least and the largest one of its training, in kWh, as another unit makes them."""
    (low, high), largest, median = trained_range, load.max(), load.median()
    hour = 60 / interval
    for unit, factor in (("kW", hour), ("Wh", 1000), ("W", 1000 * hour)):
        # Of another power of ten, the loads of a few days tell; of kW, only a peak does.
        lowest_load = max(2, factor * (0.7 if factor < 10 else 0.1)) * high
        # Half of the readings above all of the training are no peak.
        above = largest >= lowest_load or (unit == "kW" and median > high)
        if above and largest <= 1.2 * factor * high and low <= median / factor <= high:
            raise DataError(
                Problem(
                    client,
                    f"its readings are about {largest / high:,.0f} times the range of its "
                    f"training data, {low:.4g} to {high:.4g} kWh, as if they were in {unit}",
                    f"divide them by {factor:g}, or say so with --read-as {unit}",
                )
            )


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
            f"{format_span(gap)} without readings since those that are known; forecasts read only "
            "what came after, and may have other errors than in the study"
        )
    if gap < pd.Timedelta(0):
        return (
            f"its readings end {format_span(-gap)} before those that are known, so these "
            "forecasts are for the past"
        )
    return ""


def describe_lag(lag: pd.Timedelta, longest: pd.Timedelta) -> str:
    """That the readings of a meter end this time before the latest of all meters, in words; empty
    if it is at most the `longest` that needs no word."""
    if lag <= longest:
        return ""
    return (
        f"its readings end {format_span(lag)} before the latest of all meters, and its forecast is "
        "for the time after them"
    )


def _refuse_another_year(client: str, load: pd.Series, known_load: pd.Series) -> None:
    """Refuse readings that are all before those of the study, and those after a very long gap."""
    begin, end = known_load.index[0], known_load.index[-1]
    span = f"those that are known are from {begin:%Y-%m-%d} to {end:%Y-%m-%d}"
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


def check_overlap(client: str, load: pd.Series, known_load: pd.Series) -> None:
    """Refuse loads of which most differ from the known ones of the same times, in the last four
    weeks that both have: those of other times, times a factor, or of `FEWEST_CHANGED` or more, by
    more than `LEAST_PART` and `LEAST_CHANGE` allow. Less than a day tells nothing.
    Loads as in `check_fit`."""
    load, known_load = load.dropna(), known_load.dropna()
    times = load.index.intersection(known_load.index)
    if len(times) < 2 or times[-1] - times[0] < 0.9 * ONE_DAY:
        return
    times = times[times > times[-1] - COMPARED_TIME]
    load, known_then = load[times], known_load[times]
    size = float(known_then.abs().mean())
    tolerance = EQUAL_PART * size
    differences = (load - known_then).abs()
    if _share_of_equal(differences, tolerance) >= 1 - MOST_CHANGED:
        return
    span = f"from {times[0]:%Y-%m-%d} to {times[-1]:%Y-%m-%d}"
    right = "or say --accept-misfits if the new ones are right"
    if shift := _shift_between(load, known_load, tolerance):
        text = (
            f"its readings {span} are those that are known {format_span(abs(shift))} "
            f"{'later' if shift > pd.Timedelta(0) else 'earlier'}"
        )
        remedy = (
            "correct the times, say their zone with --read-timezone or what they mark with "
            f"--read-stamp, {right}"
        )
        raise DataError(Problem(client, text, remedy, client, kind="readings of other times"))
    factors = (load / known_then)[known_then > tolerance]
    factor = float(factors.median()) if len(factors) else np.nan
    is_other_unit = factor > UNIT_SPREAD or 0 < factor < 1 / UNIT_SPREAD
    if is_other_unit and _share_of_equal((factors / factor - 1).abs(), EQUAL_PART) > MOST_CHANGED:
        text = f"its readings {span} are {_describe_size(factor)} those that are known of then"
        remedy = f"say their unit with --read-as, correct the file, {right}"
        raise DataError(Problem(client, text, remedy, client, kind="known loads times a factor"))
    day_before = known_load.reindex(pd.DatetimeIndex(known_load.index) - ONE_DAY).to_numpy()
    usual_change = float((known_load - day_before).abs().mean())
    least_difference = max(LEAST_PART * size, LEAST_CHANGE * usual_change)
    is_long = times[-1] - times[0] >= 0.9 * FEWEST_CHANGED
    if is_long and differences.mean() > least_difference:
        share = 1 - _share_of_equal(differences, tolerance)
        text = (
            f"{100 * share:.0f} % of its readings {span} are not those that are known of then, and "
            f"the mean difference is {differences.mean():.3g} kWh"
        )
        remedy = (
            "if they are another meter's, correct the name or the file; if a utility has corrected "
            "them, say --accept-misfits"
        )
        raise DataError(Problem(client, text, remedy, client, kind="other readings"))


def _share_of_equal(differences: pd.Series, tolerance: float) -> float:
    """The share of absolute differences that are within a tolerance."""
    return float((differences <= tolerance).mean())


def _shift_between(load: pd.Series, known_load: pd.Series, tolerance: float) -> pd.Timedelta | None:
    """The time of less than a day after which loads equal most of the known ones; None if there is
    none, as between two meters."""
    step = pd.Timedelta(load.index.to_series().diff().min())
    count = ONE_DAY // step
    for number in sorted(range(1 - count, count), key=abs):
        shifted_load = known_load.reindex(load.index + number * step).to_numpy()
        if number and _share_of_equal((load - shifted_load).abs(), tolerance) > MOST_CHANGED:
            return number * step
    return None


def _describe_size(factor: float) -> str:
    """A factor between loads in words: "8 times", "1/4 of"."""
    if factor > 1:
        return f"{factor:,.0f} times" if factor > 3 else f"{factor:.3g} times"
    return f"1/{1 / factor:.0f} of" if factor < 1 / 3 else f"1/{1 / factor:.3g} of"


def describe_scale(load: pd.Series, known_load: pd.Series, end: pd.Timestamp) -> str:
    """That two weeks or more of new loads are nearly twice the known ones or more, or half or less,
    in words; empty if not. Fewer new loads are joined with known ones to the last two weeks, if
    these are after the `end` of the study and were not so before. Loads as in `check_fit`."""
    known_load = known_load.dropna()
    new_load = load[load.index > known_load.index[-1]].dropna()
    if new_load.empty:
        return ""
    if new_load.index[-1] - new_load.index[0] > 0.99 * DOUBTED_TIME:
        word = _word_of_scale(new_load, known_load)
        text = f"its new loads are {word} those of the last four weeks that were known"
    else:
        word = _word_of_last_loads(pd.concat([known_load, new_load]), end)
        if _word_of_last_loads(known_load, end):
            return ""
        begin = new_load.index[-1] - DOUBTED_TIME
        text = f"since {begin:%Y-%m-%d} its loads are {word} those of the four weeks before"
    if not word:
        return ""
    return (
        f"{text}, the low ones as the high ones: if that is another unit, such as kW of half "
        "hours, say it with --read-as"
    )


def _word_of_last_loads(load: pd.Series, end: pd.Timestamp) -> str:
    """`_word_of_scale` of the last two weeks; empty if they begin before the `end` of the study, or
    if loads are known of the end of these weeks only."""
    begin = load.index[-1] - DOUBTED_TIME
    last_loads = load[load.index > begin]
    if begin < end or last_loads.index[-1] - last_loads.index[0] < 0.9 * DOUBTED_TIME:
        return ""
    return _word_of_scale(last_loads, load[load.index <= begin])


def _word_of_scale(new_load: pd.Series, known_load: pd.Series) -> str:
    """How large new loads are among the last known ones, if they are nearly twice these, or more,
    or half, or less; else empty."""
    ratios = _scale_ratios(new_load, known_load[known_load.index > _begin(known_load)])
    if len(ratios) < len(QUANTILES) or ratios.max() > DOUBTED_RANGE * ratios.min():
        return ""
    factor = float(np.median(ratios))
    distance = max(factor, 1 / factor) / DOUBTED_MULTIPLE
    if distance <= 1 / DOUBTED_SPREAD:
        return ""
    size = "twice" if factor > 1 else "half of"
    return f"about {size if distance < DOUBTED_SPREAD else _describe_size(factor)}"


def _begin(known_load: pd.Series) -> pd.Timestamp:
    """Where the last known loads begin, with which new ones are compared."""
    return pd.Timestamp(known_load.index[-1] - COMPARED_TIME)


def _scale_ratios(load: pd.Series, known_load: pd.Series) -> NDArray[np.float64]:
    """The quantiles of a day or more of loads over those of known ones; empty if they cannot be
    compared."""
    if load.empty or load.index[-1] - load.index[0] < 0.9 * ONE_DAY:
        return np.empty(0)
    known_sizes, sizes = np.quantile(known_load, QUANTILES), np.quantile(load, QUANTILES)
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
    text = (
        f"since {load.index[0]:%Y-%m-%d} its loads are about {_describe_size(factor)} those that "
        f"are known, the low ones as the high ones (the median is {load.median():.4g} kWh, it was "
        f"{known_load.median():.4g}): another unit? Say it with --read-as, correct the file, or "
        "say --accept-misfits if they are right"
    )
    raise DataError(Problem(client, text, meter=client, kind="another scale"))


def _refuse_far_loads(
    client: str, load: pd.Series, highest: float, local_time: ToLocalTime
) -> None:
    """Refuse loads far above the largest one of the training, or days of which half are above."""
    if load.empty or highest <= 0:
        return
    load = load[load.index > load.index[-1] - LOOK_BACK]
    last_day = load[load.index > load.index[-1] - ONE_DAY]
    if load.max() > FAULT_MULTIPLE * highest:
        part = load
    elif max(load.median(), last_day.median()) > PEAK_MULTIPLE * highest:
        part = last_day
    else:
        return
    time = local_time(part.index[int(part.argmax())], client)
    text = (
        f"{part.max():.4g} kWh at {time} is far above all loads of its "
        f"training data, up to {highest:.4g} kWh"
    )
    remedy = (
        "if it is a fault, --max-jump makes it a gap; if the unit is another one, say it with "
        "--read-as; if it is right, say --accept-misfits"
    )
    raise DataError(Problem(client, text, remedy, client, kind="far above all loads"))
