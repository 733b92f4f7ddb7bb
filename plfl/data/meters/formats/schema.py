"""What a format file can say: the keys of `NAME.toml`, with their types and meanings.

Columns are named by their header cells, whatever their case and blanks. `*` stands for any text,
and nothing else does. A list of names is one of alternatives, such as those of several languages.
"""

import json
import re
import tomllib
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from plfl.base.errors import ConfigError, DataError, Problem, data_error, suggest_name
from plfl.base.keys import Key
from plfl.config.error_messages import explain, refusal
from plfl.config.values import (
    DecimalMark,
    IntervalEdge,
    LoadUnit,
    Zone,
    as_list,
    check_expression,
)
from plfl.plugins.registry import Section

FORMATS_FOLDER = Path(__file__).parent
PLAIN_FORMAT = "plain"
"""The name in `data.meters.format` of no format: the columns are found by their names."""


Names = Annotated[list[str], BeforeValidator(as_list)]
"""Alternatives, or a single text."""
Pattern = Annotated[str, AfterValidator(check_expression)]
"""A regular expression, searched in several lines at once (`^` and `$` match at each of them)."""


class Recognition(Section):
    """How a file in this format is told from all others. Everything that is given must fit."""

    header: list[Names] = []
    """Cells that the header has, in any order, each with its alternatives."""
    lacks: Names = []
    """Cells that the header does not have."""
    is_whole: bool = False
    """The header has no other cells."""
    begins: Pattern | None = None
    """A regular expression that is found in the first 60 lines: in a preamble, or in records."""


class TextTable(Section):
    """Where the table of a text is, if not simply below its header."""

    names: list[str] = []
    """Names of the columns of a file that has no header; `recognise.begins` recognises it."""
    skip: int = Field(0, ge=0)
    """Lines between the header and the readings, such as one of units."""
    ends: Pattern | None = None
    """A line with this match and those below it are no readings."""


class NestedRows(Section):
    """Where the rows are in a file of JSON or XML. Their columns are the keys, `a.b` of nested
    blocks; the single values of the blocks around the rows are columns, too. In XML, the keys are
    attributes and elements, without namespaces and without the outermost one."""

    rows: Names
    """The keys on the way to the list of rows, such as `data.*.readings`; `*` is every entry of a
    list or block, and an empty text the whole file. Of several ways, the first that leads to rows
    is gone. The rows may be blocks, lists (columns `0`, `1`, …), single values (columns `position`,
    from 1, and `value`), a block of equally long lists, or a block of single values (columns `key`,
    `value`)."""


class Time(Section):
    """The times of the readings."""

    column: Names = []
    """The column of the stamp, or of the date if there is a `clock`, `number` or `of_day`."""
    end: Names = []
    """The column with the ends of the intervals whose starts are in `column`: rows of longer ones
    than the shortest, such as sums of days, are left out."""
    clock: Names = []
    """The column with the time of day beside one of dates."""
    number: Names = []
    """The column with the number of the interval in its day, from 1, beside one of dates."""
    sequence: Names = []
    """The column with the number of the interval, from 1, since the stamp in `column`, which is the
    same in many rows, and has an offset or is in a fixed zone."""
    of_day: Names = []
    """The columns of a row for a day, one for each of its intervals, in order: `Interval *`."""
    columns: Names = []
    """The columns whose names are the times, in tables with a row per meter: `20*`."""
    marks: IntervalEdge
    """Whether a stamp marks the start or the end of its interval. With `number` and `of_day`, the
    intervals follow each other from midnight, so it is `start`."""
    format: Names = []
    """The format of the stamps, such as `%d/%m/%Y %H:%M`, of which the first is used that fits; a
    date and a clock have a blank between them. Empty: found out, where only one is possible."""
    span: str | None = None
    """What separates the start from the end in one cell, such as ` to `; the start is read."""
    minutes: int | None = Field(None, gt=0)
    """The length of the intervals that are numbered or have columns; by default, 24 hours are
    divided by their number."""
    minutes_column: Names = []
    """The column with the length of the intervals of a `sequence`: minutes, or such as `PT1H`."""
    counts: Literal["clock", "elapsed"] = "clock"
    """What `number` and `of_day` count on the days when clocks change: times of the `clock`, or the
    intervals that have `elapsed` since midnight, of which these days have fewer or more."""
    offset: Names = []
    """The column with the UTC offset of each stamp, such as `+01:00`, or hours, minutes or seconds;
    with it, the zone is `offset`."""
    zone: Literal["place", "offset"] | Zone = Field("place", union_mode="left_to_right")
    """The zone of the stamps: that of the `place`, which the user or the header of their column
    names; the `offset` in each of them or beside it (also Z, and counts of seconds since 1970); or
    a fixed one, such as `Etc/GMT-10`."""
    place: Zone | None = None
    """The zone of all meters with this format, where there is only one, so that none is asked for.
    The user's own wins."""

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if bool(self.column) == bool(self.columns):
            raise refusal("name the column of the stamps, or the columns that are times", "column")
        if self.end and (self.marks == "end" or self.clock):
            raise refusal("`end` stands beside starts: write marks = 'start', without clock", "end")
        roles = (self.clock, self.number, self.of_day, self.sequence)
        if len([role for role in roles if role]) > 1:
            raise refusal("name one of `clock`, `number`, `of_day` and `sequence`", "clock")
        if (self.number or self.of_day or self.sequence) and self.marks == "end":
            raise refusal("intervals are numbered from the first: write marks = 'start'", "marks")
        if self.sequence and self.zone != "offset" and not is_fixed(self.zone):
            raise refusal("the first stamp of a sequence has an offset or a fixed zone", "zone")
        if self.sequence and not (self.minutes or self.minutes_column):
            raise refusal("say how long the intervals of the sequence are", "minutes_column")
        if self.number and self.minutes is None:
            raise refusal("say how long the numbered intervals are", "minutes")
        return self

    @property
    def home(self) -> str | None:
        """The zone of the meters, as far as the format says it."""
        return self.place or (None if self.zone in ("place", "offset", "UTC") else self.zone)


