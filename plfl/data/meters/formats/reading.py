"""Reads a file as its format says: its table becomes one row per meter and time, in kWh or kW."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.errors import DataError
from plfl.config.sections import Meters
from plfl.data.checks import counted
from plfl.data.meters import numbers, quantities, stamps
from plfl.data.meters.formats.recognition import (
    Recognised,
    find_columns,
    fits,
    normalise,
    star_of,
)
from plfl.data.meters.formats.schema import PLAIN, Names, is_fixed
from plfl.data.meters.layout import Layout
from plfl.data.meters.numbers import as_text
from plfl.data.meters.tables import RawTable

_DAY = 24 * 60
_CHANGES = (1, 0, -1)
"""Hours that a day may have less or more than 24."""


@dataclass(frozen=True)
class FormatReading:
    """A file that was read as its format says."""

    table: RawTable
    """The columns `timestamp`, those of the loads, perhaps `meter`, and inputs."""
    columns: Layout
    keys: Meters
    """The keys of the file, with what its format states."""
    needs_place: bool
    """Whether the times depend on a zone that only the user knows."""
    times: stamps.Times
    """The stamps."""
    words: str
    """Format, meters, interval, unit, stamps, and what was left out."""


def read(found: Recognised, meters: Meters) -> FormatReading:
    """The readings of a recognised file.

    Raises:
        DataError: columns or values are not as the format says, or a row is of an unknown kind.
    """
    return _Reader(found, meters).read()


class _Reader:
    """A file on the way from its own table to rows of a meter, a time and a load."""

    def __init__(self, found: Recognised, meters: Meters):
        self.found, self.form, self.meters = found, found.form, meters
        self.path = found.raw.path
        self.cells = found.cells
        self.left_out: dict[str, int] = {}
        """Rows that are left out, by what they are; 0: columns are."""
        self.marked: Counter[str] = Counter()
        """Readings by what their quality marks say."""

    def read(self) -> FormatReading:
        form = self.form
        self._leave_out_columns()
        self._choose_rows()
        self._drop_undated()
        unit, factors = self._unit()
        loads = self._load_columns()
        frame = self._frame(factors, loads)
        self._refuse_empty(frame)
        frame, times, offset = self._with_times(frame)
        values = self._numbers(frame, loads)
        frame = frame.drop(columns=loads).assign(**values)
        frame[loads] = frame[loads].mul(frame["factor"], axis=0)
        frame = frame.assign(timestamp=times)
        self._mark(frame, loads)
        frame, loads = self._join_registers(frame, loads)
        names = list(frame["meter"].unique()) if "meter" in frame else []
        name = "meter" if len(names) > 1 else None
        inputs = self.meters.inputs
        columns = ["timestamp", *(["meter"] if name else []), *loads, *inputs.values()]
        keys = self._keys(unit)
        table = RawTable(
            *(self.path, frame[columns], f"format {self.found.name}"),
            unit=self.found.unit,
            units=dict.fromkeys(loads, unit),
        )
        alone = loads[0] if form.meters.by_column and len(loads) == 1 else None
        layout = Layout(
            *(("timestamp",), tuple(loads), name, inputs, {}, alone), stamp=form.time.marks
        )
        needs_place = form.time.home is None and (times.dt.tz is None or self._is_elapsed())
        words = self._words(frame, unit, max(len(names), len(loads)), needs_place)
        read_times = stamps.Times(frame["timestamp"], "as in the format", offset)
        return FormatReading(table, layout, keys, needs_place, read_times, words)

    # -- columns -----------------------------------------------------------------------------------

    def _column(self, names: Names, key: str, is_needed: bool = True) -> str | None:
        """The column of a role: that of the first of its names that the file has."""
        for name in names:
            if found := find_columns([name], self.cells):
                return found[0]
        if names and is_needed:
            raise DataError(
                f"{self.path}: has no column {' or '.join(map(repr, names))} ({key} of the format "
                f"{self.found.name}); name another format in data.meters.format, or {PLAIN!r} for "
                "none"
            )
        return None

    def _leave_out_columns(self) -> None:
        """Note the columns with values that are left out."""
        for what, names in self.form.left_out.items():
            columns = find_columns(names, self.cells)
            if any(as_text(self.cells[column]).str.strip("0.,- ").any() for column in columns):
                self.left_out[what] = 0

    def _load_columns(self) -> list[str]:
        """The columns of readings. A table with columns of times gets one of readings."""
        time, load = self.form.time, self.form.load
        if time.of_day or time.columns:
            return ["load"]
        found = find_columns(load.columns, self.cells)
        if not found:
            self._column(load.columns, "load.columns")
        return found

    # -- rows --------------------------------------------------------------------------------------

    def _choose_rows(self) -> None:
        """Leave out the rows that are not readings of consumption."""
        for rule in self.form.rows:
            column = self._column(rule.column, "rows.column", is_needed=False)
            if column is None:
                continue
            values = as_text(self.cells[column])
            for what, names in rule.leave_out.items():
                is_out = _fit(values, names)
                self.left_out[what] = self.left_out.get(what, 0) + int(is_out.sum())
                values = values[~is_out]
            for name in rule.use if rule.only_first else ():
                if (is_first := _fit(values, [name])).any():
                    others = int((~is_first).sum())
                    self.left_out[f"other {column}"] = others
                    values = values[is_first]
                    break
            if rule.use and not (is_known := _fit(values, rule.use)).all():
                line = values.index[~is_known][0]
                raise DataError(
                    f"{self._at(line)}: {values[line]!r} in {column!r} is unknown to the format "
                    f"{self.found.name} ({counted(int((~is_known).sum()), 'such row')}); remove "
                    "these rows, or say what they are in a format of your own (docs/own-data.md)"
                )
            self.cells = self.cells.loc[values.index]

    def _drop_undated(self) -> None:
        """Leave out rows without any digit in their time: empty ones, and totals at the end."""
        if column := self._column(self.form.time.column, "time.column"):
            cells = self.cells[column]
            if cells.dtype.kind != "M":
                self.cells = self.cells[as_text(cells).str.contains(r"\d")]

    def _refuse_empty(self, frame: pd.DataFrame) -> None:
        if not len(frame):
            out = self._left_out() or "it has no rows"
            raise DataError(
                f"{self.path}: has no readings of consumption ({out}); export those of the import"
            )

    def _unit(self) -> tuple[str, "pd.Series[float] | float"]:
        """The unit of the readings, kWh or kW, and the factor of each row. Rows in other units are
        left out."""
        load, factors = self.form.load, pd.Series(self.form.load.factor, self.cells.index)
        if column := self._column(load.factor_column, "load.factor_column"):
            table = self._table(self.cells[[column]])
            factors = factors * numbers.read_numbers(table, [column], self.meters)[column]
        if self.meters.unit is not None:
            stated = pd.Series(self.meters.unit, self.cells.index)
        elif column := self._column(load.unit_column, "load.unit_column", is_needed=False):
            cells = as_text(self.cells[column])
            units = {cell: _unit_in(cell) for cell in cells.unique()}
            for cell, unit in units.items():
                if unit not in quantities.LOADS:
                    self.left_out[f"in {cell or 'no unit'}"] = int((cells == cell).sum())
            stated = cells.map(units)
            stated = stated[stated.isin(quantities.LOADS)]
            self.cells = self.cells.loc[stated.index]
        else:
            stated = pd.Series(load.unit or self._stated_unit(), self.cells.index)
        kinds = sorted({"kWh" if unit.endswith("h") else "kW" for unit in stated.unique()})
        if len(kinds) > 1:
            raise DataError(
                f"{self.path}: has readings of energy and of power; keep the rows of one of them"
            )
        factors = factors.loc[stated.index] * stated.map(quantities.KWH)
        return (kinds or ["kWh"])[0], factors

    def _stated_unit(self) -> str:
        """The unit in the preamble, or in the name of the column of readings."""
        load = self.form.load
        if load.unit_pattern is not None:
            match = re.search(load.unit_pattern, self.found.preamble, re.MULTILINE)
            if match and (unit := _unit_in(match[1])) in quantities.LOADS:
                return str(unit)
        else:
            found = {quantities.unit_of(column) for column in self._load_columns()}
            if len(found) == 1 and (unit := found.pop()) in quantities.LOADS:
                return str(unit)
        raise DataError(
            f"{self.path}: does not state the unit of its readings, which differs between files of "
            f"the format {self.found.name}; set data.meters.unit: kWh, or the one that is right"
        )

    # -- readings ----------------------------------------------------------------------------------

    def _frame(self, factors: "pd.Series[float] | float", loads: Sequence[str]) -> pd.DataFrame:
        """The needed parts of all rows under their roles, one row per time: `date`, `clock`,
        `number`, `meter`, `register`, `mark`, `factor`, inputs, and the columns of readings."""
        form, time, cells = self.form, self.form.time, self.cells
        roles = {
            "date": self._column(time.column, "time.column"),
            "clock": self._column(time.clock, "time.clock"),
            "number": self._column(time.number, "time.number"),
            "register": self._column(form.meters.registers, "meters.registers"),
            "mark": self._column(form.quality.column, "quality", False) if form.quality else None,
        }
        frame = pd.DataFrame({r: cells[c] for r, c in roles.items() if c}, index=cells.index)
        frame["factor"] = factors
        if form.meters.column:
            frame["meter"] = self._meter_names()
        inputs = [column for column in self.meters.inputs.values() if column in cells]
        is_long = not (time.of_day or time.columns)
        if len(inputs) < len(self.meters.inputs) or (inputs and not is_long):
            missing = [c for c in self.meters.inputs.values() if c not in inputs] or inputs
            raise DataError(
                f"{self.path}: has no input {missing[0]!r} beside each reading; give it in a table "
                "of its own (data.meters.weather)"
            )
        if is_long:
            return frame.join(cells[[*inputs, *loads]])
        return self._unfolded(frame)

    def _unfolded(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A table with columns for times, with a row for each of them."""
        time = self.form.time
        columns = find_columns(time.of_day or time.columns, self.cells)
        if len(columns) < 2:
            raise DataError(f"{self.path}: has no columns {(time.of_day or time.columns)[0]!r}")
        count = len(columns)
        long = frame.loc[frame.index.repeat(count)]
        long["number" if time.of_day else "date"] = np.tile(
            np.arange(1, count + 1) if time.of_day else np.array(columns, dtype=object), len(frame)
        )
        long["load"] = self.cells[columns].to_numpy(dtype=object).ravel()
        lines = long.index.to_numpy(float) + np.tile(np.arange(count) / count, len(frame)) / 2
        return long.set_axis(pd.Index(lines))

    def _meter_names(self) -> "pd.Series[str]":
        """The name of the meter of each row; one without is refused."""
        column = self._column(self.form.meters.column, "meters.column") or ""
        return numbers.read_names(self._table(self.cells), column).str.strip("'\" ")

    def _numbers(self, frame: pd.DataFrame, loads: Sequence[str]) -> dict[str, "pd.Series[float]"]:
        """The readings in the columns of loads, as in the file."""
        load, keys = self.form.load, self.meters
        update: dict[str, Any] = {"missing": [*keys.missing, *load.missing]}
        if keys.decimal is None and load.decimal is not None:
            update["decimal"] = load.decimal
        return numbers.read_numbers(
            self._table(frame[list(loads)]), loads, keys.model_copy(update=update)
        )

    def _mark(self, frame: pd.DataFrame, loads: Sequence[str]) -> None:
        """Count the readings with marks, and take out those that are none."""
        quality = self.form.quality
        if quality is None or "mark" not in frame:
            return
        marks = as_text(frame["mark"])
        is_missing, is_estimated = _fit(marks, quality.missing), _fit(marks, quality.estimated)
        self.marked["marked as missing"] = int(is_missing.sum())
        self.marked["estimated"] = int(is_estimated.sum())
        frame.loc[is_missing, list(loads)] = np.nan

    def _join_registers(
        self, frame: pd.DataFrame, loads: list[str]
    ) -> tuple[pd.DataFrame, list[str]]:
        """The rows of meters, with the sums of their registers. Of cumulative ones, all must be
        known; of others, a missing one counts nothing."""
        meters, is_total = self.form.meters, self.form.load.cumulative
        if meters.by_column:
            names = {column: self._name_of(column) for column in loads}
            return frame.rename(columns=names), list(names.values())
        if len(loads) > 1:
            used = [column for column in loads if frame[column].notna().any()] or loads[:1]
            total = frame[used].sum(axis=1, min_count=len(used) if is_total else 1)
            frame, loads = frame.drop(columns=loads).assign(load=total), ["load"]
        else:
            frame = frame.rename(columns={loads[0]: "load"})
        if "register" not in frame or frame["register"].nunique() < 2:
            return frame, ["load"]
        if "meter" not in frame:
            frame["meter"] = ""
        counts = frame.groupby("meter")["register"].nunique()
        again = frame.groupby(["meter", "register", "timestamp"]).cumcount()
        groups = frame.assign(line=frame.index, again=again).groupby(
            ["meter", "timestamp", "again"], sort=False
        )
        sums = groups["load"].agg(["sum", "count"]).reset_index()
        needed = sums["meter"].map(counts) if is_total else 1
        lines = groups["line"].first().to_numpy()
        sums["load"] = sums["sum"].where(sums["count"] >= needed)
        return sums[["meter", "timestamp", "load"]].set_axis(pd.Index(lines)), ["load"]

    def _name_of(self, column: str) -> str:
        """The name of a meter with a column: what the `*` in the format stands for."""
        for name in self.form.load.columns:
            if fits(name, normalise(column)):
                return star_of(name, column)
        return column

    # -- times -------------------------------------------------------------------------------------

    def _with_times(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series, timedelta | None]:
        """The rows with a time, their stamps (naive local ones, or in UTC), and the offset that was
        written in these."""
        time = self.form.time
        if time.span is not None:
            text = as_text(frame["date"]).str.replace(r"\s+", " ", regex=True)
            frame["date"] = text.str.partition(time.span)[0]
        times = self._parsed(frame)
        starts, offset = times.stamps, times.offset
        if "number" in frame:
            frame, starts = self._counted(frame, starts)
        if starts.dt.tz is None and time.zone not in ("place", "offset") and is_fixed(time.zone):
            starts = starts.dt.tz_localize(time.zone).dt.tz_convert("UTC")
        if offset is None and starts.dt.tz is not None:
            offset = timedelta(0)
        return frame, starts, offset

    def _parsed(self, frame: pd.DataFrame) -> stamps.Times:
        """The stamps, or the dates, in the first format of which all can be read."""
        columns = ("date", "clock") if "clock" in frame else ("date",)
        table = self._table(frame[list(columns)])
        failure: DataError | None = None
        forms: list[str | None] = [*self.form.time.format]
        for form in forms or [None]:
            keys = self.meters.model_copy(
                update={"date_format": form, "stamp": self.form.time.marks}
            )
            try:
                return stamps.parse(table, columns, keys)
            except DataError as error:
                failure = failure or error
        raise failure or DataError(f"{self.path}: has no times")

    def _counted(self, frame: pd.DataFrame, days: pd.Series) -> tuple[pd.DataFrame, pd.Series]:
        """The starts of intervals that are numbered in their days."""
        time, table = self.form.time, self._table(frame[["number"]].astype(str))
        number = numbers.read_numbers(table, ["number"], self.meters)["number"]
        passed = (number - 1) * self._minutes(int(number.max()))
        # Columns of the longest day, which are empty on others.
        is_over = (passed >= _DAY) & (as_text(frame["load"]) == "" if "load" in frame else False)
        length = pd.to_timedelta(passed, unit="min")
        if not self._is_elapsed():
            return frame[~is_over], (days + length)[~is_over]
        zone = time.zone if time.zone not in ("place", "offset") else self._keys("kWh").timezone
        midnight = days.dt.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
        return frame[~is_over], (midnight.dt.tz_convert("UTC") + length)[~is_over]

    def _is_elapsed(self) -> bool:
        return self.form.time.counts == "elapsed"

    def _minutes(self, count: int) -> int:
        """The length of the intervals of a day, of which there are so many."""
        if self.form.time.minutes is not None:
            return self.form.time.minutes
        for hours in _CHANGES:
            minutes = (24 + hours) * 60 / count
            if minutes == int(minutes) and _DAY % minutes == 0:
                return int(minutes)
        raise DataError(
            f"{self.path}: {count} readings in a day are not at equal distances; set time.minutes "
            "in the format"
        )

    # -- what is said ------------------------------------------------------------------------------

    def _keys(self, unit: str) -> Meters:
        """The keys of the file, with what the format states."""
        update: dict[str, Any] = {"stamp": self.form.time.marks, "unit": unit}
        update["cumulative"] = self.form.load.cumulative
        if self.form.time.home and "timezone" not in self.meters.model_fields_set:
            update["timezone"] = self.form.time.home
        return self.meters.model_copy(update=update)

    def _words(self, frame: pd.DataFrame, unit: str, meters: int, needs_place: bool) -> str:
        time = self.form.time
        steps = np.diff(np.unique(pd.DatetimeIndex(frame["timestamp"]).as_unit("s").asi8))
        usual = pd.Series(steps).mode()
        every = f"every {usual.iloc[0] / 60:g} minutes, " if len(usual) else ""
        zone = self._keys(unit).timezone if time.zone == "place" else time.zone
        if needs_place and "timezone" not in self.meters.model_fields_set:
            zone = "place"
        zone = {"place": "of the place", "offset": "in each of them"}.get(zone, zone)
        kind = "totals of registers in kWh" if self.form.load.cumulative else unit
        parts = [
            f"format {self.found.name} ({self.form.name}): {counted(max(meters, 1), 'meter')}, "
            f"{every}{kind}, stamps at the {time.marks} of intervals, zone: {zone}"
        ]
        parts += [f"{what}: {number}" for what, number in self.marked.items() if number]
        if self.found.others:
            parts.append(f"sheets not read: {', '.join(map(repr, self.found.others))}")
        if out := self._left_out():
            parts.append(out)
        return "; ".join(parts)

    def _left_out(self) -> str:
        """What is left out, in words."""
        out = [
            what + (f" ({counted(rows, 'row')})" if rows else "")
            for what, rows in self.left_out.items()
            if rows or what in self.form.left_out
        ]
        return f"left out: {', '.join(out)}" if out else ""

    def _table(self, cells: pd.DataFrame) -> RawTable:
        """Some columns as a table, for functions that read one."""
        found = self.found
        return RawTable(self.path, cells, "", unit=found.unit, separator=found.separator)

    def _at(self, line: object) -> str:
        return self._table(self.cells).at(line)


def _fit(values: pd.Series, names: Names) -> pd.Series:
    """Which values one of the names fits."""
    unique = values.unique()
    fitting = {value: any(fits(name, normalise(value)) for name in names) for value in unique}
    return values.map(fitting).astype(bool)


def _unit_in(cell: str) -> str | None:
    """The unit that a cell states or is."""
    return quantities.unit_of(f"[{cell}]") or quantities.unit_of(cell)
