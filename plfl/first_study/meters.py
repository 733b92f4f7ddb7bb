"""A first study of raw exports: what they hold is recognised, and the study reads them in place."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from glob import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from plfl.base.errors import DataError, Problem, collect_problems
from plfl.base.keys import Key
from plfl.base.minutes import MINUTES_PER_DAY, MINUTES_PER_WEEK
from plfl.base.shipped import root, write_new
from plfl.base.text import Progress, count_in_words, counted_names
from plfl.config.channel import FEWEST_MASKED
from plfl.config.data import TESTED_WEEKS, Rolling
from plfl.config.error_messages import flow
from plfl.config.meters import Meters
from plfl.config.windows import Holidays
from plfl.data.meters.cleaning import REPEATED_HOUR, Meter
from plfl.data.meters.exports import Exports, read_exports
from plfl.data.meters.formats.schema import as_toml, load_format
from plfl.data.meters.meter_selection import check_chosen
from plfl.data.meters.paths import client_names, names_without_dates, raw_files
from plfl.data.meters.questions import LARGEST_LOADS, PLACE, apply_answers, column_key
from plfl.data.meters.stamps import standard_offset
from plfl.public.inputs import LeadTime
from plfl.public.models import MeterKind, load
from plfl.public.seen import is_meter_seen
from plfl.results.words import join_words
from plfl.study import Study
from plfl.study.keys import PAPER_SCHEMES

LEAD_MINUTES: dict[LeadTime, int] = {"hour": 60, "day": MINUTES_PER_DAY}
FEWEST_MINUTES = 2 * MINUTES_PER_WEEK
"""Minutes of readings with which a meter takes part, if there are others with more."""
TESTED_MINUTES = 8 * MINUTES_PER_WEEK
"""Minutes of readings on which forecasts are tested, if there are enough."""
BEFORE_FIRST = 8
"""Weeks of readings before the first of several origins, at least."""
QUARTER = 13
"""Weeks from one origin to the next, at most, so that they are in all seasons."""
TEST_SEASONS = 3
"""Test sets of a study whose readings have room for each in a season of its own."""
FEWEST_WEEKS = BEFORE_FIRST + TESTED_WEEKS + (TEST_SEASONS - 1) * QUARTER
"""Weeks of readings that all meters of such a study have, at least."""


def recognise(
    paths: Iterable[Path],
    meters: Meters,
    progress: Progress | None = None,
    lead_time: LeadTime = "day",
    kind: MeterKind | None = None,
    holidays: Holidays | None = None,
    origins: int | None = None,
    command: str = "",
) -> tuple[Exports, dict[str, Any]]:
    """Read raw exports, and describe them in a study: their content, and the configuration.

    `meters`: what cannot be detected. Without `interval`, it is that of the exports; stamps without
    a UTC offset need `timezone`. `lead_time`: what is forecast. `kind`: of the meters; with it, the
    model of public meters is among the baselines. `origins`: the number of test sets, of several
    each with a training before it; None: as many as `origins_in_seasons` finds. `command`: what
    the user wrote, to which a message adds the answers to its questions. DataError: something is
    wrong or ambiguous, or there are too few readings for these origins; the message lists all
    problems of all files.
    """
    paths = list(paths)
    raw = raw_files(paths)
    interval = meters.interval if "interval" in meters.model_fields_set else None
    meters = meters.model_copy(update={"exports": raw})
    largest = LARGEST_LOADS[kind]
    read = partial(read_exports, raw, interval=interval, progress=progress, largest=largest)
    exports = separate_exports = read(meters)
    if meters.join_files and names_without_dates(raw) and not _has_joined(exports):
        meters = meters.model_copy(update={"join_files": False})  # dates stay in the names
        exports = separate_exports = read(meters)
    if (column := _column_of_all(exports, meters)) is not None:
        named_meters = meters.model_copy(update={"columns": meters.columns | {"load": column}})
        separate_exports = read(named_meters)
        if not _follow_each_other(separate_exports):
            exports, meters = separate_exports, named_meters
            exports.problems = _with_column(exports.problems, column)
            exports.assumptions.append(
                f"each of the {len(raw)} files, all with the column {column!r}, is a meter of its "
                "own, with the name of the file (set "
                f"{Key('data.meters.join_files', 'true')} if they are parts of one meter)"
            )
    is_open = "join_files" not in meters.model_fields_set
    if is_open and 1 == len({*names_without_dates(raw).values()}) < len(raw):
        joined_meters = meters.model_copy(update={"join_files": True})
        if (
            _follow_each_other(separate_exports)
            and len({*(joined_exports := read(joined_meters)).names}) == 1
        ):
            exports, meters = joined_exports, joined_meters
            exports.assumptions.append(
                f"the {len(raw)} files, whose names differ in dates only and whose readings follow "
                f"each other, are parts of one meter (set {Key('data.meters.join_files', 'false')} "
                "if each is one)"
            )
    if is_open and not meters.join_files and _have_equal_meters(exports):
        joined_meters = meters.model_copy(update={"join_files": True})
        joined_exports = read(joined_meters)
        if len(joined_exports.problems) <= len(exports.problems):
            exports, meters = joined_exports, joined_meters
            exports.assumptions.append(
                "files whose rows name the same meter are parts of it (set "
                f"{Key('data.meters.join_files', 'false')} if each is a meter)"
            )
    _add_problems(exports, meters)
    _add_later_questions(exports, meters, read)
    exports.refuse("nothing was written", command)
    origins_key = origins_in_seasons(exports) if origins is None else None
    if origins is not None and origins > 1:
        origins_key = origins_apart(exports, origins)
    study = _study(exports, paths, meters, lead_time, kind, absent(exports, origins_key))
    if origins_key is not None:
        _judge_at(study, origins_key)
    if holidays is not None:
        study["windows"]["covariates"].append(holidays.model_dump(exclude_unset=True))
    return exports, study


def _add_later_questions(
    exports: Exports, meters: Meters, read: Callable[[Meters], Exports]
) -> None:
    """Add to the problems the questions that would come after the first answers to those in them,
    so that all are asked at once. If the answers make other files unreadable, they are left out."""
    later_exports = exports
    new_questions = [problem for problem in exports.problems if problem.answers]
    while any(question.place not in later_exports.forms for question in new_questions):
        meters = apply_answers(
            meters, (key for question in new_questions for key in question.answers)
        )
        later_exports = read(meters)
        if exports.forms.keys() - later_exports.forms.keys():  # no one command reads all files
            exports.problems = [replace(problem, answers=()) for problem in exports.problems]
            return
        _add_problems(later_exports, meters)
        new_questions = [
            problem
            for problem in later_exports.problems
            if problem.answers and problem not in exports.problems
        ]
        exports.problems += new_questions


def _column_of_all(exports: Exports, meters: Meters) -> str | None:
    """The column of readings that each of several files has as its only one, though its name is
    like that of a meter; None if there is none, or the files are parts of one meter."""
    forms = [*exports.forms.values()]
    if meters.join_files or len(forms) < 2 or {form.name for form in forms} != {None}:
        return None
    formats = [form.format for form in forms]
    columns = {(*form.load.columns,) if form.meters.by_column else () for form in formats}
    shared_columns = columns.pop()
    return str(shared_columns[0]) if len(shared_columns) == 1 and not columns else None


def _with_column(problems: Iterable[Problem], column: str) -> list[Problem]:
    """The problems; those that joining files answers also need the column of all of them, by which
    the files are named."""
    join, load = Key("data.meters.join_files", "true"), column_key("load", column)
    return [replace(p, answers=(*p.answers, load)) if join in p.answers else p for p in problems]


def _has_joined(exports: Exports) -> bool:
    """Whether several files have readings of the same meter."""
    return len({*exports.names}) < len(exports.names)


def _have_equal_meters(exports: Exports) -> bool:
    """Whether the rows of some of several files, all in known formats, name the same meter."""
    formats = [form.format for form in exports.forms.values() if form.name]
    are_named = all(format.meters.column and format.meters.is_unique for format in formats)
    return (
        are_named
        and len(formats) == len(exports.forms)
        and len({*exports.registers}) < len(exports.meters)
    )


def _follow_each_other(exports: Exports) -> bool:
    """Whether no two of several meters have readings of the same time, like the months of one."""
    spans = sorted((meter.load.index[0], meter.load.index[-1]) for meter in exports.meters.values())
    return len(spans) > 1 and all(end < start for (_, end), (start, _) in pairwise(spans))


def too_short(exports: Exports) -> list[str]:
    """The meters that have too few readings to take part, if others have enough."""
    return [] if are_all_short(exports) else _short(exports)


def absent(exports: Exports, origins_key: dict[str, Any] | None) -> list[str]:
    """The meters, of those with enough readings, that are not read two weeks before the first of
    several origins, or not to the end of the last test set, so that they cannot take part.
    `origins_key`: the key `data.origins`; None: there are none."""
    if origins_key is None:
        return []
    dates = Rolling.model_validate(origins_key).dates
    first = pd.Timestamp(dates[0]) - pd.Timedelta(minutes=FEWEST_MINUTES)
    last = pd.Timestamp(dates[-1]) + pd.Timedelta(weeks=TESTED_WEEKS)
    return [
        name
        for name, meter in _participants(exports).items()
        if _standard_time(meter, meter.load.index[0]) > first
        or _standard_time(meter, meter.load.index[-1]) < last
    ]


def are_all_short(exports: Exports) -> bool:
    """Whether every meter has too few readings for a study to test its forecasts."""
    return len(_short(exports)) == len(exports.meters)


def _short(exports: Exports) -> list[str]:
    return [name for name, m in exports.meters.items() if len(m.load) * m.minutes < FEWEST_MINUTES]


def zone_problem(exports: Exports, meters: Meters) -> Problem | None:
    """What is wrong if stamps have no UTC offset and nobody said where the meters are."""
    is_given = "timezone" in meters.model_fields_set
    unzoned = _meters_without_zone(exports.names, meters)
    local = [
        path
        for path, form in exports.forms.items()
        if form.meters_without_zone is not None
        and (unzoned & {*form.meters_without_zone} or not (form.meters_without_zone or is_given))
    ]
    if not local:
        return None
    return Problem(
        local[0],
        f"the stamps have no UTC offset ({count_in_words(len(local), 'such file')})",
        f"set the place, as in {Key('data.meters.timezone', 'America/New_York')}, or a fixed zone "
        "if the clock never changes, such as Etc/GMT+5 or UTC",
        answers=(Key("data.meters.timezone", PLACE),),
    )


def place_problem(exports: Exports, meters: Meters) -> Problem | None:
    """What is wrong if stamps have UTC offsets and nobody said where the meters are: the days of a
    model are then those of the zone of the default."""
    names = _of_default_zone(exports, meters) & {*exports.contradictory}
    if not names:
        return None
    return Problem(
        counted_names(sorted(names)),
        f"the stamps have a UTC offset, which is not that of {meters.timezone}, and nothing says "
        "by which clock the meters' days go",
        f"set the place, as in {Key('data.meters.timezone', 'Australia/Sydney')}, or a fixed zone "
        "if the clock never changes, such as Etc/GMT-10 for +10:00",
    )


def utc_lines(exports: Exports, meters: Meters) -> list[str]:
    """A line about meters whose zone was not named, and whose stamps are in UTC, if any."""
    names = sorted(_of_default_zone(exports, meters) - {*exports.contradictory})
    if not names:
        return []
    return [
        f"{counted_names(names)}: the stamps are in UTC, and the meters' days are taken to go by "
        f"it, which nothing says (should {Key('data.meters.timezone')} name the place?)"
    ]


def zone_lines(exports: Exports, meters: Meters) -> list[str]:
    """Lines about meters whose zone was not named, or whose stamps have offsets of another one."""
    contradictory, lines = {*exports.contradictory}, utc_lines(exports, meters)
    if contradictory:
        zones = sorted({exports.keys[name].timezone_of(name) for name in contradictory})
        lines.append(
            f"odd: {counted_names(sorted(contradictory))}: the stamps have a UTC offset, which is "
            f"not that of {join_words(zones)} (is {Key('data.meters.timezone')} right?)"
        )
    return lines


def _of_default_zone(exports: Exports, meters: Meters) -> set[str]:
    """The meters in the zone of the default, because neither the user nor a format named any."""
    unzoned = _meters_without_zone(exports.keys, meters)
    return {name for name in unzoned if "timezone" not in exports.keys[name].model_fields_set}


def _meters_without_zone(names: Iterable[str], meters: Meters) -> set[str]:
    """The meters for which the user named no zone."""
    if "timezone" in meters.model_fields_set:
        return set()
    return {name for name in names if not meters.own_zones_of(name)}


def _add_problems(exports: Exports, meters: Meters) -> None:
    """Add to the problems what a study would assume without being told."""
    problems, keys_given = exports.problems, meters.model_fields_set
    if problem := zone_problem(exports, meters):  # the zone may be all that repeated hours lack
        problems[:] = [problem, *(p for p in problems if p.kind != REPEATED_HOUR)]
    is_told = keys_given & {"timezone", "weather_timezone"}
    if meters.weather and exports.station and exports.station.needs_place and not is_told:
        remedy = f"set {Key('data.meters.weather_timezone')}"
        problems.append(Problem(meters.weather, "the stamps have no UTC offset", remedy))
    with collect_problems(problems):
        check_chosen(exports.names, meters, exports.registers)
    with collect_problems(problems):
        client_names(exports.files)
    _leave_out_few_registers(exports)


def _leave_out_few_registers(exports: Exports) -> None:
    """Have the first answer about registers leave them out if other meters are more than they:
    those are no registers."""
    register = Key("data.meters.cumulative", "true")
    names = [problem.meter for problem in exports.problems if register in problem.answers]
    if len(names) < len(exports.files) - len(names):
        exports.problems = [
            replace(p, answers=(Key("data.meters.leave_out", flow([p.meter])),))
            if register in p.answers
            else p
            for p in exports.problems
        ]


def is_seen_by_public(exports: Exports, kind: MeterKind) -> bool:
    """Whether the model of public meters of a kind was trained on one of the meters."""
    marks = load(kind).marks
    for meter in exports.meters.values():
        if len(meter.load) * meter.minutes < MINUTES_PER_DAY:  # no whole day
            continue
        local = pd.DatetimeIndex(meter.load.index).tz_localize(None) + standard_offset(meter.zone)
        if is_meter_seen(meter.load.set_axis(local), meter.minutes, marks):
            return True
    return False


def _study(
    exports: Exports,
    paths: Iterable[Path],
    meters: Meters,
    lead_time: LeadTime,
    kind: MeterKind | None,
    absent_names: Sequence[str],
) -> dict[str, Any]:
    """A study that forecasts from the last day, the loads a day and a week before the target, and
    the calendar, with a fast model and one optimiser; also for each meter as if it were new. The
    baselines are those of docs/map.md. `absent_names`: of the meters that `absent` finds."""
    minutes = next(iter(exports.meters.values())).minutes
    keys = meters.model_dump(mode="json", exclude_unset=True, exclude={"exports", "interval"})
    keys |= _stated_keys(exports, meters)
    if outsiders := [*too_short(exports), *absent_names]:
        keys["leave_out"] = [*meters.leave_out, *map(escape, outsiders)]
    client_count = len(exports.meters) - len(outsiders)
    steps = {escape(name): meter.step for name, meter in exports.meters.items()}
    keys["step"] = steps if len({*steps.values()}) > 1 else next(iter(steps.values()))
    federated: dict[str, Any] = {"name": "lightgbm_federated", "turns": 2}
    if client_count // 2 >= FEWEST_MASKED:  # of each half
        federated["secure"] = True
    own_baselines = ["naive_day", "ridge", "lightgbm_bagged"]
    received_baselines = ["lightgbm_federated"]
    public: list[dict[str, Any]] = []
    combined_public: list[dict[str, Any]] = []
    if kind is not None and is_seen_by_public(exports, kind):
        public = [{"name": "public", "kind": kind, "trained_on_this_dataset": True}]
    elif kind is not None:
        public = [
            {"name": "public", "kind": kind},
            federated | {"name": "lightgbm_on_public", "kind": kind},
        ]
        received_baselines.append("public")
        combined_public = [
            {"name": "combined_public", "of": [*own_baselines, "public"]},
            {"name": "mean_received", "of": received_baselines},
        ]
    covariates = [{"name": "lags", "days": [1, 7]}, {"name": "level"}, {"name": "calendar"}]
    return {
        "data": {
            "source": "meters",
            "states": ["all"],
            "clients": client_count,
            "features": ["load", *meters.input_columns],
            "meters": {"exports": [path.as_posix() for path in paths], **keys, "interval": minutes},
        },
        "windows": {
            "look_back": LEAD_MINUTES["day"] // minutes,
            "look_ahead": 1,
            "horizons": LEAD_MINUTES[lead_time] // minutes,
            "split": _split(exports),
            "target": "change",
            "scaling": "per_client",
            "covariates": covariates,
        },
        "model": {"name": "mlp", "hidden": [64, 64]},
        "sharing": PAPER_SCHEMES | {"new": {"join": "unseen", "history": 1}},
        "grid": {
            "sharing": [*PAPER_SCHEMES, "new"],
            "client_opt": ["adamw"],
            "server_opt": ["fedavg"],
            "seeds": [1, 2, 3],
        },
        "federation": {"rounds": 20, "evaluate_every": 1, "batch_size": 64, "loss": "mae"},
        "baselines": {
            "trees": 60,
            "search": {"leaves": [7, 31], "learning_rate": [0.1, 0.3]},
            "max_bin": 31,
            # Half of the time of all baselines; a mean of three is better, see docs/map.md.
            "leave_out": ["lightgbm", "lightgbm_lags", "lightgbm_covariates"],
            "further": [
                {"name": "lightgbm_bagged", "models": 3},
                federated,
                *public,
                {"name": "combined", "of": own_baselines},
                *combined_public,
                {"name": "combined_received", "of": [*own_baselines, *received_baselines]},
            ],
        },
        "claims": [{"better": ["in use"], "than": ["in use alone"]}],  # is it worth it to join?
    }


def _split(exports: Exports) -> list[float]:
    """The shares of training, validation and test: the test set is the last eight weeks, so that a
    claim can be decided, but at most three tenths of the readings, and at least one."""
    longest = max(len(meter.load) * meter.minutes for meter in exports.meters.values())
    test = round(min(0.3, max(0.1, TESTED_MINUTES / longest)), 2)
    return [round(0.9 - test, 2), 0.1, test]


def origins_in_seasons(exports: Exports) -> dict[str, Any] | None:
    """The key `data.origins` of a study with `TEST_SEASONS` test sets of four weeks, a quarter of a
    year from one to the next, the last one at the end of what all meters have; None unless every
    meter that takes part begins `BEFORE_FIRST` weeks before the first and has a week of readings in
    each.
    """
    meters = [*_participants(exports).values()]
    if not meters:
        return None
    end = min(meter.load.index[-1] for meter in meters)
    times = _origins(meters, end, TEST_SEASONS, QUARTER)
    first = Rolling.model_validate(times).dates[0] - timedelta(weeks=BEFORE_FIRST)
    if any(_standard_time(meter, meter.load.index[0]).date() > first for meter in meters):
        return None
    week, tested = MINUTES_PER_WEEK // meters[0].minutes, timedelta(weeks=TESTED_WEEKS)
    starts = [end - timedelta(weeks=QUARTER * number) - tested for number in range(TEST_SEASONS)]
    known_readings = [
        meter.load[start : start + tested].count() for meter in meters for start in starts
    ]
    return times if min(known_readings) >= week else None


def describe_tests(exports: Exports, study: dict[str, Any]) -> str:
    """When a study of `recognise` tests its forecasts, and how to change that, in a line."""
    if times := study["data"].get("origins"):
        dates = [date.isoformat() for date in Rolling.model_validate(times).dates]
        return (
            f"tested at {count_in_words(len(dates), 'time')}, on the {TESTED_WEEKS} weeks from "
            f"{join_words(dates)}; with --origins 1 on the last weeks only, which is faster"
            + _describe_absent(absent(exports, times))
        )
    meters = [*(_participants(exports) or exports.meters).values()]
    weeks = [len(meter.load) * meter.minutes / MINUTES_PER_WEEK for meter in meters]
    test_weeks = study["windows"]["split"][-1] * max(weeks)
    text = (
        f"tested on the last {test_weeks:.2g} weeks; {TEST_SEASONS} times of the year need "
        f"{FEWEST_WEEKS} weeks of readings of every meter"
    )
    if min(weeks) < FEWEST_WEEKS:
        text += f", and here are {int(min(weeks))}"
    younger = [
        name
        for name, meter in _participants(exports).items()
        if len(meter.load) * meter.minutes < FEWEST_WEEKS * MINUTES_PER_WEEK
    ]
    if not younger or len(younger) == len(_participants(exports)):
        return text
    return f"{text} ({counted_names(younger)} {'has' if len(younger) == 1 else 'have'} less)"


def _describe_absent(names: Sequence[str]) -> str:
    """That meters take no part at these times, if some do not."""
    if not names:
        return ""
    verb = "is" if len(names) == 1 else "are"
    return (
        f"\n{counted_names(names)} {verb} left out, for want of readings from two weeks before the "
        "first of these times to the end"
    )


def origins_apart(exports: Exports, count: int) -> dict[str, Any]:
    """The key `data.origins` of a study with several test sets of four weeks: the last one ends
    with the readings, and the others are as far before it as the readings allow, at most a quarter
    of a year from one to the next. Before the first are at least `BEFORE_FIRST` weeks.

    Raises:
        DataError: there are too few readings; the message says how many origins they allow.
    """
    meters = [*(_participants(exports) or exports.meters).values()]
    ends: list[pd.Timestamp] = sorted(meter.load.index[-1] for meter in meters)
    end = ends[len(ends) // 10]  # one of ten meters may end long before the others
    present_meters = (meter for meter in meters if meter.load.index[-1] >= end)
    weeks = max((end - meter.load.index[0]).days // 7 for meter in present_meters)
    step = min(QUARTER, (weeks - TESTED_WEEKS - BEFORE_FIRST) // (count - 1))
    if step < TESTED_WEEKS:
        most_origins = max(1, (weeks - BEFORE_FIRST) // TESTED_WEEKS)
        raise DataError(
            Problem(
                f"--origins {count}",
                f"{weeks} weeks of readings allow {count_in_words(most_origins, 'origin')}: each "
                f"has a test set of {TESTED_WEEKS} weeks, and {BEFORE_FIRST} weeks are before the "
                "first",
                f"say --origins {most_origins}" if most_origins > 1 else "leave it out",
            )
        )
    return _origins(meters, end, count, step)


def _participants(exports: Exports) -> dict[str, Meter]:
    """The meters that have enough readings to take part, by name."""
    short = {*_short(exports)}  # thousands of meters in wide files
    return {name: meter for name, meter in exports.meters.items() if name not in short}


def _origins(meters: Sequence[Meter], end: pd.Timestamp, count: int, step: int) -> dict[str, Any]:
    """The key `data.origins` for this number of test sets, the last of which ends with the last
    whole day before `end`. `step`: weeks from one to the next."""
    last = _standard_time(meters[0], end).date() - timedelta(weeks=TESTED_WEEKS)
    return {"last": last.isoformat(), "count": count, "step": step}


def _standard_time(meter: Meter, stamp: pd.Timestamp) -> pd.Timestamp:
    """A time in UTC on the clock of a study, which never changes."""
    return stamp.tz_localize(None) + standard_offset(meter.zone)


def _judge_at(study: dict[str, Any], origins: dict[str, Any]) -> None:
    """Judge the claims of a study over several origins. Then the choice is made within what is
    known before each of them, so there is no validation set. At each, every meter is new in one of
    two turns, and not of four, which would take three times as many trainings."""
    study["data"]["origins"] = origins
    del study["windows"]["split"]
    study["sharing"]["new"]["turns"] = 2


def save_format(path: Path, exports: Exports, meters: Meters) -> Path:
    """Write the format of the first file, as it was found out and as the keys say, into a new file
    that reads files like it without these keys."""
    form = next(iter(exports.forms.values())).format
    keys = next(iter(exports.keys.values()))
    place = meters.timezone if "timezone" in meters.model_fields_set else form.time.place
    load_keys = {"missing": [*map(str, meters.missing)], "unit": form.load.unit or keys.unit}
    update: dict[str, object] = {"name": path.stem, "date": date.today(), "sample": []}
    update["time"] = form.time.model_copy(update={"place": place, "marks": keys.stamp})
    update["load"] = form.load.model_copy(update=load_keys)
    return write_new(path, as_toml(form.model_copy(update=update)))


def _stated_keys(exports: Exports, meters: Meters) -> dict[str, Any]:
    """The keys that the files state, or that were found out, so that a study says them and later
    files are read alike: the format, the format of the stamps, and the zones of the meters."""
    stated_keys: dict[str, Any] = {**exports.settled_keys}
    names = {form.name for form in exports.forms.values()}
    is_one_format = len(names) == 1
    columns = {(*form.format.meters.column,) for form in exports.forms.values()}
    if names == {None} and len(columns) == 1 and (column := columns.pop()):
        # The rows of one time, a row for each meter, do not tell which column names them.
        stated_keys["columns"] = meters.columns | {"meter": column[0]}
    if meters.format is None and is_one_format and (name := names.pop()) is not None:
        stated_keys["format"] = name
    if is_one_format and meters.date_format is None and (form := _format_of_stamps(exports)):
        stated_keys["date_format"] = form
    zones = {
        name: keys.timezone
        for name, keys in exports.keys.items()
        if "timezone" in keys.model_fields_set - meters.model_fields_set
    }
    if len({*zones.values()}) == 1 and len(zones) == len(exports.keys):
        stated_keys["timezone"] = next(iter(zones.values()))
    elif zones:
        zones = {escape(name): zone for name, zone in zones.items()}
        stated_keys["timezones"] = meters.timezones | zones
    return stated_keys


def _format_of_stamps(exports: Exports) -> str:
    """The format of the stamps of all files, which a few days of them may not tell; empty if it was
    not found out, or differs."""
    forms = exports.forms.values()
    stamp_formats = {text for form in forms for text in form.format.time.format}
    is_found_out = not any(
        form.name is not None and load_format(form.name).time.format for form in forms
    )
    stamp_format = stamp_formats.pop() if len(stamp_formats) == 1 and is_found_out else ""
    return stamp_format if "%" in stamp_format else ""


def write(path: Path, study: dict[str, Any]) -> Path:
    """Write a study of `recognise`, under the name of its file."""
    raw = {"name": path.stem, **study}
    Study.parse(raw, str(path))
    text = yaml.safe_dump(raw, sort_keys=False, allow_unicode=True, default_flow_style=None)
    about = (
        f"# Your own meters. All keys: {root()}/docs/configuration.md.\n"
        "# Windows count intervals: with another data.meters.interval, change look_back and "
        "horizons, too.\n"
    )
    return write_new(path, about + text)
