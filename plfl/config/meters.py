"""The keys of `data.meters`: your own meters, their files and how these are read."""

from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from plfl.config.values import DecimalMark, IntervalEdge, LoadUnit, Zone, check_expression
from plfl.plugins.registry import Section

METER_ROLES = ("timestamp", "time_of_day", "meter")
"""Roles of columns with the time and the meter of a reading."""


NOT_INPUTS = ("load", *METER_ROLES)
"""Roles of columns that are not further inputs."""


SERIES_MINUTES = (15, 30, 60)
"""Minutes that the rows of a series may be apart."""


class Meters(Section):
    """Your own meters: a folder with one file per meter, named after the client, or raw exports.
    `plfl init meters` has an option for each key about the content of files, such as `--max-gap`
    for `max_gap`."""

    folder: Path = Path("meters")
    """Folder of the files. With several states, each state has a sub-folder of its name."""
    exports: list[Path] | dict[str, Annotated[list[Path], Field(min_length=1)]] = []
    """Raw exports to read instead of `folder`: files, or folders of them (docs/own-data.md).
    `{state}` stands for the state; or those of each state, by name."""
    format: str | None = None
    """Format of the exports: a name in docs/own-data.md, a file of your own that ends in `.toml`,
    or `plain` for none of them. null: the one in which a file is recognised, unless `columns`,
    `header`, `date_format`, `stamp`, `cumulative` or `add` say how it is read."""
    columns: dict[str, str] = {}
    """Columns of the files, by role. `timestamp` and `load`, and in exports `meter` (a column of
    the meters' names) are detected if not named; `time_of_day` is a column of times beside a
    `timestamp` of dates. Inputs of the model: `temperature` (°C), `wind_speed` (m/s), `floor_area`
    (ft²), `wall_area` and `window_area` (m²), and other numbers under names of your choice, such as
    a weather forecast, which `data.features` lists, too."""
    units: dict[str, str] = {}
    """Units of these inputs, by role, where they are not those of `columns`: `temperature` may be
    in `°F` or `K`, `wind_speed` in `km/h`, `mph` or `kn`, areas in `m²` or `ft²`."""
    timezone: Zone = "UTC"
    """IANA time zone of timestamps without a UTC offset, such as `America/New_York`, or a fixed
    zone (`UTC`, `Etc/GMT+5`) for meters without daylight saving time. `plfl init meters` has no
    default."""
    timezones: dict[str, Zone] = {}
    """Zones of single meters, by name (`*` and `?` are wildcards), where they are not `timezone`.
    The first that fits counts."""
    date_format: str | None = Field(None, pattern="%")
    """Format of the timestamps, such as `%d/%m/%Y %H:%M`. null: detected."""
    drop_skipped: bool = False
    """Leave out readings in the hour that clocks skip in spring, which some portals fill. Otherwise
    they are refused: they can mean another time zone."""
    drop_gap_sums: bool = True
    """Leave out readings beside gaps that may hold their energy."""
    stamp: IntervalEdge | dict[str, IntervalEdge] = "end"
    """Whether a timestamp marks the `end` or the `start` of its interval, or that of each state, by
    name."""
    interval: Literal[15, 30, 60] = 15
    """Minutes between the rows of a series. Shorter intervals are summed; one with a missing
    reading is a gap. `plfl init meters` writes the shortest of the files."""
    step: PositiveInt | dict[str, PositiveInt] | None = None
    """Minutes between the readings in the files, of all meters or by name (`*` and `?` are
    wildcards). A single reading in a later file is taken to be this long; null: it is refused."""
    since: str | None = None
    """Intervals that end by this local time, such as 2017-01-01, are left out."""
    until: str | None = None
    """Intervals that end after this local time are left out."""
    unit: LoadUnit | None = None
    """Unit of the readings: energy in the interval, or mean power (`kW`, `W`, `MW`). null: the one
    that the file states, otherwise kWh."""
    cumulative: bool = False
    """The readings are of a cumulative register: the load is their difference, spread evenly over
    missing readings of up to `max_gap` minutes."""
    add: str | None = None
    """Registers whose names are equal without the match of this regular expression, such as
    ` T[12]$` for day and night, are added. Where one has no reading, the sum has none, unless they
    take turns."""
    decimal: DecimalMark | None = None
    """Decimal separator. null: detected."""
    missing: list[float | str] = []
    """Values that stand for a missing reading, such as -9999 or `fault`."""
    zero_run: float | None = Field(None, gt=0)
    """Zero load for this many hours is an outage: a gap. null: zeros are readings."""
    max_jump: float | None = Field(None, gt=0)
    """A load is a gap if it differs by more than this multiple of the meter's median load from the
    median of the five readings before it. null: none."""
    duplicates: Literal["first", "last", "mean"] | None = None
    """Which of several different readings for a time counts; of several files, the `first` is in
    the one that ends first, the `last` in the one that ends last. null: an error."""
    allow_negative: bool = False
    """Accept negative loads, for example of a meter with generation behind it."""
    max_gap: int = Field(60, ge=0)
    """Longest gap that is filled, in minutes, with the last reading before it, so that no forecast
    uses a later one. Windows that touch a longer gap are left out."""
    only: list[str] = []
    """Names of the meters that take part (`*` and `?` are wildcards; `{state}` is the state).
    Empty: all."""
    leave_out: list[str] = []
    """Names of meters that do not take part (`*` and `?` are wildcards)."""
    join_files: bool = False
    """true: several exports hold parts of the same meters, such as one file per month."""
    header: int | None = Field(None, ge=1)
    """Line of the header. null: the one before the first lines with a date."""
    encoding: str = "utf-8"
    """Encoding of text files. If none is named, text that is neither UTF-8 nor UTF-16 is read in
    that in which the most words are known (docs/own-data.md)."""
    max_size: float = Field(300, gt=0)
    """Largest file in MB, decompressed; reading takes about ten times as much memory."""
    weather: Path | None = None
    """Table of one weather station (CSV, Parquet or XLSX), joined to all meters by time. A value
    holds from its timestamp on; several in an interval are averaged. Its gaps are treated as those
    of the readings."""
    weather_timezone: Zone | None = None
    """Time zone of its timestamps without a UTC offset. null: `timezone`."""
    weather_issued: str | None = None
    """Column of `weather` with the time at which a row, a forecast, was issued. For each time the
    latest counts that was issued at least `weather_ahead` hours before."""
    weather_ahead: float | None = Field(None, gt=0)
    """Hours from the issue of a forecast of the weather to its time: at least the farthest target
    of a window, so that none reads what was not yet known."""

    @field_validator("since", "until", mode="before")
    @classmethod
    def _write_time_as_text(cls, value: object) -> object:
        """A time as text; YAML reads an unquoted 2017-01-01 as a date."""
        if value is None:
            return None
        try:
            text = str(value)
            if datetime.fromisoformat(text).tzinfo is None and text[10:11] in ("", " ", "T"):
                return text
        except ValueError:
            pass
        raise ValueError("write it as 2017-01-31 or 2017-01-31T06:00")

    @field_validator("add")
    @classmethod
    def _check_expression(cls, text: str | None) -> str | None:
        return text if text is None else check_expression(text)

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, name: str) -> str:
        try:
            b"    ".decode(name, "replace")
        except (LookupError, ValueError):
            raise ValueError("write utf-8, cp1252, utf-16 or another encoding of Python") from None
        return name

    @model_validator(mode="after")
    def _check_issue_and_lead(self) -> Self:
        if (self.weather_issued is None) != (self.weather_ahead is None):
            raise ValueError(
                "weather_issued, weather_ahead: the column of issue times and the hours before the "
                "time that a forecast is for belong together; set both"
            )
        if self.weather_issued is not None and self.weather is None:
            raise ValueError("weather_issued: needs the table of forecasts, weather")
        return self

    @property
    def input_columns(self) -> dict[str, str]:
        """The columns of a model's inputs other than the load and the calendar, by role."""
        return {role: name for role, name in self.columns.items() if role not in NOT_INPUTS}

    def of_state(self, state: str) -> Self:
        """The keys with the values of a state, whose name stands for `{state}`."""
        only = [pattern.replace("{state}", state) for pattern in self.only]
        update: dict[str, Any] = {"exports": self.exports_of(state), "only": only}
        if isinstance(self.stamp, dict):
            update["stamp"] = self.stamp[state]
        return self.model_copy(update=update)

    def exports_of(self, state: str) -> list[Path]:
        """The raw exports of a state."""
        paths = self.exports[state] if isinstance(self.exports, dict) else self.exports
        return [Path(str(path).replace("{state}", state)) for path in paths]

    @property
    def by_state(self) -> dict[str, dict[str, Any]]:
        """The keys whose values are those of each state, by its name."""
        values = {"exports": self.exports, "stamp": self.stamp}
        return {key: value for key, value in values.items() if isinstance(value, dict)}

    def step_of(self, client: str) -> int | None:
        """The minutes between the readings of a meter, if they are known."""
        if not isinstance(self.step, dict):
            return self.step
        fitting_steps = (step for name, step in self.step.items() if fnmatchcase(client, name))
        return next(fitting_steps, None)

    def summed_step_of(self, client: str) -> int | None:
        """The minutes between the readings of a meter, if they are loads that are summed to
        `interval`; None if not, or if no series can have this interval."""
        step = self.step_of(client)
        is_part = step in SERIES_MINUTES and step < self.interval and not self.interval % step
        return step if is_part and not self.cumulative else None

    def timezone_of(self, client: str) -> str:
        """The zone of a meter."""
        return next(iter(self.own_zones_of(client)), self.timezone)

    def own_zones_of(self, client: str) -> list[str]:
        """The zones in `timezones` whose patterns fit a meter, in order."""
        return [zone for name, zone in self.timezones.items() if fnmatchcase(client, name)]
