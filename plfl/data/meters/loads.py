"""Which columns of numbers are loads, by names, units and values; what stays open is asked."""

import json
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from plfl.base.errors import DataError
from plfl.base.keys import Key
from plfl.base.minutes import MINUTES_PER_DAY
from plfl.config.error_messages import flow
from plfl.config.meters import Meters
from plfl.data.checks import is_register
from plfl.data.meters import quantities
from plfl.data.meters.cleaning import refusal_of_days, usual_step
from plfl.data.meters.dates import DATE_AT_BEGINNING
from plfl.data.meters.meter_selection import is_chosen, meter_of, name_list
from plfl.data.meters.numbers import as_text, is_number, read_numbers
from plfl.data.meters.quantities import without_unit
from plfl.data.meters.questions import UNIT, choices, column_key, question
from plfl.data.meters.stamps import parse
from plfl.data.meters.tables import MISSING, RawTable
from plfl.data.meters.vocabulary import WORDS

_ROW_NUMBERS = re.compile(r"column \d+|unnamed: \d+|__index_level_\d+__", re.IGNORECASE)
"""Names that programs give to columns that count the rows."""
_NUMBERED = re.compile(rf"[ _-]?(?:{'|'.join(WORDS.numbered.entries)})$", re.IGNORECASE)
"""The end of the name of a column with the numbers of meters."""
_NO_FACTOR = re.compile(r"1|[01][.,]\d{1,2}")
"""A factor that changes nothing, or one of power (cos φ)."""
_MOST_MARKS = 60
"""Most different whole numbers that a column of marks, weekdays or intervals of a day has."""
INVERTER_OUTPUT = "what an inverter generates"
"""Why a column is no load."""
BESIDE = "beside"
"""How the reason begins why a column is no load that another one of the file is."""
_LONG_NUMBER = 10
"""Digits of a number that is no reading."""
_NARROW = 20
"""More columns of numbers than these are those of meters."""
_MOST_RATIO = 1.25
"""The mean of single powers is up to this multiple, or part, of that of the energy."""
_ROUNDING = 0.05
"""The part of its mean by which a sum may differ from its rounded parts."""
_MOST_RISES = 4
"""Loads do not rise so many times as often as they fall."""
SAMPLE_ROWS = 24
"""Fewest rows of a meter, on average, in a column of numbers that may name meters."""


