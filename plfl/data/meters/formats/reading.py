"""Reads a file as its format says: its table becomes one row per meter and time, in kWh or kW."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from plfl.base.errors import DataError, Place, Problem, collect_problems, data_error
from plfl.base.keys import Key
from plfl.base.minutes import MINUTES_PER_DAY
from plfl.base.text import count_in_words
from plfl.config.meters import Meters
from plfl.config.named import FEATURE_UNITS, PLAUSIBLE, UNITS
from plfl.data.checks import rises_like_register
from plfl.data.meters import numbers, quantities, stamps
from plfl.data.meters.cleaning import FACTOR_CHANGE, REGISTER_SUMS, Piece
from plfl.data.meters.file_contents import NO_CONSUMPTION, NO_READING
from plfl.data.meters.formats.recognition import (
    RecognisedFile,
    find_columns,
    fits,
    normalise,
    star_of,
)
from plfl.data.meters.formats.schema import PLAIN_FORMAT, Format, Names, is_fixed
from plfl.data.meters.meter_selection import is_chosen, meter_of, name_list
from plfl.data.meters.numbers import as_text
from plfl.data.meters.paths import client_name
from plfl.data.meters.questions import UNIT
from plfl.data.meters.shapes import positions_of_day
from plfl.data.meters.tables import RawTable

_CHANGES = (0, 1, -1)
"""Hours that a day may have more or less than 24."""
_MARKS = tuple(sign * mark for mark in (999, 999.9, 9999, 9999.9, 99999) for sign in (-1, 1))
"""Numbers by which weather stations and loggers mark missing values."""
_OTHERS = 3
"""Values of rows that are left out because others are used, that are named."""
_ROUNDING = 0.05
"""The part of the mean load by which it may differ from the rise of its register."""
_RARE = 0.1
"""Registers take turns if at most this part of the times has readings of several."""


@dataclass(frozen=True)
class FileReading:
    """A file that was read as its format says."""

    pieces: dict[str, Piece]
    """The readings of each selected meter."""
    names: list[str]
    """All meters."""
    registers: list[str]
    """The names in the file before `data.meters.add` joins some of them; of a lone meter, none."""
    keys: Meters
    """The keys of the file, with what it states."""
    needs_place: bool
    """Whether the times depend on a zone that only the user knows."""
    form: Format
    """Its format, with the format of its stamps."""
    words: str
    """Its form, meters, interval, unit, stamps, and what was left out."""


def read(
    recognised_file: RecognisedFile,
    meters: Meters,
    lone_name: str | None = None,
    file_name: str = "",
    has_name_of_rows: bool = False,
) -> FileReading:
    """The readings of a file with a known format, or with one that was found out. A lone meter is
    named `lone_name`, or, if asked (`has_name_of_rows`), as its rows say, or like its column or its
    file, by default without its ending (`file_name`).

    Raises:
        DataError: columns or values are not as the format says, or a row is of an unknown kind.
    """
    return _Reader(recognised_file, meters, lone_name, file_name, has_name_of_rows).read()


class _Reader:
    """A file on the way from its own table to the readings of meters."""

    def __init__(
        self,
        recognised_file: RecognisedFile,
        meters: Meters,
        lone_name: str | None,
        file_name: str,
        has_name_of_rows: bool,
    ):
        self.recognised_file, self.meters = recognised_file, meters
        self.path, self.lone_name = recognised_file.raw.path, lone_name
        self.file_name = file_name or client_name(self.path)
        self.cells = recognised_file.cells
        self.form = self._with_zone(recognised_file.form)
        if meters.add is not None:
            own_names = self.form.meters.model_copy(update={"add": meters.add})
            self.form = self.form.model_copy(update={"meters": own_names})
        self.values = recognised_file.cells
        """The columns of readings and inputs, in the rows of `_frame`."""
        self.left_out: dict[str, int] = {}
        """Rows that are left out, by what they are; 0: columns are."""
        self.unused_names: list[str] = []
        """Names in a format of one's own that fit nothing, in words."""
        self.registers: list[str] = []
        """Names of meters, or of their registers, as in the file."""
        self.mark_counts: Counter[str] = Counter()
        """Readings by what their quality marks say."""
        self.has_name_of_rows = has_name_of_rows
        """Whether a lone meter has the name in its rows."""
        self.is_scaled = False
        """Whether a factor has changed readings."""

    def read(self) -> FileReading:
        if not len(self.cells):
            text = "has a header and no reading yet"
            raise DataError(Problem(self.path, text, "export it again", kind=NO_READING))
        self._leave_out_columns()
        self._choose_rows()
        if self.recognised_file.name is not None:
            self._drop_undated()
        if self.form.time.end:
            self._leave_out_longer()
        self._refuse_empty()
        unit, factors = self._unit()
        keys = self._keys(unit)
        frame, loads = self._frame(factors)
        names = self._names_of(frame, loads)
        wanted_names = dict.fromkeys(name for name in names if is_chosen(name, self.meters))
        name_of = dict(zip(loads, names, strict=False))
        if len(loads) > 1 and self.form.meters.by_column:
            loads = [column for column in loads if name_of[column] in wanted_names]
        problems: list[Problem] = []
        inputs = list(self.meters.input_columns.values())
        with collect_problems(problems):
            frame, times = self._rows_with_times(frame, keys)
        register = self._column(
            self.form.load.register_column, "load.register_column", is_needed=False
        )
        with collect_problems(problems):
            values = self._numbers(frame, [*loads, *inputs, *filter(None, [register])])
        if problems:
            raise DataError(*problems)
        readings = values[loads].set_axis(frame.index)
        if register and len(loads) == 1:
            self._fill_from_register(readings, values[register].set_axis(frame.index), times)
        if isinstance(factors, pd.Series):
            readings = readings.mul(frame["factor"], axis=0)
            self.is_scaled = bool((frame["factor"] != 1).any())
        self._take_out_marked(frame, readings)
        inputs_by_role = {
            role: self._convert_input(role, values[c])
            for role, c in self.meters.input_columns.items()
        }
        table = self.recognised_file.table or RawTable(
            self.path, frame, "", row_word=self.recognised_file.row_word
        )
        whole_piece = Piece(
            table, times, readings, pd.DataFrame(inputs_by_role, index=frame.index), {}
        )
        pieces = self._pieces_by_meter(
            whole_piece, frame, {c: name_of.get(c, "") for c in loads}, wanted_names
        )
        is_local = times.offset is None or (self._is_elapsed() and "number" in frame)
        needs_place = is_local and self.form.time.home is None
        words = self._words(times, keys, len(set(names)), needs_place)
        form = self.form
        if not form.time.format and ("%" in times.format or times.format == "ISO8601"):
            # Midnight at the end of its date is found out again.
            stamp_format, *_ = times.format.split(", midnight")
            time = form.time.model_copy(update={"format": [stamp_format]})
            form = form.model_copy(update={"time": time})
        unique_names = list(dict.fromkeys(names))
        return FileReading(pieces, unique_names, self.registers, keys, needs_place, form, words)

    def _with_zone(self, form: Format) -> Format:
        """The format with the zone in the name of the column of its stamps, unless it says one."""
        columns = find_columns([*form.time.column, *form.time.clock], self.cells)
        zone = next(filter(None, map(stamps.zone_in, columns)), None)
        if zone is None or form.time.zone != "place":
            return form
        stated_zone = self.meters.timezone
        is_stated = "timezone" in self.meters.model_fields_set
        if is_stated and not is_fixed(zone) and not _are_equal_zones(zone, stated_zone):
            key = Key("data.meters.timezone")
            raise data_error(
                self.path,
                f"has times of {zone} by the name of their column, and {key} is {stated_zone}",
                f"correct {key}, or rename the column",
            )
        return form.model_copy(update={"time": form.time.model_copy(update={"zone": zone})})

    # -- columns -----------------------------------------------------------------------------------

    def _column(self, names: Names, key: str, is_needed: bool = True) -> str | None:
        """The column of a role: that of the first of its names that the file has."""
        for name in names:
            if columns := find_columns([name], self.cells):
                return columns[0]
        if names and is_needed:
            raise data_error(
                self.path,
                f"has no column {' or '.join(map(repr, names))} ({key} of the format "
                f"{self.recognised_file.name})",
                f"name another format in {Key('data.meters.format')}, or {PLAIN_FORMAT!r} for none",
            )
        return None

    def _leave_out_columns(self) -> None:
        """Note the columns with values that are left out."""
        loads = find_columns(self.form.load.columns, self.cells)
        others = [k for k, names in self.form.left_out.items() if find_columns(names, self.cells)]
        if self.form.load.columns and others and not loads:
            raise self._without_consumption(f"only {', '.join(others)}")
        is_own = str(self.recognised_file.name).endswith(".toml")
        for kind, names in self.form.left_out.items():
            if is_own and not find_columns(names, self.cells):
                self.unused_names.append(f"left_out.{kind} fits no column")
            columns = [name for name in find_columns(names, self.cells) if name not in loads]
            if any(as_text(self.cells[column]).str.strip("0.,- ").any() for column in columns):
                self.left_out[kind] = 0

    def _load_columns(self) -> list[str]:
        """The columns of readings. A table with columns of times gets one of readings."""
        time, load = self.form.time, self.form.load
        if time.of_day or time.columns:
            return ["load"]
        columns = find_columns(load.columns, self.cells)
        if not columns:
            self._column(load.columns, "load.columns")
        return columns

    # -- rows --------------------------------------------------------------------------------------

    def _choose_rows(self) -> None:
        """Leave out the rows that are not readings of consumption."""
        for rule in self.form.rows:
            column = self._column(rule.column, "rows.column", is_needed=False)
            if column is None:
                continue
            values = as_text(self.cells[column])
            is_applied = not rule.beside or _fit(values, rule.beside).any()
            for kind, names in rule.leave_out.items() if is_applied else ():
                is_out = _fit(values, names) & ~_fit(values, rule.beside)
                self.left_out[kind] = self.left_out.get(kind, 0) + int(is_out.sum())
                values = values[~is_out]
            for name in rule.use if rule.only_first else ():
                if (is_first := _fit(values, [name])).any():
                    other_values = values[~is_first]
                    listing = (
                        f": {name_list([*map(str, other_values.unique()[:_OTHERS])])}"
                        if len(other_values)
                        else ""
                    )
                    self.left_out[f"other {column}{listing}"] = len(other_values)
                    values = values[is_first]
                    break
            if rule.use and not (is_known := _fit(values, rule.use)).all():
                line = values.index[~is_known][0]
                raise data_error(
                    self._place_of(line),
                    f"{values[line]!r} in {column!r} is unknown to the format "
                    f"{self.recognised_file.name} "
                    f"({count_in_words(int((~is_known).sum()), 'such row')})",
                    "remove these rows, or say what they are in a format of your own "
                    "(docs/own-data.md)",
                )
            self.cells = self.cells.loc[values.index]

    def _drop_undated(self) -> None:
        """Leave out the last rows if there is no digit in their time, such as those of totals."""
        column = self._column(self.form.time.column, "time.column")
        if column and self.cells[column].dtype.kind != "M" and len(self.cells):
            is_dated = as_text(self.cells[column]).str.contains(r"\d").to_numpy()
            self.cells = self.cells.iloc[: len(is_dated) - int(is_dated[::-1].argmax())]

    def _leave_out_longer(self) -> None:
        """Leave out rows of longer intervals than the shortest, such as sums of days; the one in
        which clocks go forward only seems to be longer."""
        start, end = (
            self._parse_times(pd.DataFrame({"date": self.cells[column]}), self.meters).stamps
            for column in (
                self._column(self.form.time.column, "time.column"),
                self._column(self.form.time.end, "time.end"),
            )
        )
        length = end - start
        shortest = length[length > pd.Timedelta(0)].min()
        is_longer = (length > 1.5 * shortest) & (length != shortest + pd.Timedelta(hours=1))
        self.left_out["longer intervals of the same energy"] = int(is_longer.sum())
        self.cells = self.cells[~is_longer]

    def _refuse_empty(self) -> None:
        if not len(self.cells):
            raise self._without_consumption(self._left_out() or "it has no rows")

    def _without_consumption(self, reason: str) -> DataError:
        text = f"has no readings of consumption ({reason})"
        return DataError(
            Problem(self.path, text, "export those of the import", kind=NO_CONSUMPTION)
        )

    def _unit(self) -> tuple[str | None, "pd.Series[float] | None"]:
        """The unit of the readings, None if a file in no known format does not state it, and the
        factor of each row that makes it so, if any. Rows in other units are left out."""
        load, factors = self.form.load, None
        if column := self._column(load.factor_column, "load.factor_column"):
            table = self._table(self.cells[[column]])
            factors = numbers.read_numbers(table, [column], self.meters)[column] * load.factor
        elif load.factor != 1:
            factors = pd.Series(load.factor, self.cells.index)
        column = self._column(load.unit_column, "load.unit_column", is_needed=False)
        if self.meters.unit is not None or column is None:
            return self.meters.unit or load.unit or self._stated_unit(), factors
        cells = as_text(self.cells[column])
        units = {cell: str(_unit_in(cell)) for cell in cells.unique()}
        for cell, unit in units.items():
            if unit not in quantities.LOAD_UNITS:
                self.left_out[f"in {cell or 'no unit'}"] = int((cells == cell).sum())
        stated_units = cells.map(units)
        stated_units = stated_units[stated_units.isin(quantities.LOAD_UNITS)]
        self.cells = self.cells.loc[stated_units.index]
        self._refuse_empty()
        if len(stated_units.unique()) == 1:
            return str(stated_units.iloc[0]), factors
        kinds = {"kWh" if unit.endswith("h") else "kW" for unit in stated_units.unique()}
        if len(kinds) > 1:
            raise data_error(
                self.path, "has readings of energy and of power", "keep the rows of one of them"
            )
        kilo_factors = stated_units.map(quantities.KWH)
        return kinds.pop(), kilo_factors if factors is None else factors.loc[
            stated_units.index
        ] * kilo_factors

    def _stated_unit(self) -> str | None:
        """The unit in the preamble, or in the name of the column of readings."""
        load = self.form.load
        if self.recognised_file.name is None:
            return None
        if load.unit_pattern is not None:
            match = re.search(load.unit_pattern, self.recognised_file.preamble, re.MULTILINE)
            if match and (unit := _unit_in(match[1])) in quantities.LOAD_UNITS:
                return str(unit)
        else:
            units = {quantities.unit_of(column) for column in self._load_columns()}
            if len(units) == 1 and (unit := units.pop()) in quantities.LOAD_UNITS:
                return str(unit)
        raise data_error(
            self.path,
            "does not state the unit of its readings, which differs between files of the "
            f"format {self.recognised_file.name}",
            f"set {Key('data.meters.unit', 'kWh')}, or the one that is right",
            Key("data.meters.unit", UNIT),
        )

    # -- readings ----------------------------------------------------------------------------------

    def _frame(self, factors: "pd.Series[float] | None") -> tuple[pd.DataFrame, list[str]]:
        """What says to which time and meter all rows belong, one row per time, and the columns of
        readings (see `values`). It has columns `date`, `clock`, `offset`, `number`, `sequence`,
        `minutes`, `meter`, `register`, `mark` and `factor`, as far as they are needed."""
        form, time, cells = self.form, self.form.time, self.cells
        roles = {
            "date": self._column(time.column, "time.column"),
            "clock": self._column(time.clock, "time.clock"),
            "offset": self._column(time.offset, "time.offset"),
            "number": self._column(time.number, "time.number"),
            "sequence": self._column(time.sequence, "time.sequence"),
            "minutes": self._column(time.minutes_column, "time.minutes_column"),
            "register": self._column(form.meters.registers, "meters.registers"),
            "mark": self._quality_column(),
        }
        frame = pd.DataFrame({r: cells[c] for r, c in roles.items() if c}, index=cells.index)
        if factors is not None:
            frame["factor"] = factors
        if column := self._column(form.meters.column, "meters.column"):
            registers = numbers.read_names(self._table(cells), column).str.strip("'\" ")
            meters = {name: self._meter(name) for name in registers.unique()}
            frame["meter"] = [meters[name] for name in registers]
            if form.meters.add is not None and "register" not in frame:
                frame["register"] = registers
        is_long = not (time.of_day or time.columns)
        inputs = list(self.meters.input_columns.values())
        if missing := [column for column in inputs if not is_long or column not in cells]:
            raise data_error(
                self.path,
                f"has no input {missing[0]!r} beside each reading",
                f"give it in a table of its own ({Key('data.meters.weather')})",
            )
        loads = self._load_columns()
        if column := self._column(form.load.substitute, "load.substitute", is_needed=False):
            is_substituted = (as_text(cells[loads[0]]) == "") & (as_text(cells[column]) != "")
            cells = cells.assign(**{loads[0]: cells[loads[0]].mask(is_substituted, cells[column])})
            self.mark_counts["substitutes"] = int(is_substituted.sum())
        self.values = cells
        return frame if is_long else self._unfold(frame), loads

    def _unfold(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A table with columns for times, with a row for each of them."""
        time = self.form.time
        columns = find_columns(time.of_day or time.columns, self.cells)
        if len(columns) < 2:
            raise data_error(self.path, f"has no columns {(time.of_day or time.columns)[0]!r}")
        count = len(columns)
        long = frame.loc[frame.index.repeat(count)]
        long["number" if time.of_day else "date"] = np.tile(
            np.array(positions_of_day(columns) if time.of_day else columns, dtype=object),
            len(frame),
        )
        values = self.cells[columns].to_numpy(dtype=object).ravel()
        lines = long.index.to_numpy(float) + np.tile(np.arange(count) / count, len(frame)) / 2
        self.values = pd.DataFrame({"load": values}, index=pd.Index(lines))
        return long.set_axis(self.values.index)

    def _numbers(self, frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
        """The numbers in columns, as in the file."""
        load, keys = self.form.load, self.meters
        update: dict[str, Any] = {"missing": [*keys.missing, *load.missing]}
        is_typed = self.recognised_file.raw.is_workbook  # numbers and dates of the program
        if keys.decimal is None and load.decimal is not None and not is_typed:
            update["decimal"] = load.decimal
        table = self.recognised_file.table
        if table is None or len(table.cells) != len(frame) or "number" in frame:
            cells = self.values[list(columns)]
            has_all = cells.index.equals(frame.index)
            table = self._table(cells if has_all else cells.loc[frame.index])
        return numbers.read_numbers(table, columns, keys.model_copy(update=update))

    def _convert_input(self, role: str, raw_values: pd.Series) -> pd.Series:
        """An input in the unit of its feature. Values that the feature cannot have, such as
        -9999 °C, and usual marks of missing values far from all others are refused."""
        values = raw_values
        if role in self.meters.units and role in UNITS:
            factor, summand = UNITS[role][self.meters.units[role]]
            values = raw_values * factor + summand
        lowest, highest = PLAUSIBLE.get(role, (-np.inf, np.inf))
        is_impossible = (values < lowest) | (values > highest)
        if is_impossible.any():
            ends = f"between {lowest:g} and {highest:g}"
            span = f"from {lowest:g} on" if highest == np.inf else ends
            units = f", or set {Key(f'data.meters.units.{role}')} ({', '.join(UNITS[role])})"
            words = f"is no {role}, which is {span} {FEATURE_UNITS[role]}"
            raise self._refusal_of_input(raw_values, is_impossible, words, units)
        marks = raw_values.isin(_MARKS)
        measured = raw_values[~marks].dropna()
        lowest, highest = measured.min(), measured.max()
        if marks.any() and lowest < highest:
            distance = np.maximum(lowest - raw_values, raw_values - highest)
            is_far = marks & (distance > highest - lowest)
            if is_far.any():
                words = f"is far from all others, which are between {lowest:g} and {highest:g}"
                raise self._refusal_of_input(raw_values, is_far, words, "")
        return values

    def _refusal_of_input(
        self, raw_values: pd.Series, is_wrong: "pd.Series[bool]", words: str, remedy: str
    ) -> DataError:
        """The error about values of an input, in words, with a further remedy."""
        row = int(is_wrong.to_numpy().argmax())
        value = f"{raw_values.iloc[row]:.15g}"
        return data_error(
            self._place_of(raw_values.index[row]),
            f"{raw_values.name} {value} {words} "
            f"({count_in_words(int(is_wrong.sum()), 'such value')})",
            "say that it means a missing reading with "
            f"{Key('data.meters.missing', f'[{value}]')}{remedy}",
        )

    def _quality_column(self) -> str | None:
        """The column of the marks of quality, if the format has one."""
        quality = self.form.quality
        if quality is None:
            return None
        return self._column(quality.column, "quality.column", not quality.is_optional)

    def _fill_from_register(
        self, readings: pd.DataFrame, register: pd.Series, times: stamps.Times
    ) -> None:
        """Read the loads of rows without one from the register beside them, if it rises by the
        others."""
        loads = readings.iloc[:, 0]
        ordered_stamps = times.stamps.loc[readings.index].sort_values(kind="stable")
        steps = ordered_stamps.diff()
        rises = register.loc[ordered_stamps.index].diff().where(steps == steps.mode().get(0))
        rises = rises.reindex(loads.index)
        is_known = loads.notna() & rises.notna()
        is_equal = np.isclose(rises, loads, rtol=0, atol=_ROUNDING * loads.mean())
        is_filled = loads.isna() & (rises >= 0)
        if is_known.any() and is_equal[is_known].mean() > 1 - _RARE:
            readings.loc[is_filled, loads.name] = rises[is_filled]
            self.mark_counts["from the register"] = int(is_filled.sum())

    def _take_out_marked(self, frame: pd.DataFrame, readings: pd.DataFrame) -> None:
        """Count the readings with marks, and take out those that are none."""
        quality = self.form.quality
        if quality is None or "mark" not in frame:
            return
        marks = as_text(frame["mark"])
        is_missing, is_estimated = _fit(marks, quality.missing), _fit(marks, quality.estimated)
        is_known = is_missing | is_estimated | _fit(marks, quality.measured)
        if quality.measured and not is_known.all():
            line = marks.index[~is_known][0]
            raise data_error(
                self._place_of(line),
                f"the mark {marks[line]!r} is unknown to the format "
                f"{self.recognised_file.name} "
                f"({count_in_words(int((~is_known).sum()), 'such row')})",
                "add it to quality.measured, quality.estimated or quality.missing of the format",
            )
        self.mark_counts["marked as missing"] = int(is_missing.sum())
        self.mark_counts["estimated"] = int(is_estimated.sum())
        readings.loc[is_missing] = np.nan

    # -- meters ------------------------------------------------------------------------------------

    def _names_of(self, frame: pd.DataFrame, loads: Sequence[str]) -> list[str]:
        """The meters of the columns of readings, or those in the rows."""
        lone = self.lone_name or self.file_name
        if "meter" in frame:
            names = list(map(str, frame["meter"].unique()))
            return names if len(names) > 1 or self.has_name_of_rows else [lone]
        if not self.form.meters.by_column:
            return [lone]
        names = [self._meter(self._name_of(column)) for column in loads]
        return names if len(loads) > 1 else [self.lone_name or names[0]]

    def _name_of(self, column: str) -> str:
        """The name of a meter with a column: what the `*` in the format stands for."""
        if column in self.recognised_file.column_names:
            return self.recognised_file.column_names[column]
        for name in self.form.load.columns:
            if fits(name, normalise(column)):
                return star_of(name, column)
        return column

    def _meter(self, register: str) -> str:
        """The name of the meter to which a register belongs."""
        self.registers.append(register)
        return meter_of(register, self.form.meters.add) or self.file_name

    def _pieces_by_meter(
        self,
        whole_piece: Piece,
        frame: pd.DataFrame,
        names: Mapping[str, str],
        wanted_names: Iterable[str],
    ) -> dict[str, Piece]:
        """The readings of each meter in a piece with those of all."""
        if "meter" in frame or "register" in frame:
            return self._pieces_by_rows(whole_piece, frame, wanted_names)
        columns_of: dict[str, list[str]] = {}
        for column, name in names.items():
            columns_of.setdefault(name, []).append(column)
        if not self.form.meters.by_column:
            (name,) = wanted_names or [""]
            columns_of = {name: list(map(str, whole_piece.readings))}
        columns_of = {name: columns for name, columns in columns_of.items() if name in wanted_names}
        readings_of = dict(
            zip(whole_piece.readings, whole_piece.readings.to_numpy().T, strict=True)
        )
        sums = {
            name: self._sum(whole_piece.readings[columns], whole_piece.times, name)
            if len(columns) > 1
            else readings_of[columns[0]]
            for name, columns in columns_of.items()
        }
        first = {name: columns[0] for name, columns in columns_of.items()}
        readings = pd.DataFrame(sums, whole_piece.readings.index)
        changes = {
            name: self._changes(len(readings), is_sum=len(columns) > 1)
            for name, columns in columns_of.items()
        }
        piece = Piece(
            whole_piece.table, whole_piece.times, readings, whole_piece.inputs, first, changes
        )
        return dict.fromkeys(sums, piece)

    def _pieces_by_rows(
        self, whole_piece: Piece, frame: pd.DataFrame, wanted_names: Iterable[str]
    ) -> dict[str, Piece]:
        """The readings of each meter whose rows have its name, or those of its registers."""
        wanted_names, column = dict.fromkeys(wanted_names), str(whole_piece.readings.columns[0])
        loads = whole_piece.readings[column]
        if len(whole_piece.readings.columns) > 1:
            sums = self._sum(whole_piece.readings, whole_piece.times, column)
            loads = pd.Series(sums, loads.index)
        is_lone = "meter" not in frame or frame["meter"].nunique() < 2
        lone = pd.Series(next(iter(wanted_names), ""), frame.index, dtype=object)
        meter_of_row = lone if is_lone else frame["meter"]
        pieces = {}
        for meter, lines in meter_of_row.groupby(meter_of_row, sort=False).groups.items():
            name = str(meter)
            if name not in wanted_names:
                continue
            rows = loads.loc[lines].to_frame(name)
            is_sum = "register" in frame and len(frame["register"].loc[lines].unique()) > 1
            if is_sum:
                rows = self._register_sums(rows, frame["register"].loc[lines], whole_piece.times)
            inputs = whole_piece.inputs.loc[rows.index]
            is_sum |= len(whole_piece.readings.columns) > 1
            changes = {name: self._changes(len(rows), is_sum)}
            pieces[name] = Piece(
                whole_piece.table, whole_piece.times, rows, inputs, {name: column}, changes
            )
        return pieces

    def _changes(self, count: int, is_sum: bool) -> Counter[str]:
        """What was done to so many readings of a meter."""
        return +Counter({REGISTER_SUMS: count * is_sum, FACTOR_CHANGE: count * self.is_scaled})

    def _register_sums(
        self, rows: pd.DataFrame, registers: pd.Series, times: stamps.Times
    ) -> pd.DataFrame:
        """The sums of the registers of a meter, in the first rows of their times."""
        stamp = times.stamps.loc[rows.index]
        repetition = stamp.groupby([registers, stamp]).cumcount()  # of hours that clocks repeat
        keyed = pd.DataFrame({"stamp": stamp, "repetition": repetition, "line": rows.index})
        keyed = keyed.assign(register=registers, value=rows.iloc[:, 0])
        keys = ["stamp", "repetition"]
        values = keyed.pivot(index=keys, columns="register", values="value")
        lines = keyed.groupby(keys)["line"].first()
        total = pd.Series(
            self._sum(values, None, rows.columns[0]), lines.to_numpy(), name=rows.columns[0]
        )
        return total.reindex(rows.index[rows.index.isin(lines)]).to_frame()

    def _sum(self, registers: pd.DataFrame, times: stamps.Times | None, meter: str) -> np.ndarray:
        """The sum of registers. Where some of them are missing, it is missing, too, unless they
        take turns: then the others have counted nothing. Of registers that follow each other, such
        as those before and after a bill, the blanks before the first and after the last reading are
        zeros while another one counts. Without `times`, rows are in order. Totals that take turns
        are refused, unless it is known that they are totals."""
        registers = registers.loc[:, registers.notna().any()]
        takes_turns = (registers.notna().sum(axis=1) > 1).mean() <= _RARE
        order = np.arange(len(registers))
        if times is not None:
            order = np.argsort(times.stamps.loc[registers.index].to_numpy(), kind="stable")
        ordered = registers.iloc[order]
        is_handed_over = not self._is_total() and _follow_each_other(ordered)
        if is_handed_over or (takes_turns and len(registers.columns) > 1):
            if self._is_total():
                ordered = ordered.ffill()
            else:
                self._refuse_totals(ordered, meter)
            if is_handed_over:
                is_outside = ordered.ffill().isna() | ordered.bfill().isna()
                counts = ordered.where(ordered > 0)
                is_counting = (counts.ffill().notna() & counts.bfill().notna()).any(axis=1)
                is_counting &= ordered.notna().any(axis=1)
                ordered = ordered.mask(is_outside.mul(is_counting, axis=0), 0.0)
                takes_turns = False
            registers = ordered.loc[registers.index]
        min_count = 1 if takes_turns and not self._is_total() else len(registers.columns)
        return registers.sum(axis=1, min_count=max(min_count, 1)).to_numpy()

    def _refuse_totals(self, registers: pd.DataFrame, meter: str) -> None:
        """Ask whether registers, one column each, have totals, if nobody has said that they do not:
        the sum of those that take turns falls, unlike that of others."""
        is_settled = "cumulative" in self.meters.model_fields_set
        if is_settled or self.recognised_file.name is not None:
            return
        totals = [str(name) for name in registers if rises_like_register(registers[name])]
        if totals:
            text = "registers whose readings hardly ever decrease, like totals, take turns"
            raise DataError(
                Problem(
                    Place(self.path, meter=meter),
                    f"{text} ({', '.join(map(repr, totals))})",
                    f"set {Key('data.meters.cumulative', 'true')}, or "
                    f"{Key('data.meters.cumulative', 'false')} if they are loads",
                    meter,
                    text,
                )
            )

    def _is_total(self) -> bool:
        return self.meters.cumulative or self.form.load.cumulative

    # -- times -------------------------------------------------------------------------------------

    def _rows_with_times(
        self, frame: pd.DataFrame, keys: Meters
    ) -> tuple[pd.DataFrame, stamps.Times]:
        """The rows with a time, and their stamps: naive local ones, or in UTC."""
        time = self.form.time
        if time.span is not None:
            text = as_text(frame["date"]).str.replace(r"\s+", " ", regex=True)
            frame = frame.assign(date=text.str.partition(time.span)[0])
        times = self._parse_times(frame, keys)
        if "offset" in frame and times.offset is None:
            times = times.with_offsets(self._offsets(frame["offset"]))
        starts, offset = times.stamps, times.offset
        if "number" in frame:
            frame, starts = self._times_by_day_number(frame, starts, keys)
        if "sequence" in frame:
            starts = self._times_by_number(frame, starts)
        if starts.dt.tz is None and time.zone not in ("place", "offset") and is_fixed(time.zone):
            starts = starts.dt.tz_localize(time.zone).dt.tz_convert("UTC")
        if offset is None and starts.dt.tz is not None:
            offset = timedelta(0)
        return frame, replace(times, stamps=starts, offset=offset)

    def _offsets(self, cells: pd.Series) -> pd.Series:
        """The UTC offsets in the cells beside the stamps."""
        if (offsets := stamps.read_offsets(cells)) is None:
            column = self._column(self.form.time.offset, "time.offset")
            remedy = "correct time.offset in the format"
            raise data_error(self.path, f"{column!r} has other values than UTC offsets", remedy)
        return offsets

    def _parse_times(self, frame: pd.DataFrame, keys: Meters) -> stamps.Times:
        """The stamps, or the dates, in the first format of which all can be read."""
        columns = ("date", "clock") if "clock" in frame else ("date",)
        table = self._table(frame)
        failure: DataError | None = None
        formats: list[str | None] = [*self.form.time.format] or [keys.date_format]
        if self.recognised_file.raw.is_workbook:  # dates that are none of text
            formats.append("%Y-%m-%d %H:%M:%S")
        for form in formats:
            try:
                form_keys = keys.model_copy(update={"date_format": form})
                return stamps.parse(table, columns, form_keys)
            except DataError as error:
                failure = failure or error
        raise failure or data_error(self.path, "has no times")

    def _times_by_day_number(
        self, frame: pd.DataFrame, days: pd.Series, keys: Meters
    ) -> tuple[pd.DataFrame, pd.Series]:
        """The starts of intervals that are numbered in their days, in their order."""
        time, table = self.form.time, self._table(frame[["number"]].astype(str))
        number = numbers.read_numbers(table, ["number"], self.meters)["number"]
        minutes = self._minutes(int(number.max()))
        minutes_elapsed = (np.ceil(number) - 1) * minutes
        is_over = minutes_elapsed >= MINUTES_PER_DAY
        is_repeated = number % 1 > 0
        if time.of_day:  # columns of the longest day, which are empty on others
            is_over = (is_over | is_repeated) & (as_text(self.values["load"]) == "")
        elif self._is_elapsed():
            is_over &= minutes_elapsed >= MINUTES_PER_DAY + 60
        length = pd.to_timedelta(minutes_elapsed, unit="min")
        zone = time.zone if time.zone not in ("place", "offset") else keys.timezone
        if is_repeated.any():  # the hour before it, or the one after it
            hours = (days + length).dt.tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
            length -= pd.to_timedelta(minutes * (is_repeated & hours.notna()), unit="min")
        if self._is_elapsed():
            days = days.dt.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
            days = days.dt.tz_convert("UTC")
        starts = (days + length)[~is_over]
        order = np.argsort(starts.to_numpy(), kind="stable") if time.of_day else slice(None)
        return frame[~is_over].iloc[order], starts.iloc[order]

    def _times_by_number(self, frame: pd.DataFrame, firsts: pd.Series) -> pd.Series:
        """The starts of intervals that are numbered since the first."""
        columns = ["sequence", *({"minutes"} & {*frame})]
        cells = frame[columns].astype(str)
        if "minutes" in cells and cells["minutes"].str.fullmatch(r"PT\d+[HM]").all():
            minutes = pd.to_timedelta(cells["minutes"]) / pd.Timedelta(minutes=1)
            cells["minutes"] = minutes.astype(str)
        table = self._table(cells)
        numbers_of_rows = numbers.read_numbers(table, columns, self.meters)
        minutes = numbers_of_rows.get("minutes", pd.Series(self.form.time.minutes, frame.index))
        return firsts + pd.to_timedelta((numbers_of_rows["sequence"] - 1) * minutes, unit="min")

    def _is_elapsed(self) -> bool:
        return self.form.time.counts == "elapsed"

    def _minutes(self, count: int) -> int:
        """The length of the intervals of a day, of which there are so many."""
        if self.form.time.minutes is not None:
            return self.form.time.minutes
        for hours in _CHANGES:
            minutes = (24 + hours) * 60 / count
            if minutes == int(minutes) and MINUTES_PER_DAY % minutes == 0:
                return int(minutes)
        raise data_error(
            self.path,
            f"{count} readings in a day are not at equal distances",
            "set time.minutes in the format",
        )

    # -- what is said ------------------------------------------------------------------------------

    def _keys(self, unit: str | None) -> Meters:
        """The keys of the file, with what it states."""
        update: dict[str, Any] = {"unit": unit}
        if self.recognised_file.name is None:
            update |= (
                {"stamp": self.form.time.marks} if self.recognised_file.is_stamp_stated else {}
            )
        else:
            update |= {"stamp": self.form.time.marks, "cumulative": self.form.load.cumulative}
        if self.form.time.home and "timezone" not in self.meters.model_fields_set:
            update["timezone"] = self.form.time.home
        return self.meters.model_copy(update=update)

    def _words(self, times: stamps.Times, keys: Meters, meters: int, needs_place: bool) -> str:
        """The form of the file: its meters, interval, unit and stamps, and what is left out."""
        time, recognised_file, unit = self.form.time, self.recognised_file, keys.unit
        if recognised_file.name is None:
            words = f"{recognised_file.about}, stamps {times.format}"
            words += f" at the {time.marks} of intervals" if recognised_file.is_stamp_stated else ""
            return (
                words
                + (f", in {unit}" if unit not in (None, "kWh") else "")
                + recognised_file.notes
            )
        steps = np.diff(np.unique(pd.DatetimeIndex(times.stamps).as_unit("s").asi8))
        usual = pd.Series(steps).mode()
        interval_words = f"every {usual.iloc[0] / 60:g} minutes, " if len(usual) else ""
        is_own = time.zone == "offset" or is_fixed(time.zone) or self._is_elapsed()
        zone = time.zone if is_own and time.zone != "place" else keys.timezone
        if needs_place and "timezone" not in self.meters.model_fields_set:
            zone = "place"
        zone = {"place": "of the place", "offset": "in each of them"}.get(zone, zone)
        kind = f"totals of registers in {unit}" if keys.cumulative else unit
        parts = [
            f"format {recognised_file.name} ({self.form.name}): {count_in_words(meters, 'meter')}, "
            f"{interval_words}{kind}, stamps at the {time.marks} of intervals, zone: {zone}"
        ]
        parts += [f"{mark}: {number}" for mark, number in self.mark_counts.items() if number]
        if recognised_file.other_sheets:
            parts.append(f"sheets not read: {', '.join(map(repr, recognised_file.other_sheets))}")
        if left_out := self._left_out():
            parts.append(left_out)
        return "; ".join(parts + self.unused_names)

    def _left_out(self) -> str:
        """What is left out, in words."""
        kinds = [
            kind + (f" ({count_in_words(rows, 'row')})" if rows else "")
            for kind, rows in self.left_out.items()
            if rows or kind in self.form.left_out
        ]
        return f"left out: {', '.join(kinds)}" if kinds else ""

    def _table(self, cells: pd.DataFrame) -> RawTable:
        """Some columns as a table, for functions that read one."""
        recognised_file = self.recognised_file
        return RawTable(
            self.path,
            cells,
            "",
            row_word=recognised_file.row_word,
            separator=recognised_file.separator,
        )

    def _place_of(self, line: object) -> Place:
        return self._table(self.cells).place_of(line)


def _follow_each_other(registers: pd.DataFrame) -> bool:
    """Whether each of several registers begins to count after the last one has ended. Their rows
    are in order."""
    counting = [np.flatnonzero(column > 0) for column in registers.to_numpy().T]
    if not all(map(len, counting)):
        return False
    spans = sorted((rows[0], rows[-1]) for rows in counting)
    return len(spans) > 1 and all(end < start for (_, end), (start, _) in pairwise(spans))


def _fit(values: pd.Series, names: Names) -> pd.Series:
    """Which values one of the names fits."""
    cells = values.tolist()
    fitting = {cell: any(fits(name, normalise(cell)) for name in names) for cell in {*cells}}
    return pd.Series([fitting[cell] for cell in cells], values.index, dtype=bool)


def _unit_in(cell: str) -> str | None:
    """The unit that a cell states or is."""
    return quantities.unit_of(f"[{cell}]") or quantities.unit_of(cell)


def _are_equal_zones(first: str, second: str) -> bool:
    """Whether clocks of two zones show the same time in winter and in summer."""
    days = [datetime(2024, month, 15) for month in (1, 7)]
    return all(ZoneInfo(first).utcoffset(day) == ZoneInfo(second).utcoffset(day) for day in days)
