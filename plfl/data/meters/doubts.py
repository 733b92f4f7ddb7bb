"""What is odd about the loads of meters that were read: named before a study is written."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import Problem
from plfl.base.keys import Key
from plfl.base.minutes import MINUTES_PER_DAY
from plfl.base.text import counted_names
from plfl.config.error_messages import flow
from plfl.data.meters.cleaning import Meter
from plfl.data.meters.faults import runs
from plfl.data.meters.quantities import names_feed_in, pattern_of_parts
from plfl.data.meters.questions import LARGEST_LOADS, LargestLoads

_CONSTANT_PART = 0.99
"""A load is all but constant if this part of its values is the same, in the last quarter, too."""
_FLICKER = 1e-3
"""A step to a neighbouring value is no change if it is at most this part of the load."""
_NEIGHBOUR = 1.5
"""Values are neighbours up to this multiple of the smallest step."""
_LARGE = 10
"""A load is odd if it is this multiple of the 99 % quantile of its meter; a meter among homes, if
its mean is this multiple of the largest of all others. Among buildings, whose sizes differ, it is
the square of it, as is the part of the least of the others that makes a meter odd."""
_HOME_KW = 2
"""The largest mean load of homes. Buildings that are ten times these are rare, ten times other
buildings are not."""
_ORDINARY_PART = 0.99
"""The part of the loads of a meter that is ordinary."""
_PADDED = 4
"""Zeros in a row before a load that is at least as large as that of as many intervals."""
_ENOUGH_TIMES = 20
"""Times that tell a habit from chance."""
_FEW_SUMS = 3
"""Times that tell it of sums that are larger than what is ordinary: no meter of eight public sites
has one, nor has any nine weeks of theirs."""
_LEAST_KW = 0.002
"""The least mean load of a meter."""
_NIGHT_ENDS = 4
"""Hour of local time before which it is dark on most days."""
_MOST_METERS = 1000
"""Meters beyond which sums, twins and solar cells are not looked for."""
_FEW_METERS = 8
"""Meters up to which sums of some of them are looked for."""
_ROUNDING = 1e-6
"""Rounding errors of sums, as a part of the largest load."""
_DAYS_OF_WEEK = 7
_MOST_REGISTERS = 6
"""Most registers of one meter."""


class Doubt(NamedTuple):
    """Something odd about the loads of meters."""

    text: str
    """What is odd."""
    remedy: str
    """What to do about it."""
    names: Sequence[str]
    """The meters that have it, if any."""


def doubts(
    meters: Mapping[str, Meter], largest: LargestLoads = LARGEST_LOADS["homes"]
) -> list[Problem]:
    """One for each oddity; its place is the number of meters that have it, and three names.
    `largest`: the largest mean load of such meters."""
    loads = {name: meter.load.to_numpy(float) for name, meter in meters.items()}
    solar = _solar_meters(meters)
    found_doubts = (
        *_single_doubts(loads),
        _solar_doubt(solar),
        *_unit_doubts(meters, loads, largest.in_kwh),
        *_joint_doubts(meters, loads, solar),
    )
    return [
        Problem(counted_names(doubt.names), doubt.text, doubt.remedy)
        for doubt in found_doubts
        if doubt.names
    ]


def _single_doubts(loads: Mapping[str, NDArray[np.float64]]) -> Iterator[Doubt]:
    """Oddities of single meters."""
    known_loads = {name: load[~np.isnan(load)] for name, load in loads.items()}
    constant = [name for name, load in known_loads.items() if is_all_but_constant(load)]
    yield Doubt(
        "the load is all but constant, at least in its last quarter, so that errors in proportion "
        "to it are huge in every mean: those in percent, and a study's scaled errors (MASE)",
        f"leave it out: {Key('data.meters.leave_out', flow(constant))}",
        constant,
    )
    yield Doubt(
        f"single loads are {_LARGE} times all others",
        f"check them, or make them gaps with {Key('data.meters.max_jump')}",
        [name for name, load in known_loads.items() if _has_far_loads(load)],
    )
    yield Doubt(
        "zeros are followed by their sum, like readings that were sent late",
        f"make the zeros gaps with {Key('data.meters.zero_run')}, and check the sums",
        [name for name, load in known_loads.items() if _has_late_sums(load)],
    )


def _solar_meters(meters: Mapping[str, Meter]) -> list[str]:
    """The meters with loads like those of solar cells, which are no consumption."""
    is_looked_for = len(meters) <= _MOST_METERS
    return [name for name, meter in meters.items() if is_looked_for and _is_solar(meter)]


def _solar_doubt(names: Sequence[str]) -> Doubt:
    return Doubt(
        "the load is zero at night and highest around noon, like the production of solar cells",
        f"if it is, leave it out: {Key('data.meters.leave_out', flow(names))}",
        names,
    )


def _is_solar(meter: Meter) -> bool:
    """Whether almost all loads are zero at night, and those of noon are by far the highest."""
    if len(meter.load) < 2 * _ENOUGH_TIMES:  # of nights and of noons
        return False
    load = meter.load.dropna()
    hours = pd.DatetimeIndex(load.index).tz_convert(meter.zone).hour
    nights, noons = load[hours < _NIGHT_ENDS], load[(hours >= 10) & (hours < 15)]
    if len(nights) < _ENOUGH_TIMES or len(noons) < _ENOUGH_TIMES or not noons.mean() > 0:
        return False
    is_dark = (nights <= 0.01 * noons.mean()).mean() > 1 - (1 - _CONSTANT_PART) * 5
    return bool(is_dark and noons.mean() > 2 * load.mean())


def _unit_doubts(
    meters: Mapping[str, Meter], loads: Mapping[str, NDArray[np.float64]], most_kw: float
) -> Iterator[Doubt]:
    """Means that loads of homes and buildings do not have, and those unlike all others."""
    means = {
        name: float(np.nanmean(load)) * 60 / meters[name].minutes for name, load in loads.items()
    }
    tiny = [name for name, mean in means.items() if 0 < mean < _LEAST_KW]
    yield Doubt(
        f"the mean load is below {_LEAST_KW * 1000:g} W",
        f"check {Key('data.meters.unit')}: is it MWh, or a factor 1,000 missing?",
        tiny,
    )
    yield Doubt(
        f"the mean load is above {most_kw:,.0f} kW, and only large buildings have so much",
        f"if it is none, check {Key('data.meters.unit')}: is it Wh or W?",
        [name for name, mean in means.items() if mean > most_kw],
    )
    if len(means) > 2:
        ordered = sorted(means, key=lambda name: means[name])
        lowest, second, *_, last, highest = (means[name] for name in (*ordered[:2], *ordered[-2:]))
        factor = _LARGE if last <= _HOME_KW else _LARGE**2
        yield Doubt(
            f"the mean load is more than {factor} times that of every other meter",
            "check its unit",
            [ordered[-1]] * (highest > factor * last),
        )
        yield Doubt(
            "the mean load is less than a hundredth of that of every other meter",
            "check its unit",
            [ordered[0]] * (0 < lowest < second / _LARGE**2),
        )


def _joint_doubts(
    meters: Mapping[str, Meter], loads: Mapping[str, NDArray[np.float64]], solar: Sequence[str]
) -> Iterator[Doubt]:
    """Meters with the loads of another one, or of several others; those of feed-in by their names,
    or `solar`, are no registers that are to be added."""
    names_by_span: dict[tuple[pd.Timestamp, int], list[str]] = {}
    for name, meter in meters.items():
        names_by_span.setdefault((meter.load.index[0], len(meter.load)), []).append(name)
    sums: list[str] = []
    parts_of_sums: dict[str, Sequence[str]] = {}
    registers: list[str] = []
    is_beside_feed_in = bool(solar) or any(map(names_feed_in, meters))
    for names in names_by_span.values():
        if not 1 < len(names) <= _MOST_METERS:
            continue
        table = np.nan_to_num(np.array([loads[name] for name in names]))
        total = table.sum(axis=0)
        if _take_turns(table) and not is_beside_feed_in:
            registers += names
        for name, load in zip(names, table, strict=True) if len(names) > 2 else ():
            if np.allclose(load, total - load, rtol=1e-3, atol=1e-3 * load.max()):
                sums.append(name)
        if 2 < len(names) <= _FEW_METERS:
            found_parts = _parts_of_sums({name: loads[name] for name in names})
            parts_of_sums |= {name: found_parts[name] for name in found_parts if name not in sums}
    is_open = not registers and not is_beside_feed_in
    if 1 < len(meters) <= _MOST_REGISTERS and len(names_by_span) > 1 and is_open:
        # Some begin or end with a blank.
        common = pd.concat([meter.load for meter in meters.values()], axis=1, join="inner")
        is_long = len(common) >= max(_ENOUGH_TIMES, max(map(len, loads.values())) / 2)
        if is_long and _take_turns(np.nan_to_num(common.to_numpy(float).T)):
            registers += meters
    pattern = pattern_of_parts(registers) if registers else ""
    copies = _copies(meters, loads) if len(meters) <= _MOST_METERS else []
    yield Doubt(
        "the loads are equal to those of another meter",
        f"leave one of them out: {Key('data.meters.leave_out', flow(copies))}",
        copies,
    )
    yield Doubt(
        "only one of them counts at a time, like registers of tariffs",
        f"if they are those of one meter, add them: {Key('data.meters.add', json.dumps(pattern))}",
        registers,
    )
    yield Doubt(
        "the load is the sum of all others",
        f"leave it out: {Key('data.meters.leave_out', flow(sums))}",
        sums,
    )
    for name, parts in parts_of_sums.items():
        yield Doubt(
            f"the load is the sum of {' and '.join(parts)}",
            f"leave it out: {Key('data.meters.leave_out', flow([name]))}",
            [name],
        )


def _take_turns(table: NDArray[np.float64]) -> bool:
    """Whether only one row of loads of the same times counts at a time, and each of them does."""
    is_counting = table > 0
    return (
        len(table) <= _MOST_REGISTERS
        and bool((is_counting.sum(axis=0) > 1).mean() <= 1 - _CONSTANT_PART)
        and bool((is_counting.mean(axis=1) > 1 - _CONSTANT_PART).all())
    )


def _parts_of_sums(loads: Mapping[str, NDArray[np.float64]]) -> dict[str, Sequence[str]]:
    """The meters whose loads are exactly the sum of those of two to four others, and which others.
    The loads have the same times, NaN in gaps."""
    is_known = ~np.isnan(np.array(list(loads.values()))).any(axis=0)
    known_loads = {name: load[is_known] for name, load in loads.items() if load[is_known].any()}
    found_parts: dict[str, Sequence[str]] = {}
    for name, load in known_loads.items():
        names = [part for part in known_loads if part != name]
        subsets = (parts for count in (2, 3, 4) for parts in combinations(names, count))
        for parts in subsets:
            total = sum(known_loads[part].sum() for part in parts)
            if len(load) < _ENOUGH_TIMES or not np.isclose(total, load.sum(), rtol=_ROUNDING):
                continue
            total_load = np.sum([known_loads[part] for part in parts], axis=0)
            if np.allclose(total_load, load, rtol=0, atol=_ROUNDING * load.max()):
                found_parts[name] = parts
                break
    return found_parts


def _copies(meters: Mapping[str, Meter], loads: Mapping[str, NDArray[np.float64]]) -> list[str]:
    """The meters with the loads of an earlier one wherever both are known, or of one whose name is
    part of theirs. Equal days, of each
    seventh date, or of all dates of short series, say which ones to compare."""
    copies: set[str] = set()
    meter_of_day: dict[tuple[int, int, bytes], str] = {}
    first_rows = {
        name: int(pd.DatetimeIndex(meter.load.index[:1]).as_unit("s").asi8[0] // 60)
        // meter.minutes
        for name, meter in meters.items()
    }

    def is_copy(name: str, original: str) -> bool:
        shift = first_rows[name] - first_rows[original]
        load, original_load = loads[name][max(0, -shift) :], loads[original][max(0, shift) :]
        length = min(len(load), len(original_load))
        load, original_load = load[:length], original_load[:length]
        is_known = ~(np.isnan(load) | np.isnan(original_load))
        shorter = min(len(loads[name]), len(loads[original]))
        is_long = is_known.sum() >= max(_ENOUGH_TIMES, shorter / 2)
        return bool(is_long) and np.array_equal(load[is_known], original_load[is_known])

    for name, meter in meters.items():
        per_day = MINUTES_PER_DAY // meter.minutes
        start = -first_rows[name] % per_day
        count = (len(loads[name]) - start) // per_day
        days = loads[name][start : start + max(count, 0) * per_day].reshape(-1, per_day)
        numbers = (first_rows[name] + start) // per_day + np.arange(len(days))
        is_looked_at = (days.max(axis=1) > days.min(axis=1)) & (
            (numbers % _DAYS_OF_WEEK == 0) | (len(days) < 2 * _DAYS_OF_WEEK)
        )
        originals = {
            meter_of_day.setdefault((meter.minutes, int(number), day.tobytes()), name)
            for number, day in zip(numbers[is_looked_at], days[is_looked_at], strict=True)
        }
        for original in sorted(originals - {name}):
            if is_copy(name, original):  # home (1) is one of home, though it comes first
                copies.add(original if name in original else name)
                break
    return [name for name in meters if name in copies]


def is_all_but_constant(load: NDArray[np.float64]) -> bool:
    """Whether almost all known values of a load, or of its last quarter, are the same, but for
    steps to a neighbouring value that are tiny beside the load."""

    def is_constant(values: NDArray[np.float64]) -> bool:
        steps = np.abs(np.diff(np.round(values, 9)))
        resolution = steps[steps > 0].min(initial=np.inf)
        tiny = min(_NEIGHBOUR * resolution, _FLICKER * float(np.median(np.abs(values))))
        changes = np.count_nonzero(steps > tiny)
        return bool(changes <= (1 - _CONSTANT_PART) * len(values))

    parts = (load, load[-len(load) // 4 :])
    return any(len(part) >= _ENOUGH_TIMES and is_constant(part) for part in parts)


def _has_far_loads(load: NDArray[np.float64]) -> bool:
    """Whether few loads, at most one in a hundred, are far above all others."""
    if len(load) < _ENOUGH_TIMES:
        return False
    rank = max(3, int(np.ceil((1 - _ORDINARY_PART) * len(load))))
    usual = np.partition(load, -rank)[-rank]
    return bool(load.max() > _LARGE * usual > 0)


def _has_late_sums(load: NDArray[np.float64]) -> bool:
    """Whether zeros are followed by a load that is as large as that of their time, or all loads
    come after equally many zeros."""
    starts, lengths = runs(load == 0)
    ends = starts + lengths
    lengths, ends = lengths[ends < len(load)], ends[ends < len(load)]
    other_loads = np.delete(load, ends)
    other_loads = other_loads[other_loads > 0]
    if len(lengths) < _FEW_SUMS:
        return False
    if not len(other_loads):
        is_alike = (lengths == np.median(lengths)).mean() > 1 - (1 - _CONSTANT_PART) * _LARGE
        return bool(is_alike and len(lengths) >= _ENOUGH_TIMES)
    is_long = lengths >= _PADDED
    is_late = is_long & (load[ends] > 0.5 * np.median(other_loads) * (lengths + 1))
    is_rare = load[ends] > np.quantile(other_loads, _ORDINARY_PART)
    is_often = is_late.sum() >= _ENOUGH_TIMES or (is_late & is_rare).sum() >= _FEW_SUMS
    return bool(is_often and is_late.sum() > 0.5 * is_long.sum())