def is_fixed(zone: str) -> bool:
    """Whether clocks never change in a zone, by its name."""
    return zone == "UTC" or zone.startswith("Etc/")


class Load(Section):
    """The readings."""

    columns: Names = []
    """The columns of readings. Of those that a file has, each is a register of the same meter, and
    they are added, unless `meters.by_column` is set. Not needed with `time.of_day` and
    `time.columns`."""
    substitute: Names = []
    """The column with the reading of a row whose cell in `columns` is empty, such as an estimate;
    it is used, and counted."""
    register_column: Names = []
    """The column of a register beside a lone column of loads, which rises by the load of each row:
    its difference to the row a step before is the load of a row without one, and counted."""
    unit: LoadUnit | None = None
    """Their unit. None: the one in `unit_column`, in `unit_pattern`, or in the column's name."""
    unit_column: Names = []
    """The column with the unit of each row. Rows in other units than those of energy and power are
    left out."""
    unit_pattern: Pattern | None = None
    """A regular expression for the lines down to the header, whose group is the unit."""
    factor: float = 1
    """A factor of all readings."""
    factor_column: Names = []
    """The column with a factor of each row."""
    cumulative: bool = False
    """They are totals of registers, whose differences are the loads."""
    decimal: DecimalMark | None = None
    """Decimal separator. None: found out, where only one is possible."""
    missing: list[str] = []
    """Cells without a reading, besides empty ones and usual marks such as `NA` and `-`."""


class RowFilter(Section):
    """Which rows are readings of consumption, by the values of a column (`*` is any text). A value
    that no key names is refused, unless `use` is empty."""

    column: Names
    """The column. Without it in a file, the rule does not apply."""
    use: Names = []
    """Values of rows that are used. Empty: all that are not left out."""
    only_first: bool = False
    """Only the rows of the first of these values that a file has are used."""
    leave_out: dict[str, Names] = {}
    """Values of rows that are left out, by what they are: `feed-in = ["Injectie*"]`."""
    beside: Names = []
    """Values of rows that are not left out, and beside which the others only are: a file without
    them keeps all rows. Empty: in every file."""


class Quality(Section):
    """The marks of readings that are not measured."""

    column: Names
    """The column with the marks."""
    missing: Names = []
    """Marks of rows without a reading, whatever their number says."""
    estimated: Names = []
    """Marks of readings that are estimated; they are used, and counted."""
    measured: Names = []
    """Marks of readings that are measured. If any, a mark that no key names is refused."""
    is_optional: bool = False
    """Whether files of this form may lack the column."""


class MeterNames(Section):
    """The names of the meters. A lone meter of a file is named after the file."""

    column: Names = []
    """The column with the name of the meter of each row. Empty: a file has one meter."""
    registers: Names = []
    """The column with the name of a register; the registers of a meter are added."""
    add: Pattern | None = None
    """A regular expression whose match is no part of the names, such as ` T[12]$` of registers; the
    readings of equal names are added."""
    by_column: bool = False
    """Each column of `load.columns` is a meter of its own, with its name."""
    is_unique: bool = True
    """Whether files with a meter of the same name are parts of it. False for names that only one
    home has once, such as `sensor.grid`."""


