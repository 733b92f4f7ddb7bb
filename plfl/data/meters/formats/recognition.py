"""Finds the format of a file, and its table as the file has it."""

import csv
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import islice

import pandas as pd

from plfl.base.errors import DataError, Problem, data_error
from plfl.base.keys import Key
from plfl.config.meters import NOT_INPUTS, Meters
from plfl.data.meters.file_contents import NO_READING, RawFile, unique_names
from plfl.data.meters.formats import nested_files, records
from plfl.data.meters.formats.schema import (
    PLAIN_FORMAT,
    Format,
    Names,
    Recognition,
    load_format,
    shipped_formats,
)
from plfl.data.meters.headers import SEPARATORS
from plfl.data.meters.tables import RawTable, cells_of, split_fields

_LINES = 60
"""Lines at the beginning in which a header must be."""
_CELLS = 500
"""A header with more cells is that of a wide table of meters."""
SETTLED_BY_FORMAT = ("header", "date_format", "stamp", "cumulative")
"""Keys about what a format says; with one of them, no format is looked for."""


@dataclass(frozen=True)
class RecognisedFile:
    """A file with its format, and its table as the file has it."""

    raw: RawFile
    form: Format
    name: str | None
    """The name under which `data.meters.format` has the format. None: it was found out."""
    cells: pd.DataFrame
    """Text, or values with types; one row per line, indexed by the number of the line."""
    preamble: str = ""
    """The lines down to the header."""
    separator: str = ""
    row_word: str = "line"
    """What the index counts."""
    other_sheets: Sequence[str] = ()
    """Further sheets of the workbook, which are not read."""
    table: RawTable | None = None
    """The table of a file whose format was found out. What follows is of such files, too."""
    about: str = ""
    """Its form, in words."""
    notes: str = ""
    """What was found out, in words."""
    is_stamp_stated: bool = True
    """Whether the file says what its stamps mark."""
    column_names: Mapping[str, str] = field(default_factory=dict)
    """The names of meters, by their columns."""


@dataclass(frozen=True)
class _HeaderLine:
    """A line that may be the header."""

    sheet: str
    line: int
    separator: str
    fields: list[str]
    cells: frozenset[str]
    """Its cells as `normalise` writes them."""


def is_by_format(meters: Meters) -> bool:
    """Whether a format may say how files are read, because no key does."""
    return not _settled_keys(meters)


def _settled_keys(meters: Meters) -> list[str]:
    """The given keys about what a format says."""
    keys = [key for key in SETTLED_BY_FORMAT if key in meters.model_fields_set]
    return keys + [f"columns.{role}" for role in NOT_INPUTS if role in meters.columns]


def recognise(raw: RawFile, meters: Meters) -> RecognisedFile | None:
    """The file in the format that `meters` names, or in the one that fits it best; None if there is
    none, or if a key says what only formats say.

    Raises:
        DataError: the file is not in the named format, several fit equally well, or the file is
            damaged.
    """
    if meters.format == PLAIN_FORMAT or (meters.format is None and not is_by_format(meters)):
        return None
    if meters.format is not None:
        form = load_format(meters.format)
        settled = _settled_keys(meters)
        if not form.time.format:
            settled = [key for key in settled if key != "date_format"]
        if settled:
            key = Key(f"data.meters.{settled[0]}")
            raise data_error(
                key,
                f"the format {meters.format!r} says it",
                f"remove {key}, or write {Key('data.meters.format', repr(PLAIN_FORMAT))}",
            )
        if recognised_file := _read(raw, form, meters.format, _headers(raw)):
            return recognised_file
        if raw.is_blank:
            raise DataError(Problem(raw.path, "is empty", "export it again", kind=NO_READING))
        missing_columns = _missing_columns(form, _headers(raw))
        raise data_error(
            raw.path,
            f"is not in the format {meters.format!r} ({form.name}){missing_columns}",
            f"name another one in {Key('data.meters.format')}, or {PLAIN_FORMAT!r} for none",
        )
    headers = _headers(raw)
    cells = frozenset[str]().union(*(header.cells for header in headers))
    fitting = {
        name: score
        for name, form in shipped_formats().items()
        if _may_fit(raw, form, cells) and (score := _score(raw, form, headers)) is not None
    }
    best = [name for name, score in fitting.items() if score == max(fitting.values())]
    if len(best) > 1:
        raise data_error(
            raw.path,
            f"may be in the formats {' and '.join(best)}",
            f"name the right one: {Key('data.meters.format', best[0])}",
            Key("data.meters.format", best[0]),
        )
    return _read(raw, shipped_formats()[best[0]], best[0], headers) if best else None