class LoadSearch:
    """Finds the columns of numbers that are no loads. Each of its rules looks at those that the
    rules before it leave."""

    def __init__(self, table: RawTable, time: tuple[str, ...], meters: Meters):
        """`time`: the columns of the stamps."""
        self.table, self.time, self.meters = table, time, meters

    def columns_without_loads(self, columns: Sequence[str]) -> dict[str, str]:
        """The columns that are no loads, and why. With `only`, the user has said which of those
        that may be loads are."""
        reasons: dict[str, str] = {}
        rules = [self._columns_of_other_things, self._columns_of_totals]
        if not self.meters.only:
            rules += [
                self._columns_that_never_change,
                self._columns_without_unit,
                self._columns_of_power,
                self._columns_beside_the_load,
            ]
        for rule in rules:
            reasons |= rule([column for column in columns if column not in reasons])
        return reasons

    def _columns_of_other_things(self, columns: Sequence[str]) -> dict[str, str]:
        """The columns that measure something else, by their unit, name or values."""
        reasons, cells = {}, self.table.cells
        is_of_inverter = any(map(WORDS.direct_current.has_word_of, map(without_unit, columns)))
        for column in columns:
            unit = self.table.unit_of(column) or quantities.bare_unit(column, columns)
            if reason := quantities.why_not_load(column, unit):
                reasons[column] = reason
            elif is_of_inverter and WORDS.inverter_output.has_word_of(without_unit(column)):
                reasons[column] = INVERTER_OUTPUT
            elif column not in self.table.plain and not as_text(cells[column]).any():
                reasons[column] = "empty"
            elif column in WORDS.factors:
                reasons[column] = "a factor"
            elif _names_row_numbers(column) and _counts_rows(cells[column]):
                reasons[column] = "row numbers"
            elif _is_number_of_meter(column, cells[column]):
                reasons[column] = "a number of the meter"
        return reasons

    def _columns_of_totals(self, columns: Sequence[str]) -> dict[str, str]:
        """The columns that are called totals, beside several others."""
        totals = [column for column in columns if len(columns) > 2 and column in WORDS.totals]
        return dict.fromkeys(totals, "a total, by its name")

    def _columns_that_never_change(self, columns: Sequence[str]) -> dict[str, str]:
        """The columns with a single number, such as a limit, beside others that are no meters."""
        if not 1 < len(columns) <= _NARROW or _are_meters(columns):
            return {}
        values = {column: as_text(self.table.cells[column]).unique() for column in columns}
        constants = {column: texts[0] for column, texts in values.items() if len(texts) == 1}
        if len(constants) == len(columns):
            return {}
        return {column: f"always {text}" for column, text in constants.items()}

    def _columns_without_unit(self, columns: Sequence[str]) -> dict[str, str]:
        """The columns of numbers without a unit, beside others whose names state one of loads, or,
        with a column of units, beside those whose names only say what is measured; but not those
        that may name meters. A register is left out beside the column of its differences."""
        if self.table.unit_of_rows is None:
            stated = [column for column in columns if self.table.unit_of(column) is not None]
        else:
            stated = [column for column in columns if quantities.names_quantity(column)]
        unstated = [column for column in columns if stated and column not in stated]
        if len(stated) == 1 and len(columns) <= _NARROW:
            for column in unstated:
                if self._has_differences(column, stated[0]):
                    return {stated[0]: f"the register of {column!r}"}
        return {
            column: f"no unit, beside {stated[0]!r}"
            for column in unstated
            if not _blocks(self.table, column)
        }

    def _columns_of_power(self, columns: Sequence[str]) -> dict[str, str]:
        """The columns of power whose words, but for those that say what is measured, are also in
        the name of a single column of energy: `Hall - Energy [kWh]` beside `Hall - Power [kW]`."""
        if not 1 < len(columns) <= _NARROW:
            return {}
        words = {column: quantities.words_of_meter(column) for column in columns}
        units = {column: self.table.unit_of(column) for column in columns}
        energies = [column for column in columns if units[column] in quantities.ENERGY]
        reasons = {}
        for power in columns:
            if words[power] and units[power] in quantities.LOAD_UNITS and power not in energies:
                energies_of_meter = [column for column in energies if words[power] <= words[column]]
                if len(energies_of_meter) == 1:
                    reasons[power] = f"the power beside {energies_of_meter[0]!r}"
        return reasons

    def _columns_beside_the_load(self, columns: Sequence[str]) -> dict[str, str]:
        """All but one of a few columns that are no meters: the consumption by its name, the energy
        beside its power or register, or the sum of all others."""
        if not 1 < len(columns) <= _NARROW or _are_meters(columns):
            return {}
        load = (
            quantities.consumption_among(columns)
            or self._energy_among(columns)
            or self._sum_among(columns)
        )
        return {} if load is None else {c: f"{BESIDE} {load!r}" for c in columns if c != load}

    def _has_differences(self, column: str, register: str) -> bool:
        """Whether a column has what a register counted in each row."""
        try:
            values = read_numbers(self.table, [column, register], self.meters)
        except DataError:  # said where the columns are read
            return False
        counts, loads = values[register].diff().to_numpy()[1:], values[column].to_numpy()
        tolerance = _ROUNDING * values[column].mean()
        return is_register(values[register]) and any(
            np.allclose(part, counts, 0, tolerance, equal_nan=True)
            for part in (loads[1:], loads[:-1])
        )

    def _sum_among(self, columns: Sequence[str]) -> str | None:
        """The column that is the sum of all others, such as phases; None if there is none."""
        try:
            values = read_numbers(self.table, columns, self.meters)
        except DataError:  # said where the columns are read
            return None
        for column in values if len(columns) > 2 else ():
            remainder = values.drop(columns=column).sum(axis=1, skipna=False)
            mean = values[column].mean()
            if mean > 0 and np.allclose(
                values[column], remainder, 0, _ROUNDING * mean, equal_nan=True
            ):
                return str(column)
        return None

    def _energy_among(self, columns: Sequence[str]) -> str | None:
        """The only column of energy beside its register or its mean power, or that register; None
        if there is none, or if one of the others measures something else."""
        units = {column: unit_of for column in columns if (unit_of := self.table.unit_of(column))}
        if len(units) < len(columns) or not {*units.values()} <= {*quantities.LOAD_UNITS}:
            return None
        try:
            stamps = parse(self.table, self.time, self.meters).stamps
            values = read_numbers(self.table, columns, self.meters)
        except DataError:  # said where the columns are read
            return None
        hours = max((stamps.max() - stamps.min()).total_seconds() / 3600, 1)
        energies: list[str] = []
        registers: list[str] = []
        kw: dict[str, float] = {}
        for column in columns:
            readings = values[column]
            if units[column] in quantities.ENERGY:
                is_one = is_register(readings)
                (registers if is_one else energies).append(column)
                energy = readings.diff().abs() if is_one else readings
                readings = energy * len(readings) / hours
            kw[column] = float(readings.mean()) * quantities.KWH[units[column]]
        if (
            max(kw.values()) > _MOST_RATIO * min(kw.values())
            or max(len(energies), len(registers)) > 1
        ):
            return None
        return next(iter(energies + registers), None)


