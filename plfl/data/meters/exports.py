"""Reads raw exports: text, workbooks or Parquet, with one file per meter, one column per meter, or
a column of meters' names.

The form of a file, the roles of its columns and the format of its stamps are detected. Where a file
can be read in more than one way, a key of `data.meters` decides. A clean file needs no key.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from plfl.base.errors import (
    DataError,
    Problem,
    collect_problems,
    data_error,
    equal_lines,
    shared_lines,
)
from plfl.base.keys import Key
from plfl.base.text import Progress, count_in_words
from plfl.config.error_messages import flow
from plfl.config.meters import Meters
from plfl.data.meters import column_roles, file_contents
from plfl.data.meters.cleaning import POWER_UNITS, Cleaner, Meter, Piece
from plfl.data.meters.doubts import doubts
from plfl.data.meters.file_contents import RawFile
from plfl.data.meters.formats.reading import FileReading
from plfl.data.meters.formats.reading import read as read_file
from plfl.data.meters.formats.recognition import recognise
from plfl.data.meters.formats.schema import Format, is_fixed
from plfl.data.meters.paths import client_name, names_without_dates
from plfl.data.meters.questions import (
    READ_AS,
    Assumption,
    LargestLoads,
    settle_cumulative,
    settle_stamp,
    settle_unit,
)
from plfl.data.meters.stamps import zone_named
from plfl.data.meters.weather import Weather, read_weather

MOST_PROBLEMS = 50
"""Problems that are listed: thousands of meters can have the same one."""


@dataclass(frozen=True)
class FileForm:
    """What a file of exports is."""

    words: str
    """Its form, in words."""
    format: Format
    """Its format, known or found out."""
    name: str | None
    """The name of the known format; None: it was found out."""
    meters_without_zone: Sequence[str] | None
    """Its readable meters if its stamps have no UTC offset; None: they have one."""


@dataclass
class Exports:
    """The content of raw exports."""

    meters: dict[str, Meter] = field(default_factory=dict)
    """The series by the name of the meter, as far as they could be read."""
    forms: dict[Path, FileForm] = field(default_factory=dict)
    """What each file is."""
    station: Weather | None = None
    """The weather, if there is a file of it."""
    files: dict[str, Path] = field(default_factory=dict)
    """For each meter, the first file with readings of it."""
    names: list[str] = field(default_factory=list)
    """The names of all meters, also of those that are not selected."""
    registers: list[str] = field(default_factory=list)
    """The names in the files before `data.meters.add` joins some of them."""
    keys: dict[str, Meters] = field(default_factory=dict)
    """The keys of each meter, with what its files state about units and stamps."""
    contradictory: list[str] = field(default_factory=list)
    """The meters whose stamps have another UTC offset than their zone."""
    problems: list[Problem] = field(default_factory=list)
    """What is wrong or ambiguous."""
    intervals: list[Problem] = field(default_factory=list)
    """That meters have different intervals, if so: a problem of studies only."""
    settled_keys: dict[str, str | bool] = field(default_factory=dict)
    """Keys that no file states, as they were settled by what is possible."""
    assumptions: list[str] = field(default_factory=list)
    """What was settled so, and how to change it."""

    def report(self) -> list[str]:
        """Lines about the forms of the files, what is in each meter, and what is odd."""
        return [
            *self.describe_forms(),
            f"{describe_times(meter.zone.key for meter in self.meters.values())}:",
            *(f"{name}: {meter.summary}" for name, meter in self.meters.items()),
            *(f"assumed: {line}" for line in self.assumptions),
            *(f"odd: {line}" for line in doubts(self.meters)),
        ]

    def describe_forms(self) -> list[str]:
        """A line for each form, with the files that have it."""
        weather = [] if self.station is None else [self.station.words]
        forms = (Problem(str(path), f.words, meter=str(path)) for path, f in self.forms.items())
        return [*weather, *shared_lines(forms, noun="file")]

    @property
    def problems_of_study(self) -> list[Problem]:
        """What is wrong or ambiguous for a study, which needs one interval."""
        return [*self.problems, *self.intervals]

    def leave_out(self, names: Sequence[str]) -> None:
        """Leave out some meters and their problems."""
        for name in names:
            self.meters.pop(name, None)
        self.problems = [problem for problem in self.problems if problem.meter not in names]

    def _first_answers(self) -> list[Key]:
        """The first answers to the questions among the problems, each key once."""
        keys: dict[tuple[str, str], Key] = {}
        for key in (key for problem in self.problems for key in problem.answers):
            entry = key.value.partition(":")[0] if key.value[0] in "{[" else ""
            keys.setdefault((key.path, entry), key)
        return [*keys.values()]

    def refuse(self, outcome: str = "", command: str = "") -> None:
        """Refuse the exports for a study if there are problems, of which the first are listed,
        those that many files share once; above them their number and the `outcome`, if given, and
        below them the `command`, if given, with the first answers to all questions."""
        hidden_count = len(lines := equal_lines(self.problems_of_study)) - MOST_PROBLEMS
        remainder = (
            [f"and {count_in_words(hidden_count, 'more problem')}"] if hidden_count > 0 else []
        )
        head = [f"{count_in_words(len(lines), 'problem')}, {outcome}"] if outcome else []
        answers = self._first_answers()
        if answers and command:
            open_values = [key.value for key in answers if key.value in READ_AS]
            replacing = f", replace {', '.join(open_values)}" if open_values else ""
            options = " ".join(map(str, answers))
            remainder.append(
                f"to go on, change what is not so{replacing}, and run\n  {command} {options}"
            )
        if lines:
            raise DataError(*head, *lines[:MOST_PROBLEMS], *remainder)


def describe_times(zones: Iterable[str]) -> str:
    """What the times in reports are, if the meters are in these zones."""
    names = sorted({*zones})
    if names and all(map(is_fixed, names)):
        return f"times below are those of {' and '.join(names)}, and starts of intervals"
    return "times below are local, with daylight saving time, and starts of intervals"


def read_exports(
    paths: Iterable[Path],
    meters: Meters,
    interval: int | None,
    names: Mapping[Path, str] | None = None,
    progress: Progress | None = None,
    is_settled: bool = False,
    largest: LargestLoads | None = None,
    are_of_one: bool = False,
    keeps_steps: bool = False,
    clients: Collection[str] = (),
) -> Exports:
    """The meters in raw exports, cleaned, and the problems of all files.

    `meters` says what cannot be detected, or should differ from what is. `interval`: minutes
    between the rows of the series; None: those of the exports. `names`: of the meters of files with
    a single one, by default the file's; several in an archive are named like themselves. `progress`
    is called for every file and every meter. With `join_files` and without
    `names`, dates in the names of files are those of parts of a meter; a lone meter of a file with
    a name of its own has the name in its rows, if another file has that name, too.
    `is_settled`: a study has read such files, so that nobody is asked if they are registers, and it
    says the interval of a lone reading; a lone meter has the name in its rows unless that of its
    file is among the `clients`.
    `largest`: nobody has read such files before, so that units and stamps that they do not state
    are settled by what is possible, or asked (`plfl.data.meters.questions`); otherwise the defaults
    of the keys hold.
    `keeps_steps`: see `clean`.
    """
    exports = Exports()
    weather = None
    if meters.weather is not None:
        with collect_problems(exports.problems):
            exports.station = read_weather(meters.weather, meters)
            weather = exports.station.measurements
        elsewhere = meters.input_columns if weather is None else weather
        columns_left = {role: c for role, c in meters.columns.items() if role not in elsewhere}
        meters = meters.model_copy(update={"columns": columns_left})
    files = list(paths)
    plain = meters.model_copy(update={"cumulative": meters.cumulative} if is_settled else {})
    pieces: dict[str, list[Piece]] = {}
    export_files = _read_export_files(
        files, meters, plain, names, progress, exports, are_of_one, is_settled, clients
    )
    counts = Counter(name for export_file in export_files for name in {*export_file.file.names})
    for export_file in export_files:
        with collect_problems(exports.problems, export_file.label):
            file = export_file.file
            if export_file.name_by_file and counts[file.names[0]] == 1:
                file = export_file.name_by_file()
            _add_pieces(exports, pieces, export_file, file, meters)
    if pieces:
        _leave_out_others(exports)
    undecided_names = [] if largest is None else _settle(exports, pieces, largest)
    cleaner = Cleaner(exports.keys, interval, is_settled, keeps_steps)
    for step, (name, meter_pieces) in enumerate(pieces.items(), len(pieces)):
        if progress is not None:
            progress(name, step, 2 * len(pieces))
        with collect_problems(exports.problems, name):
            zone = zone_named(exports.keys[name].timezone_of(name))
            exports.meters[name] = cleaner.clean(name, meter_pieces, zone, weather)
    lengths = {meter.minutes: name for name, meter in exports.meters.items()}
    if len(lengths) > 1:
        intervals = ", ".join(f"{name!r}: {minutes} minutes" for minutes, name in lengths.items())
        remedy = f"set {Key('data.meters.interval', str(max(lengths)))}"
        exports.intervals = [Problem(intervals, "the meters have different intervals", remedy)]
    for name in undecided_names:
        exports.meters.pop(name, None)
    exports.problems = list(dict.fromkeys(exports.problems))
    return exports


@dataclass(frozen=True)
class _ExportFile:
    """A file of exports that was read."""

    label: str
    """The meter of a file of one, in problems."""
    path: Path
    format_name: str | None
    file: FileReading
    name_by_file: Callable[[], FileReading] | None
    """Reads it again, so that its lone meter has the name of the file; None: it has, or several."""


def _read_export_files(
    files: Sequence[Path],
    meters: Meters,
    plain: Meters,
    names: Mapping[Path, str] | None,
    progress: Progress | None,
    exports: Exports,
    are_of_one: bool,
    is_settled: bool,
    clients: Collection[str],
) -> list[_ExportFile]:
    """All files, as far as they can be read. What is wrong with them is added to `exports`.
    `plain`: the keys of files in no known format.
    """
    export_files: list[_ExportFile] = []
    is_joined = names is None and meters.join_files
    undated_names = names_without_dates(files) if is_joined else {}
    counts = Counter(map(client_name, files))
    names = names or {}
    for step, path in enumerate(files):
        if progress is not None:
            size = path.stat().st_size / 1e6 if path.is_file() else 0
            progress(f"{path.name}, {size:.0f} MB", step, 2 * len(files))
        opened_files: list[RawFile] = []
        file_name = undated_names.get(path, "")
        name_of_file = names.get(path) or file_name or client_name(path)
        with collect_problems(exports.problems, name_of_file):
            opened_files = file_contents.open_files(path, meters)
        for raw in opened_files:
            with collect_problems(exports.problems, name_of_file):
                recognised_file = recognise(raw, meters) or column_roles.find_format(
                    raw, plain, is_settled
                )
                keys = plain if recognised_file.name is None else meters
                is_one_of_archive = path in names and len(opened_files) > 1 and not are_of_one
                lone_name = client_name(raw.path) if is_one_of_archive else names.get(path)
                own_name = file_name if len(opened_files) == 1 else ""
                name_by_file = partial(read_file, recognised_file, keys, lone_name, own_name)
                is_named_by_rows = is_joined and not own_name and counts[client_name(path)] == 1
                is_named_by_rows &= client_name(path) not in clients
                is_named_by_rows &= recognised_file.form.meters.is_unique
                file = name_by_file(has_name_of_rows=is_named_by_rows)
                is_alone = len(file.names) == 1 and file.form.meters.column and not is_settled
                export_files.append(
                    _ExportFile(
                        name_of_file,
                        raw.path,
                        recognised_file.name,
                        file,
                        name_by_file if is_named_by_rows and is_alone else None,
                    )
                )
    return export_files


def _add_pieces(
    exports: Exports,
    pieces: dict[str, list[Piece]],
    export_file: _ExportFile,
    file: FileReading,
    meters: Meters,
) -> None:
    """Add the readings of each meter in a file to the `pieces`, and what the file is."""
    exports.names += file.names
    exports.registers += file.registers
    unzoned = list(file.pieces) if file.needs_place else None
    exports.forms[export_file.path] = FileForm(
        file.words, file.form, export_file.format_name, unzoned
    )
    if not meters.join_files:
        _check_unique(export_file.path, file, pieces)
    for name, piece in file.pieces.items():
        if not _are_alike(exports.keys.setdefault(name, file.keys), file.keys):
            raise data_error(
                export_file.path,
                f"{name} has another unit, or other stamps, than in {exports.files[name]}",
                "rename the file, or make them equal",
            )
        if piece.times.contradict(zone_named(file.keys.timezone_of(name))):
            exports.contradictory.append(name)
        pieces.setdefault(name, []).append(piece)
        exports.files.setdefault(name, export_file.path)


def _leave_out_others(exports: Exports) -> None:
    """Leave out files of something else beside those of consumption, and say so."""
    problems, exports.problems = exports.problems, []
    for problem in problems:
        if problem.kind == file_contents.NO_CONSUMPTION:
            exports.assumptions.append(f"{problem.place} {problem.text} and is left out")
        else:
            exports.problems.append(problem)


def _are_alike(keys: Meters, other_keys: Meters) -> bool:
    """Whether two files of a meter are read alike; the default unit is kWh."""
    if keys is other_keys:
        return True
    unit = {"unit": keys.unit or "kWh"}
    other_unit = {"unit": other_keys.unit or "kWh"}
    return keys.model_copy(update=unit) == other_keys.model_copy(update=other_unit)


def _settle(
    exports: Exports, pieces: Mapping[str, Sequence[Piece]], largest: LargestLoads
) -> Iterable[str]:
    """Settle what the files do not state for their meters, or add a question to the problems; the
    names of the meters that wait for its answer."""
    keys_of = exports.keys
    is_open = all(
        "cumulative" not in keys.model_fields_set and keys.unit not in POWER_UNITS
        for keys in keys_of.values()
    )
    every_piece = {id(piece): piece for name in pieces for piece in pieces[name]}
    if is_open and pieces and (assumption := settle_cumulative(every_piece.values())):
        _keep(exports, "cumulative", pieces, assumption)
    open_units = {name: pieces[name] for name in pieces if keys_of[name].unit is None}
    open_stamps = [
        name
        for name in pieces
        if "stamp" not in keys_of[name].model_fields_set and not keys_of[name].cumulative
    ]
    with collect_problems(exports.problems):
        if open_units:
            by_day = [n for n in open_units if exports.forms[exports.files[n]].format.time.of_day]
            try:
                assumption = settle_unit(open_units, keys_of, by_day, largest)
            except DataError as error:
                if len(open_units) == len(pieces):
                    raise
                raise DataError(*map(_for_some_files, error.problems)) from None
            if assumption.value != "kWh" and len(open_units) < len(pieces):
                raise data_error(
                    exports.files[next(iter(open_units))],
                    "does not state its unit, and others are in another one than "
                    f"{assumption.value}, which is likely",
                    "write it into the header",
                )
            _keep(exports, "unit", open_units, assumption)
    if open_stamps:
        every_piece = {id(piece): piece for name in open_stamps for piece in pieces[name]}
        zone = keys_of[open_stamps[0]].timezone_of(open_stamps[0])
        with collect_problems(exports.problems):
            named_columns = {
                column for keys in keys_of.values() for column in keys.columns.values()
            }
            is_asked = not all(
                _is_plain(piece, exports, named_columns) for piece in every_piece.values()
            )
            assumption = settle_stamp(every_piece.values(), zone, is_asked)
            if len(open_stamps) < len(pieces):  # a study has one key for all
                assumption = replace(assumption, value="end")
            _keep(exports, "stamp", open_stamps, assumption)
            open_stamps = []
    return [name for name in pieces if keys_of[name].unit is None or name in {*open_stamps}]


def _for_some_files(question: Problem) -> Problem:
    """The question about the unit of some files, where others state theirs."""
    remedy = (
        f"write it into the header: {Key('data.meters.unit')} is that of all files, also of those "
        "that state theirs"
    )
    return replace(question, remedy=remedy, answers=())


def _is_plain(piece: Piece, exports: Exports, named_columns: Collection[str]) -> bool:
    """Whether a file has nothing but times, names of meters, loads in a unit that it states, and
    columns that the user named."""
    form = exports.forms[piece.table.path].format
    columns = (*form.time.column, *form.time.clock, *form.meters.column, *form.load.columns)
    cells = map(str, piece.table.cells)
    return form.load.unit is not None and {*cells} <= {*columns, *named_columns}


def _keep(exports: Exports, key: str, names: Iterable[str], assumption: Assumption) -> None:
    """Keep what was settled about a key of some meters."""
    exports.settled_keys[key] = assumption.value
    exports.assumptions += [assumption.words] if assumption.words else []
    names_by_keys: dict[int, list[str]] = {}  # the meters of a file share theirs
    for name in names:
        names_by_keys.setdefault(id(exports.keys[name]), []).append(name)
    for names_alike in names_by_keys.values():
        keys = exports.keys[names_alike[0]].model_copy(update={key: assumption.value})
        exports.keys |= dict.fromkeys(names_alike, keys)


def _is_after_or_before(file: FileReading, first: Piece) -> bool:
    """Whether a file has no times of another one between its first and last."""
    stamps = [next(iter(file.pieces.values())).times.stamps, first.times.stamps]
    if len({str(times.dtype) for times in stamps}) > 1:
        return False
    (_, end), (start, _) = sorted((times.min(), times.max()) for times in stamps)
    return bool(end < start)


def _check_unique(
    path: Path, file: FileReading, earlier_pieces: Mapping[str, Sequence[Piece]]
) -> None:
    """Refuse meters that an earlier file also has, and suggest how else the files can be read."""
    repeated_names = [name for name in file.pieces if name in earlier_pieces]
    if not repeated_names:
        return
    first_names = ", ".join(map(repr, repeated_names[:3])) + (
        " …" if len(repeated_names) > 3 else ""
    )
    first = earlier_pieces[repeated_names[0]][0]
    columns = Key("data.meters.columns", flow({"load": first.columns[repeated_names[0]]}))
    is_of_several = file.form.meters.column or file.form.meters.add  # rows or columns
    is_certain = is_of_several or repeated_names == [client_name(path)]
    options = [] if is_certain else [f"{columns} if every file holds one meter"]
    join = Key("data.meters.join_files", "true")
    options.append(f"{join} if they hold parts of the same meters")
    raise data_error(
        path,
        f"{first.table.path} has {first_names}, too",
        f"set {', or '.join(options)}; if they are several meters, rename the files or columns",
        *([join] if is_of_several or (is_certain and _is_after_or_before(file, first)) else []),
    )