class FormatSample(Section):
    """A file of a few rows, made up in this form, and what must be read from it."""

    file: str
    """Its name, beside that of the format."""
    timezone: Zone | None = None
    """The place."""
    minutes: int
    """Minutes between the rows of the series."""
    first: datetime
    """The end of the first interval, with its offset: `2023-01-10T00:30:00Z`."""
    kwh: float | dict[str, float]
    """The sum of the loads, worked out by hand; of several meters, by name."""
    rows: int
    """Intervals from the first to the last reading, of the longest meter."""
    missing: int = 0
    """Gaps among them, in all meters."""
    left_out: list[str] = []
    """What the report says is left out, such as `feed-in`."""


class Format(Section):
    """A format of exports."""

    name: str
    """What users call it, such as `PG&E, intervals (CSV)`."""
    about: str
    """Who writes such files, and what is in them, in one line."""
    document: str
    """The address of the public document, sample or program that says so."""
    date: date
    """The day when the document was read."""
    recognise: Recognition = Recognition()
    reader: str | None = None
    """A reader of records (`plfl.data.meters.formats.records`), which turns them into a table."""
    tree: NestedRows | None = None
    table: TextTable = TextTable()
    time: Time
    load: Load = Load()
    rows: list[RowFilter] = []
    quality: Quality | None = None
    meters: MeterNames = MeterNames()
    left_out: dict[str, Names] = {}
    """Columns that are left out and named in the report, by what they are: `feed-in = [...]`. No
    column is read that the format does not name; this only tells the user."""
    sample: list[FormatSample] = []

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        is_open = self.reader is None and self.tree is None
        if is_open and not self.recognise.header and not self.recognise.begins:
            raise refusal("give cells of the header, or what the file begins with", "recognise")
        if self.table.names and not self.recognise.begins:
            raise refusal("a file without a header needs recognise.begins", "recognise")
        if not self.load.columns and not (self.time.of_day or self.time.columns):
            raise refusal("name the columns of readings in load.columns", "load")
        return self


def parse(path: Path) -> Format:
    """The format in a file.

    Raises:
        ConfigError: it is no TOML, or has wrong keys; the message lists all problems.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            str(path), [Problem("", "the file does not exist", "check the path")]
        ) from None
    except (OSError, ValueError) as error:  # also no UTF-8, and no TOML
        raise ConfigError(str(path), [f"cannot be read as TOML: {error}"]) from None
    return build(path, content)


def build(path: Path, content: dict[str, Any]) -> Format:
    """The format with the content of a file; see `parse`."""
    try:
        return Format.model_validate(content)
    except ValidationError as error:
        raise ConfigError(str(path), explain(error, Format)) from None


def as_toml(form: Format) -> str:
    """The text of a format file."""
    content = form.model_dump(mode="json", exclude_defaults=True)
    single = {key: value for key, value in content.items() if not isinstance(value, dict | list)}
    lines = [f"{key} = {_value(value)}" for key, value in single.items() if key != "date"]
    lines.append(f"date = {form.date}")
    for key, value in content.items():
        for block in [value] if isinstance(value, dict) else value if key not in single else []:
            lines += ["", f"[{key}]" if isinstance(value, dict) else f"[[{key}]]"]
            lines += [f"{_key(name)} = {_value(entry)}" for name, entry in block.items()]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)


def _value(value: object) -> str:
    """A value of plain types in TOML, whose texts, numbers and lists are like those of JSON."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(k)} = {_value(v)}' for k, v in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)


@cache
def shipped_formats() -> dict[str, Format]:
    """The formats of this package, by the names of their files, in their order."""
    return {path.stem: parse(path) for path in sorted(FORMATS_FOLDER.glob("*.toml"))}


def load_format(name: str) -> Format:
    """The format with a name, or in a file whose name ends in `.toml`. DataError: there is none, or
    the file is wrong."""
    try:
        if name.endswith(".toml"):
            return parse(Path(name))
        return shipped_formats()[name]
    except ConfigError as error:
        raise DataError(*error.locate_in(Path(name)).problems) from None
    except KeyError:
        raise data_error(
            Key("data.meters.format"),
            f"there is no format {name!r}",
            f"name one of docs/own-data.md, a file that ends in .toml, or {PLAIN_FORMAT!r} for "
            f"none{suggest_name(name, shipped_formats())}",
        ) from None