def _are_meters(columns: Sequence[str]) -> bool:
    """Whether columns of readings are meters, by their names."""
    return quantities.are_names_of_meters([without_unit(column) for column in columns])


def _is_number_of_meter(column: str, values: pd.Series) -> bool:
    """Whether a column has a single whole number, and is named like those of meters, or it is too
    long to be a reading."""
    is_named_or_long = names_meter(column) or len(str(values.iloc[0])) >= _LONG_NUMBER
    return is_named_or_long and len(values.unique()) == 1 and is_whole(values)


def names_meter(column: str) -> bool:
    """Whether a column has the names or numbers of meters, by its own name."""
    plain = re.sub(r"[_-]", " ", column.strip())
    return plain in WORDS.meters or _NUMBERED.sub("", plain) in WORDS.meters


def _names_row_numbers(column: str) -> bool:
    """Whether a column may count the rows, by its name."""
    return column.rstrip(".") in WORDS.row_numbers or _ROW_NUMBERS.fullmatch(column) is not None


def _is_few_whole(table: RawTable, column: str) -> bool:
    """Whether a column has a few whole numbers, such as those of marks, weekdays or intervals."""
    values = as_text(table.cells[column].head(SAMPLE_ROWS * _MOST_MARKS))
    return 1 < len(values.unique()) <= min(_MOST_MARKS, len(values) / 2) and is_whole(values)


def _counts_rows(values: pd.Series) -> bool:
    """Whether numbers rise or fall by one from row to row."""
    steps = pd.to_numeric(values, errors="coerce").diff().iloc[1:]
    return len(steps) > 0 and bool((steps == 1).all() or (steps == -1).all())


def is_whole(values: pd.Series) -> bool:
    """Whether all values are whole numbers, as those of meters are."""
    return bool(as_text(values).str.fullmatch(r"\d+(\.0)?").all())