@lru_cache(maxsize=1 << 14)
def normalise(cell: str) -> str:
    """A header cell without differences that do not matter: case, blanks, quotes."""
    return " ".join(cell.replace("\ufeff", "").strip("\"' \t").split()).casefold()


@cache
def _expression(name: str) -> re.Pattern[str]:
    """What a name with `*` fits."""
    return re.compile("(.*)".join(map(re.escape, normalise(name).split("*"))))


def fits(name: str, cell: str) -> bool:
    """Whether a name in a format fits a cell, given as `normalise` writes it."""
    if "*" in name:
        return _expression(name).fullmatch(cell) is not None
    return normalise(name) == cell


def star_of(name: str, cell: str) -> str:
    """What the only `*` of a name stands for in a cell, as it is written; else the whole cell."""
    if name.count("*") == 1 and (match := _expression(name).fullmatch(normalise(cell))):
        begin, end = match.span(1)
        plain = " ".join(cell.split())
        return plain[begin:end].strip() if len(plain) == len(normalise(cell)) else cell
    return cell


def find_columns(names: Names, columns: Iterable[Hashable]) -> list[str]:
    """The columns that fit one of the names, in the order of the file. Of those that differ only in
    case or blanks, the one that is written like the name is meant."""
    cells = {str(column): normalise(str(column)) for column in columns}
    exact = {name for name in names if name in cells}
    plain_names = {normalise(name) for name in names if name not in exact and "*" not in name}
    patterns = [name for name in names if name not in exact and "*" in name]
    return [
        column
        for column, cell in cells.items()
        if column in exact or cell in plain_names or any(fits(name, cell) for name in patterns)
    ]


def _has(names: Names, cells: frozenset[str]) -> bool:
    """Whether one of the names fits one of the cells."""
    plain_names, patterns = _names_and_patterns(tuple(names))
    return not plain_names.isdisjoint(cells) or any(
        fits(name, cell) for name in patterns for cell in cells
    )


@cache
def _names_and_patterns(names: tuple[str, ...]) -> tuple[frozenset[str], list[str]]:
    """The names as `normalise` writes them, and those with `*`."""
    plain_names = frozenset(normalise(name) for name in names if "*" not in name)
    return plain_names, [name for name in names if "*" in name]


def _headers(raw: RawFile) -> list[_HeaderLine]:
    """The lines that may be headers, with each separator."""
    headers = []
    if raw.cells is not None:
        names = list(map(str, raw.cells))
        if len(names) <= _CELLS:
            cells = frozenset(map(normalise, names))
            headers.append(_HeaderLine("", 0, "", names, cells))
    for sheet, lines in raw.sheets.items():
        for number, line in enumerate(islice(lines, _LINES)):
            for separator in SEPARATORS if raw.kind == "text" else ("\t",):
                if not 0 < line.count(separator) < _CELLS:
                    continue
                try:
                    fields = split_fields(line, separator)
                except csv.Error:
                    continue
                cells = frozenset(map(normalise, fields))
                headers.append(_HeaderLine(sheet, number, separator, fields, cells))
    return headers


def _is_header(recognition: Recognition, header: _HeaderLine) -> bool:
    """Whether a line has the cells of a format."""
    cells = header.cells
    return (
        all(_has(names, cells) for names in recognition.header)
        and not _has(recognition.lacks, cells)
        and (not recognition.is_whole or len(cells - {""}) == len(recognition.header))
    )


def _may_fit(raw: RawFile, form: Format, cells: frozenset[str]) -> bool:
    """Whether the lines of a file, which have these cells, are worth a look one by one."""
    if form.tree is not None:
        return bool(raw.content)
    return all(_has(names, cells) for names in form.recognise.header)