def _blocks(table: RawTable, column: str) -> list[str]:
    """The values of a column of words or whole numbers, if the rows of each follow each other, as
    those of meters may, and its name is not that of days or hours; empty if not."""
    values = as_text(table.cells[column])
    names = list(map(str, values.unique()))
    if (
        column in WORDS.times
        or column in WORDS.hours
        or not 2 <= len(names) <= len(values) / SAMPLE_ROWS
        or "" in names
        or DATE_AT_BEGINNING.match(names[0])
    ):
        return []
    if is_number(table, column) and not is_whole(values):
        return []
    return names if (values != values.shift()).sum() == len(names) else []


def ask_about_factors(table: RawTable, meters: Meters) -> None:
    """Refuse a column of factors, such as 0.001 of a register that counts Wh, unless the unit is
    given."""
    for column in map(str, table.cells) if meters.unit is None else ():
        if column not in WORDS.factors:
            continue
        values = as_text(table.cells[column])
        if len(values.unique()) == 1 and not _NO_FACTOR.fullmatch(values.iloc[0]):
            raise question(
                table,
                f"{column!r} is {values.iloc[0]} in all rows, so the readings may have "
                "another unit",
                f"set {Key('data.meters.unit', 'Wh')}, or kWh if the factor is already in "
                "them, or write a format with `load.factor` "
                f"(docs/own-data.md)",
                Key("data.meters.unit", UNIT),
            )


def ask_about_whole_numbers(table: RawTable, columns: Sequence[str]) -> None:
    """Refuse columns of few whole numbers, such as those of marks, weekdays or intervals, beside
    the only column whose name says that it has loads, without a unit."""
    spans: dict[str, str] = {}
    for column in columns if 1 < len(columns) <= _NARROW else ():
        if _is_few_whole(table, column):
            values = as_text(table.cells[column].head(SAMPLE_ROWS * _MOST_MARKS))
            numbers = sorted(int(float(value)) for value in values.unique())
            spans[column] = f"{numbers[0]} to {numbers[-1]}"
    other_columns = [column for column in columns if column not in spans]
    stated_columns = [column for column in other_columns if quantities.names_quantity(column)]
    if stated_columns and spans:
        listing = ", ".join(f"{column!r} ({span})" for column, span in spans.items())
        every_meter = Key("data.meters.only", "['*']")
        no_loads = Key("data.meters.leave_out", flow(list(spans)))
        raise question(
            table,
            f"{listing} beside {stated_columns[0]!r}: few whole numbers, which may be no loads",
            f"set {no_loads}, or {every_meter} if all are meters",
            no_loads,
        )


def ask_which_load(
    table: RawTable, time: tuple[str, ...], columns: Sequence[str], meters: Meters
) -> None:
    """Refuse several columns, unless their names are those of meters: the parts of one meter, such
    as import, feed-in and net, are no meters, whatever the words for them. `time`: the columns of
    the stamps; no answer makes those of days usable."""
    if not 1 < len(columns) <= _NARROW:
        return
    names = [without_unit(column) for column in columns]
    counts = Counter(meter_of(name, meters.add) for name in names)
    is_added = bool(meters.add) and min(counts.values()) > 1
    are_meters = quantities.are_names_of_meters(list(counts) if meters.add else names)
    may_be_registers = not are_meters or quantities.registers_among(names) is not None
    take_turns = meters.add is None and may_be_registers and _take_turns(table, columns)
    if is_added or (are_meters and not take_turns):
        return
    if usual_step(pd.DatetimeIndex(parse(table, time, meters).stamps)) == MINUTES_PER_DAY:
        raise refusal_of_days(table.path)
    by_likelihood = sorted(
        columns, key=lambda column: (quantities.unlikeliness(column), _resets(table, column))
    )
    first, choice = column_key("load", by_likelihood[0]), choices("load", by_likelihood)
    if take_turns:
        first = Key("data.meters.add", json.dumps(quantities.pattern_of_parts(names)))
        choice = f"{first} adds them, as each row has one of them; or {choice}"
    elif by_likelihood[0] in table.repeated_names:
        numbered = re.compile(rf"{re.escape(by_likelihood[0])}(?: \(\d+\))?")
        same = [without_unit(column) for column in columns if numbered.fullmatch(column)]
        first = Key("data.meters.only", flow(same))
        choice = f"{first} (columns of one name), or others"
    raise question(
        table,
        f"{name_list(columns)} may measure different things",
        f"choose that of the consumption: {choice}; or set "
        f"{Key('data.meters.only', flow(list(counts)))} if all are "
        f"meters{_offer_sum_of_registers(names, meters)}",
        first,
    )


def _take_turns(table: RawTable, columns: Sequence[str]) -> bool:
    """Whether each row has a reading in just one of several columns."""
    is_reading = pd.DataFrame()
    for rows in (table.cells.head(SAMPLE_ROWS), table.cells):  # mostly, the first rows tell
        texts = pd.DataFrame({column: as_text(rows[column]).str.lower() for column in columns})
        is_reading = ~texts.isin([*MISSING])
        if (is_reading.sum(axis=1) != 1).any():
            return False
    return bool(is_reading.any().all())


def _resets(table: RawTable, column: str) -> int:
    """How often a column of numbers that mostly rise starts again; 0 for others."""
    steps = pd.to_numeric(as_text(table.cells[column]), errors="coerce").dropna().diff()
    falls = int((steps < 0).sum())
    return falls if (steps > 0).sum() > _MOST_RISES * falls else 0


def _offer_sum_of_registers(names: Sequence[str], meters: Meters) -> str:
    """The words that offer to add registers, if their names look like it."""
    pattern = quantities.registers_among(names) if meters.add is None else None
    if pattern is None:
        return ""
    return f"; or {Key('data.meters.add', json.dumps(pattern))} if they are registers to be added"


def ask_about_values(table: RawTable, column: str, meters: Meters) -> None:
    """Refuse a column whose values may be parts of one meter, such as delivered and received,
    because neither its name nor they are those of meters, and no key names or joins them."""
    names = [str(name) for name in as_text(table.cells[column]).unique()]
    registers = list(dict.fromkeys(meter_of(name, meters.add) for name in names))
    chosen_registers = [name for name in registers if is_chosen(name, meters)]
    is_of_keys = len(chosen_registers) < len(registers) or (
        len(registers) < len(names)
        and not any(map(quantities.is_name_of_other_quantity, registers))
    )
    is_of_meters = names_meter(column) or (
        quantities.are_names_of_meters(names) and not WORDS.parts.has_word_of(column)
    )
    if meters.only or not 1 < len(names) <= _NARROW or is_of_keys or is_of_meters:
        return
    choice, likeliest = column_key("meter", column), min(registers, key=quantities.unlikeliness)
    first = Key("data.meters.only", flow([likeliest]))
    raise question(
        table,
        f"{column!r} has {name_list(names)}, which may be parts of one meter",
        f"choose one: {choice} {first}; or set {choice} if all are "
        f"meters{_offer_sum_of_registers(names, meters)}",
        choice,
        first,
    )


def ask_about_names(table: RawTable, readings: Sequence[str], words: Sequence[str]) -> None:
    """Refuse a column of words or whole numbers, beside one of readings, whose values may name
    meters; columns of marks do not."""
    columns = [*words, *readings] if len(readings) < 3 else []
    for column in (column for column in columns if not WORDS.quality.has_word_of(column)):
        loads = [name for name in readings if name != column]
        is_load = quantities.why_not_load(column, None) is None
        if is_load and len(loads) == 1 and (blocks := _blocks(table, column)):
            choice, first = column_key("meter", column), Key("data.meters.only", flow(blocks[:1]))
            raise question(
                table,
                f"{column!r} has {len(blocks)} values: {name_list(blocks)}",
                f"if they name meters, set {choice}, with {first} (or others) if not all have "
                f"loads; if they name none, {choices('load', loads)}",
                choice,
            )