def _score(raw: RawFile, form: Format, headers: Sequence[_HeaderLine]) -> int | None:
    """How much of a file a format explains; None if it does not fit."""
    rules, score = form.recognise, 0
    if rules.begins is not None:
        if re.search(rules.begins, raw.head, re.MULTILINE) is None:
            return None
        score += 2
    if form.tree is not None:
        cells = _cells_in_tree(raw, form.tree.rows)
        if cells.empty:
            return None
        headers = [
            _HeaderLine(
                "", 0, "", list(map(str, cells)), frozenset(map(normalise, map(str, cells)))
            )
        ]
        score += 1
    elif raw.content and form.reader is None:
        return None
    if rules.header:
        if not any(_is_header(rules, header) for header in headers):
            return None
        score += 2 * len(rules.header) + rules.is_whole
    return score


def _read(
    raw: RawFile, form: Format, name: str, headers: Sequence[_HeaderLine]
) -> RecognisedFile | None:
    """The table of a file in a format; None if the format does not fit."""
    if _score(raw, form, headers) is None:
        return None
    if form.reader is not None:
        try:
            cells = records.READERS[form.reader](raw)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            damage = error if isinstance(error, ValueError) else "parts of such files are missing"
            raise data_error(
                raw.path, f"is {form.name}, and damaged: {damage}", "export it again"
            ) from None
        return RecognisedFile(raw, form, name, cells, row_word="line" if raw.sheets else "reading")
    if form.tree is not None:
        cells = _cells_in_tree(raw, form.tree.rows)
        return RecognisedFile(raw, form, name, cells, row_word="entry")
    if raw.cells is not None:
        return RecognisedFile(raw, form, name, raw.cells, row_word="row")
    if form.table.names:
        header = _nameless(raw, form)
    else:
        header = next(h for h in headers if _is_header(form.recognise, h))
    lines = raw.sheets[header.sheet]
    cells = _cells_below(raw, form, header)
    preamble = "\n".join(lines[: header.line + 1])
    other_sheets = [sheet for sheet in raw.sheets if sheet != header.sheet]
    return RecognisedFile(
        raw, form, name, cells, preamble, header.separator, other_sheets=other_sheets
    )


def _cells_in_tree(raw: RawFile, ways: Names) -> pd.DataFrame:
    """The rows at the end of the first way that leads to some; empty if there are none, or if the
    file is neither JSON nor XML."""
    try:
        tables = (nested_files.read(raw.content, way) for way in ways if raw.content)
        return next((table for table in tables if not table.empty), pd.DataFrame())
    except ValueError:
        return pd.DataFrame()


def _nameless(raw: RawFile, form: Format) -> _HeaderLine:
    """The header of a file that has none, before the first line with as many fields."""
    (sheet, lines), *_ = raw.sheets.items()
    width = len(form.table.names)
    for number, line in enumerate(islice(lines, _LINES)):
        for separator in SEPARATORS:
            fields = split_fields(line, separator)
            if len(fields) == width or (len(fields) == width + 1 and not fields[-1]):
                return _HeaderLine(sheet, number - 1, separator, form.table.names, frozenset())
    raise data_error(raw.path, f"is {form.name}, but no line has {width} fields", "export it again")


def _cells_below(raw: RawFile, form: Format, header: _HeaderLine) -> pd.DataFrame:
    """The rows below a header, as text, without blank lines and repeated headers."""
    lines = raw.sheets[header.sheet]
    separator = header.separator
    begin = header.line + 1 + form.table.skip
    end, ends = len(lines), form.table.ends and re.compile(form.table.ends)
    if ends:
        end = next((number for number in range(begin, end) if ends.search(lines[number])), end)
    header_line = lines[header.line]
    numbers = [
        number
        for number in range(begin, end)
        if lines[number].strip(f'{separator}" ')
        and (lines[number] != header_line or header.line < 0)
    ]
    names, _ = unique_names(header.fields)
    return cells_of(raw.path, lines, numbers, separator, names, is_padded=True)


def _missing_columns(form: Format, headers: Sequence[_HeaderLine]) -> str:
    """What the most similar line of a file lacks, in words."""
    rules = form.recognise
    if not rules.header or not headers:
        return ""
    missing_cells: Mapping[int, list[str]] = {
        number: [names[0] for names in rules.header if not _has(names, header.cells)]
        for number, header in enumerate(headers)
    }
    number, fewest = min(missing_cells.items(), key=lambda entry: len(entry[1]))
    if not fewest:
        return ""
    missing = ", ".join(map(repr, fewest))
    return f": line {headers[number].line + 1} has no {missing}"
