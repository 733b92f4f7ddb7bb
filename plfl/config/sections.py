"""The sections of a study's configuration: every key with its type, bounds, default and meaning.

The docstring of a key is its documentation: `plfl schema` generates the JSON schema and the
reference from it. A section does not depend on any other; `plfl.study.checks` checks what must fit
together.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args
from zoneinfo import ZoneInfo, available_timezones

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from plfl.base.errors import suggest_name
from plfl.base.extras import require
from plfl.base.files import digest
from plfl.base.minutes import MINUTES_PER_DAY
from plfl.base.rounding import count_participants
from plfl.config.error_messages import list_allowed, refusal
from plfl.config.named import (
    CALENDAR,
    FEATURE_UNITS,
    STANDARD_BASELINES,
    Chain,
    ChosenBaseline,
    LeftOut,
    MeterKind,
    added_blocks,
    available_sources,
    chain_of,
    find_baseline,
    find_source,
)
from plfl.config.speeds import Speeds
from plfl.interfaces.baseline import Baseline, Crosses, FitSettings
from plfl.interfaces.codec import Codec
from plfl.interfaces.source import Source
from plfl.layout import Head
from plfl.plugins import registry
from plfl.plugins.registry import ALGORITHM_PACKAGES, Algorithm, Section, Value, extend_section

Item = TypeVar("Item")


def refuse_repetitions(values: list[Item]) -> list[Item]:
    """A list, if it contains no value more than once."""
    texts = Counter(map(str, values))
    if twice := [text for text, count in texts.items() if count > 1]:
        repeated = ", ".join(map(repr, twice))
        raise refusal(f"duplicate {repeated}; list {'it' if len(twice) == 1 else 'each'} once")
    return values


def check_expression(text: str) -> str:
    """A regular expression, if it is one."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"write a regular expression ({error})") from None
    return text


def in_zone(name: str) -> str:
    """The name of a time zone, if it exists."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        hint = suggest_name(name, sorted(available_timezones()))
        raise ValueError(
            f"it is not an IANA time zone such as 'America/New_York' or 'Etc/GMT+5'{hint}"
        ) from None
    return name


def _algorithm(kind: str, name: str) -> str:
    """The name of an algorithm of a kind (see `ALGORITHM_PACKAGES`), if it exists."""
    if registry.algorithm(ALGORITHM_PACKAGES[kind], name) is None:
        names = registry.available(ALGORITHM_PACKAGES[kind], Algorithm)
        raise refusal(f"{name!r} is unknown; {list_allowed(name, names)}")
    return name


Zone = Annotated[str, AfterValidator(in_zone)]

BASELINE = "baseline"
"""The value of `sharing` in the rows of baselines in tables; no sharing scheme may have this
name."""


class Comstock(Section):
    """NREL's ComStock, simulated with EnergyPlus."""

    release: str = Field(
        "2023/comstock_amy2018_release_1", pattern=r"^\d{4}/comstock_(amy\d{4}|tmy3)_release_\d+$"
    )
    """Folder of the release in the bucket. Building ids hold for one release only."""
    upgrade: int = Field(10, ge=0, le=99)
    """Upgrade scenario: 0 is none, 10 (authors' code) "New Windows"."""
    join: Literal["position", "utc"] = "position"
    """How hourly weather is joined to the load: `position`, row by row (authors' code), which is
    off by one hour in IL and three in CA, or `utc`, by true time."""
    draw: int | None = Field(None, ge=0)
    """Seed of a random draw from all buildings of a state; null: `data.buildings` or the paper's
    list."""


METER_ROLES = ("timestamp", "time_of_day", "meter")
"""Roles of columns with the time and the meter of a reading."""
NOT_INPUTS = ("load", *METER_ROLES)
"""Roles of columns that are not further inputs."""


SERIES_MINUTES = (15, 30, 60)
"""Minutes that the rows of a series may be apart."""


Mark = Literal["end", "start"]
"""What a timestamp marks of its interval."""


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
    stamp: Mark | dict[str, Mark] = "end"
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
    unit: Literal["kWh", "Wh", "MWh", "kW", "W", "MW"] | None = None
    """Unit of the readings: energy in the interval, or mean power (`kW`, `W`, `MW`). null: the one
    that the file states, otherwise kWh."""
    cumulative: bool = False
    """The readings are of a cumulative register: the load is their difference, spread evenly over
    missing readings of up to `max_gap` minutes."""
    add: str | None = None
    """Registers whose names are equal without the match of this regular expression, such as
    ` T[12]$` for day and night, are added. Where one has no reading, the sum has none, unless they
    take turns."""
    decimal: Literal[".", ","] | None = None
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


class Sample(Section):
    """Generated buildings in ComStock's layout. All results are labelled as sample data."""

    seed: int = Field(2018, ge=0, lt=2**63)
    """Seed of the generator."""


TESTED_WEEKS = 4
"""Weeks after an origin that are its test set."""


class Rolling(Section):
    """Origins at equal distances, the last one first."""

    last: date
    """The latest origin."""
    count: int = Field(ge=1)
    """Number of origins."""
    step: int = Field(13, ge=1)
    """Weeks between two of them."""

    @property
    def dates(self) -> list[date]:
        """The origins, the earliest first."""
        return [self.last - k * timedelta(weeks=self.step) for k in reversed(range(self.count))]


def count_federations(client_count: int, size: int) -> int:
    """The number of federations of about `size` clients into which `client_count` clients go."""
    return max(1, round(client_count / size))


class Data(Section):
    """The source of the clients' series or images."""

    source: str = Field(
        "comstock", json_schema_extra=lambda s: s.update(enum=[*available_sources()])
    )
    """Loads: `comstock` (NREL's public bucket), `meters` (your own) or `sample` (generated). Images
    with labels: `digits` (scikit-learn), `cifar10` or `cifar100`."""
    folder: Path = Path("data")
    """Cache of downloaded and generated files, which all studies share."""
    states: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")]] = Field(
        ["CA", "IL", "NY"], min_length=1
    )
    """States; each is a separate federation. With `meters`: any names, also those of the
    sub-folders."""
    clients: Annotated[int, Field(ge=1)] | dict[str, Annotated[int, Field(ge=1)]] = 12
    """Clients per state, the first of its list of buildings (paper: 12 of 42), or those of each
    state, by name."""
    buildings: dict[str, list[Annotated[int, Field(ge=0, lt=2**63)]]] = {}
    """Building ids per state, in order, instead of the paper's list."""
    features: list[str] = Field(list(FEATURE_UNITS), min_length=1)
    """Inputs of the model, in order, `load` first (paper: all eight). With `meters`, also your own
    columns."""
    resample: Literal[30, 60] | None = None
    """Minutes between rows, if longer than between readings; loads are summed, other values
    averaged. null: a row per reading."""
    origins: list[date] | Rolling = []
    """Dates that cut the calendar: a list, or `{last: 2017-12-03, count: 4, step: 13}`. The test
    set is the four weeks from such a date on, and only readings before it train (docs/axes.md).
    Several dates are an axis. Empty: `windows.split`."""
    federations: int | None = Field(None, ge=2)
    """Clients per federation: those of a state are divided at random into federations of about this
    size. null: a state is one."""
    comstock: Comstock = Comstock()
    meters: Meters = Meters()
    sample: Sample = Sample()

    @classmethod
    def extend(cls) -> type[Self]:
        section: type[Self] = extend_section(cls, tuple(added_blocks().items()))
        return section

    @field_validator("source")
    @classmethod
    def _check_source(cls, name: str) -> str:
        try:
            find_source(name)
        except KeyError:
            names = available_sources()
            hint = suggest_name(name, names)
            raise ValueError(f"it is one of {', '.join(names)}{hint}") from None
        return name

    _are_different = field_validator("states")(refuse_repetitions)

    @field_validator("features")
    @classmethod
    def _check_features(cls, features: list[str]) -> list[str]:
        if features[0] != "load":
            raise ValueError(f"it must start with 'load', but starts with {features[0]!r}")
        return refuse_repetitions(features)

    @field_validator("origins")
    @classmethod
    def _refuse_equal_origins(cls, origins: list[date] | Rolling) -> list[date] | Rolling:
        return refuse_repetitions(origins) if isinstance(origins, list) else origins

    @property
    def source_class(self) -> type[Source]:
        """The class of the source."""
        return find_source(self.source)

    @model_validator(mode="after")
    def _check_values_of_states(self) -> Self:
        by_key = {f"meters.{key}": (by, "a value") for key, by in self.meters.by_state.items()}
        if isinstance(self.clients, dict):
            by_key["clients"] = (self.clients, "a number")
        for key, (by_state, noun) in by_key.items():
            if set(by_state) != set(self.states):
                raise refusal(
                    f"has {', '.join(by_state) or 'no states'}, but data.states has "
                    f"{', '.join(self.states)}; give {noun} for each of them, or one for all",
                    key,
                )
        return self

    @model_validator(mode="after")
    def _check_draw(self) -> Self:
        if self.comstock.draw is not None and (self.buildings or self.source != "comstock"):
            raise ValueError(
                "comstock.draw: draws ComStock's buildings, so remove data.buildings or the draw, "
                "and use data.source: comstock"
            )
        return self

    def clients_of(self, state: str) -> int:
        """The number of clients of a state."""
        return self.clients if isinstance(self.clients, int) else self.clients[state]

    @property
    def most_clients(self) -> int:
        """The number of clients of the largest state."""
        return max(map(self.clients_of, self.states))

    @property
    def federation_sizes(self) -> list[int]:
        """The numbers of clients of the federations of all states, the least first."""
        sizes = set[int]()
        for clients in map(self.clients_of, self.states):
            count = count_federations(clients, self.federations) if self.federations else 1
            sizes |= {clients // count, -(-clients // count)}
        return sorted(sizes)

    @property
    def origin_dates(self) -> list[date]:
        """The dates of `origins`."""
        return self.origins if isinstance(self.origins, list) else self.origins.dates

    @property
    def origin_date(self) -> date | None:
        """The origin of a variant; None without origins."""
        return self.origin_dates[0] if self.origin_dates else None

    @property
    def source_words(self) -> str:
        """The origin of the data in a few words, as reports show it."""
        return self.source_class.provenance.label

    @property
    def is_sample(self) -> bool:
        """Whether they are sample data; every table, title and log must say so."""
        return self.source == "sample"

    @property
    def sample_suffix(self) -> str:
        """What a title adds if they are sample data; otherwise empty."""
        return " (sample data)" if self.is_sample else ""

    @property
    def interval(self) -> int:
        """Minutes between the rows of a series."""
        return self.resample or self.read_interval

    @property
    def read_interval(self) -> int:
        """Minutes between the readings of the source."""
        return self.meters.interval if self.source == "meters" else 15

    @property
    def inputs(self) -> list[str]:
        """The available features. Own meters have those of their columns and of the calendar."""
        if self.source != "meters":
            return self.features
        input_names = ("load", *CALENDAR, *self.meters.input_columns)
        return [name for name in self.features if name in input_names]


class Lags(Section):
    """Loads around earlier times, at fixed distances from each target. A load that is not known yet
    is replaced by that of the same time one or more days earlier, so that the transform works for
    an hour and a day ahead. A load before the client's first row is replaced by that of the last
    input row."""

    name: Literal["lags"]
    """Selects this transform."""
    days: list[Annotated[int, Field(ge=1)]] = Field([1, 2, 7], min_length=1)
    """Distances in days before the target."""
    around: int = Field(2, ge=0)
    """Rows before and after each of these times that are read as well."""

    _are_different = field_validator("days")(refuse_repetitions)

    def width(self, horizons: int) -> int:
        """Columns that it adds to the covariates of a window with `horizons` targets."""
        return len(self.days) * (2 * self.around + horizons)

    def distances(self, interval: int) -> list[int]:
        """The distances in rows that are `interval` minutes apart."""
        return [days * MINUTES_PER_DAY // interval for days in self.days]


class Level(Section):
    """The last load in terms of the mean m and standard deviation σ of the client's training set:
    (y − m)/σ and log(y/m)."""

    name: Literal["level"]
    """Selects this transform."""

    def width(self, horizons: int) -> int:
        """Columns that it adds to the covariates of a window with `horizons` targets."""
        return 2


class Calendar(Section):
    """Time of day and day of the week of the (first) target."""

    name: Literal["calendar"]
    """Selects this transform."""
    harmonics: int = Field(4, ge=0)
    """Sines and cosines of 1, 2, … times the angle of the time of day."""

    def width(self, horizons: int) -> int:
        """Columns that it adds to the covariates of a window with `horizons` targets."""
        return 2 * self.harmonics + 7


class Encoding(Section):
    """Piecewise-linear encoding (Gorishniy et al. 2022) of the last load and of its changes since
    the previous row, over the look-ahead, and since the first row of the window."""

    name: Literal["encoding"]
    """Selects this transform."""
    bins: int = Field(16, ge=1)
    """Bins of each number, at the quantiles of the client's training windows."""

    def width(self, horizons: int) -> int:
        """Columns that it adds to the covariates of a window with `horizons` targets."""
        return 4 * self.bins


COMPARED_YEARS = range(2000, 2041)
"""Years in which another version of the package `holidays` may list others."""


class Holidays(Section):
    """Whether each target is on a public holiday, 1 or 0, as the Python package `holidays` lists
    them."""

    name: Literal["holidays"]
    """Selects this transform."""
    country: str
    """Code of the country (ISO 3166), such as `DE`."""
    subdivision: str | None = None
    """Code of a state or province, such as `BY`, whose holidays count, too. null: only those of the
    whole country."""

    def width(self, horizons: int) -> int:
        """Columns that it adds to the covariates of a window with `horizons` targets."""
        return horizons

    def dates(self, years: Iterable[int]) -> list[date]:
        """The holidays of some years, in order.

        Raises:
            ValueError: the package does not know the country or the subdivision.
            PlflError: the package is not installed.
        """
        require("holidays", "windows.covariates: holidays")
        from holidays import country_holidays, list_supported_countries

        subdivisions = list_supported_countries()
        if self.country not in subdivisions:
            hint = suggest_name(self.country, list(subdivisions))
            raise ValueError(f"country: {self.country!r} is not a code such as DE{hint}")
        if self.subdivision is not None and self.subdivision not in subdivisions[self.country]:
            known_codes = ", ".join(subdivisions[self.country]) or "none"
            raise ValueError(
                f"subdivision: {self.country} has no {self.subdivision!r}; it has {known_codes}"
            )
        return sorted(country_holidays(self.country, self.subdivision, years=list(years)))

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        self.dates([])
        return self


class KnownFuture(Section):
    """Features that are known in advance, at every target: a temperature, as if its forecast were
    exact, or the calendar as an integer."""

    name: Literal["known_future"]
    """Selects this transform."""
    features: list[str] = Field(["temperature"], min_length=1)
    """Which of `data.features`, other than the load."""

    _are_different = field_validator("features")(refuse_repetitions)

    def width(self, horizons: int) -> int:
        """Columns that it adds to the covariates of a window with `horizons` targets."""
        return horizons * len(self.features)


Transform = Lags | Level | Calendar | Encoding | Holidays | KnownFuture
"""A transform, which computes columns of the covariates."""


class Windows(Section):
    """How series become supervised windows."""

    look_back: int = Field(12, ge=1)
    """Input rows per window (paper: 12, that is 3 h)."""
    look_ahead: int = Field(4, ge=1)
    """Rows from the last input row to the (first) target (paper: 4, that is 1 h)."""
    horizons: int = Field(1, ge=1)
    """Targets per window, in successive rows (paper: 1)."""
    split: tuple[float, float, float] = (0.8, 0.1, 0.1)
    """Fractions of training, validation and test, in order of time (paper: 0.8, 0.1, 0.1; authors'
    code: 0.8, 0, 0.2). With 0 for validation, everything is chosen as with `history`.
    `data.origins` replaces them."""
    history: int | None = Field(None, ge=1)
    """Weeks that a client knows before the test set; null: all. With a number, or with
    `data.origins`, everything is chosen on its last fifth, at least a day, and then trained again
    on all of it; `split` only says where the test set begins."""
    scaling: Literal["pooled", "per_client"] = "pooled"
    """Min-max scaling by the training sets of all clients of a state together (`pooled`, authors'
    code) or of each client (`per_client`)."""
    target: Literal["load", "change"] = "load"
    """What is predicted: the load, scaled (`load`, paper), or its change from the last input row,
    in units of the client's mean absolute change (`change`). Loads among the inputs likewise."""
    covariates: list[Annotated[Transform, Field(discriminator="name")]] = []
    """Further inputs, read once per window: a list of transforms such as `{name: lags, days: [1,
    7]}`. Statistics that a transform estimates are never sent. Empty (paper): none."""

    @field_validator("split")
    @classmethod
    def _check_split(cls, split: tuple[float, float, float]) -> tuple[float, float, float]:
        training, validation, test = split
        if training <= 0 or validation < 0 or test <= 0:
            raise ValueError("it must contain three fractions above 0; only validation may have 0")
        if abs((total := sum(split)) - 1) > 1e-9:
            raise ValueError(f"its fractions must add up to 1, but add up to {total:.6g}")
        return split

    @property
    def settings(self) -> dict[str, Any]:
        """What determines the windows of a series: the keys and, with the covariate `holidays`,
        those that the installed package lists."""
        keys = self.model_dump(mode="json")
        if holidays := self.holidays_digest:
            keys["holidays"] = holidays
        return keys

    @property
    def holidays_digest(self) -> str:
        """Digest of the holidays that covariates read; empty without them."""
        transforms = [item for item in self.covariates if isinstance(item, Holidays)]
        return digest([item.dates(COMPARED_YEARS) for item in transforms]) if transforms else ""

    @property
    def has_validation(self) -> bool:
        """Whether a part of the readings is for validation alone."""
        return self.split[1] > 0 and self.history is None

    @property
    def is_relative(self) -> bool:
        """Whether loads are given as changes from the last input row."""
        return self.target == "change"

    @property
    def farthest(self) -> int:
        """Rows from the last input row to the last target of a window."""
        return self.look_ahead + self.horizons - 1

    def describe_times(self, interval: int) -> str:
        """The times that a forecast reads and is of, in words; `interval`: minutes between rows."""
        first, last = (
            f"{row_count * interval / 60:g} h" for row_count in (self.look_ahead, self.farthest)
        )
        reach = f"the next {last}" if self.look_ahead == 1 else f"{first} to {last} ahead"
        if self.horizons == 1:
            reach = f"the load {last} ahead"
        return (
            f"a forecast reads the last {self.look_back * interval / 60:g} h and is of {reach}, "
            f"because windows count intervals of {interval} min"
        )

    @property
    def covariates_width(self) -> int:
        """G, number of columns of the covariates."""
        return sum(transform.width(self.horizons) for transform in self.covariates)


def as_list(patterns: Any) -> Any:
    """A single text as a list of one; everything else as it is."""
    return [patterns] if isinstance(patterns, str) else patterns


Patterns = Annotated[list[str], BeforeValidator(as_list, json_schema_input_type=str | list[str])]
"""Patterns of the names of parameters; a single one needs no list."""


class Scheme(Section):
    """A sharing scheme in which clients take part without training in the rounds."""

    join: Literal["unseen", "raw"]
    """`unseen`: a client joins after the rounds and receives the model of the others, who train on
    their whole history; `fine_tuning` and `boosting` adapt it. `raw`: all receive one model,
    trained on the windows of all with as many steps as they take together."""
    share: Patterns = ["*"]
    """Patterns, as of other schemes."""
    turns: int = Field(4, ge=2)
    """Groups of clients, which are unseen in turn."""
    history: int | None = Field(None, ge=1)
    """With `unseen`: weeks of readings that these know. Their scores are used for no choice."""


_AXIS = r"^(data|windows|task|model|sharing|federation|channel|hyperparameters)(\.|$)"


class Grid(Section):
    """The cells of the study: every combination of these axes, in every state. Any other key of the
    study becomes an axis if it is listed here with its values, such as `federation.participation:
    [0.1, 0.2]` (docs/axes.md)."""

    # `plfl.study.axes` checks further keys; the schema for editors knows only their first parts.
    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "additionalProperties": False,
            "patternProperties": {_AXIS: {"type": ["array", "object"]}},
        },
    )

    method: list[Annotated[str, AfterValidator(partial(_algorithm, "method"))]] = Field(
        ["fedopt"], min_length=1
    )
    """Methods. `fedopt` is the paper's round."""
    client_opt: list[Annotated[str, AfterValidator(partial(_algorithm, "client_opt"))]] = Field(
        ["adam", "adamams", "prox", "proxadam"], min_length=1
    )
    """Local optimisers (paper: these four)."""
    server_opt: list[Annotated[str, AfterValidator(partial(_algorithm, "server_opt"))]] = Field(
        ["fedavg", "fedavgadaptive", "fedadagrad", "fedadam", "fedyogi"], min_length=1
    )
    """Server optimisers (paper: these five)."""
    sharing: list[str] = Field(["P1", "P2", "P3"], min_length=1)
    """Sharing schemes, as the key `sharing` defines them."""
    seeds: list[Annotated[int, Field(ge=0, lt=2**63)]] = Field([10], min_length=1, max_length=1000)
    """Seeds of the initial parameters and the minibatches (authors' code: 10)."""
    refused: Literal["error", "skip"] = "error"
    """Methods and optimisers that do not work together: an error (`error`), or left out of the grid
    (`skip`)."""

    _are_different = field_validator("method", "client_opt", "server_opt", "sharing", "seeds")(
        refuse_repetitions
    )


SPREADS = {"step_spread": ["step_seconds"], "link_spread": ["down_mbit", "up_mbit"]}
"""The keys of `Simulation` that spread speeds, and the speeds."""


class Simulation(Section):
    """Simulated participation and time: who is available, who drops out, and how fast everyone is.
    A speed is a number for all clients, a list in their order, a block by their names, or a column
    of a CSV file that has their names in the column `client`, such as `speeds.csv:step_seconds`.

    A round takes as long as the download, steps and upload of its slowest participant.
    """

    availability: float = Field(1.0, gt=0, le=1)
    """Probability that a selected client is available."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Probability that a participant drops out of a round. It uploads nothing, and its personal
    parameters stay as they were."""
    step_seconds: Speeds | None = None
    """Seconds per local step; null: none."""
    down_mbit: Speeds | None = None
    """Mbit/s from the server to a client; null: downloads take no time."""
    up_mbit: Speeds | None = None
    """Mbit/s from a client to the server; null: uploads take no time."""
    step_spread: float = Field(0.0, ge=0)
    """Spread of a common `step_seconds` among clients: standard deviation of the logarithm."""
    link_spread: float = Field(0.0, ge=0)
    """The same for `down_mbit` and `up_mbit`."""

    @model_validator(mode="after")
    def _check_spreads(self) -> Self:
        for spread, keys in SPREADS.items():
            own_keys = [key for key in keys if isinstance(getattr(self, key), list | dict)]
            if getattr(self, spread) and own_keys:
                raise ValueError(
                    f"{spread}: spreads a speed that all clients have in common, but {own_keys[0]} "
                    "has one for each client; remove one of them"
                )
        return self


class Calibration(Section):
    """Calibration of the heads after the rounds (FedADC, section IV-D): before a client is scored
    or forecasts, it trains the head of the server's model on its own data. The result, its local
    model, is not sent and not kept for the next round."""

    epochs: int = Field(0, ge=0)
    """Passes of a client over its training windows (FedADC: 2)."""
    head: Head = "last"
    """What is trained: the last layer (`last`, FedADC) or the whole head (`mlp`)."""
    variant: Literal["plain", "prox", "kd"] = "plain"
    """The loss: that of the local steps (`plain`), with a proximal term (`prox`), or with FedADC+'s
    distillation from the server's model (`kd`)."""
    mu: float = Field(0.1, ge=0)
    """μ of `prox`; FedADC gives none. Above 1 / lr it makes SGD oscillate."""
    lam: float = Field(0.35, ge=0, le=1)
    """λ of `kd` (FedADC: 0.35)."""
    temperature: float = Field(1.0, gt=0)
    """Temperature τ of `kd`, for classifiers."""
    bins: int = Field(10, ge=2)
    """Quantile bins of a load, which `kd` uses as classes."""


class PrivacySettings(Section):
    """Differential privacy of whole clients (docs/privacy.md)."""

    clip: float | None = Field(None, gt=0)
    """Bound C of the norm of an update. null: no privacy."""
    noise: float = Field(0.0, ge=0)
    """z: the noise has the standard deviation z · C."""
    delta: float = Field(1e-3, gt=0, lt=1)
    """δ for which ε is stated."""
    noise_as_of: int | None = Field(None, ge=1)
    """Clients for which the noise is set: an extrapolation. null: the actual number."""
    quantile: float | None = Field(None, gt=0, lt=1)
    """Quantile of the norms that C follows, from `clip` on (Andrew et al. 2021: 0.5). null: C is
    fixed."""


class Schedule(Section):
    """The clients' learning rate η_t in round t = 1, 2, …, for every local optimiser. What clients
    train outside of the rounds, such as fine-tuning, has the rate η."""

    shape: Literal["constant", "step", "cosine"] = "constant"
    """η in all rounds (`constant`), η times `factor` for each `period` before (`step`), or half a
    cosine from η to `floor` times η (`cosine`), which it would reach in the round after the last.
    """
    period: int = Field(10, ge=1)
    """Rounds from one rate to the next (`step`)."""
    factor: float = Field(0.1, gt=0, le=1)
    """Each of its rates as a multiple of the one before (PyTorch: 0.1)."""
    floor: float = Field(0.0, ge=0, lt=1)
    """The end of the `cosine` as a multiple of η."""

    @model_validator(mode="after")
    def _refuse_keys_without_effect(self) -> Self:
        plain = type(self).model_fields
        for key, shape in (("period", "step"), ("factor", "step"), ("floor", "cosine")):
            if self.shape != shape and getattr(self, key) != plain[key].default:
                raise ValueError(
                    f"{key}: has no effect with shape {self.shape!r}; remove it, or set shape to "
                    f"{shape}"
                )
        return self

    def compute_multiple(self, t: int, rounds: int) -> float:
        """η_t of round `t` as a multiple of η, in a training of this number of rounds."""
        match self.shape:
            case "step":
                return float(self.factor ** ((t - 1) // self.period))
            case "cosine":
                falling = (1 + math.cos(math.pi * (t - 1) / rounds)) / 2
                return self.floor + (1 - self.floor) * falling
        return 1.0


class FederationSettings(Section):
    """The rounds of training."""

    rounds: int = Field(40, ge=1)
    """Number of rounds (authors' code: 40)."""
    local_steps: int = Field(125, ge=1)
    """Minibatch steps per client and round (authors' code: 125)."""
    local_epochs: float | None = Field(None, gt=0)
    """Passes E over the training windows per round, which replace `local_steps`: a client with n
    windows takes E · ⌊n / batch_size⌋ steps, at least one. null: `local_steps`."""
    batch_size: int = Field(16, ge=1)
    """Windows per minibatch (paper: 16)."""
    batches: Literal["draw", "epoch"] = "draw"
    """Each minibatch is drawn from all training windows, without replacement within it (`draw`,
    authors' code), or minibatches go through shuffled passes over them (`epoch`)."""
    participation: float = Field(1.0, gt=0, le=1)
    """Fraction of the clients that are selected for a round (paper: all)."""
    initial: Literal["common", "local"] = "common"
    """Personal parameters before round 1: those of one draw for all clients (`common`, authors'
    code), or a draw of each client's own (`local`, paper). The server's are always one draw."""
    start: Path | None = None
    """A file of `results/NAME/models`, such as a network of public meters, whose mean global model
    all start from instead of draws."""
    selection: Literal["uniform", "poisson", "allocation", "data_aware"] = "uniform"
    """How they are selected: this fraction at random (`uniform`, paper), each client with this
    probability (`poisson`), each in this fraction of the rounds (`allocation`), or a fraction that
    has every label, which clients tell the server (`data_aware`, FedADC)."""
    weighting: Literal["uniform", "samples"] = "uniform"
    """Weights of the clients in the server's mean: equal (`uniform`, paper), or by training windows
    (`samples`)."""
    loss: Literal["mse", "mae", "huber"] = "mse"
    """Loss in scaled units: squared (`mse`, paper), absolute (`mae`), or squared below an error of
    1 and absolute above (`huber`). `quantiles` and `classify` have a loss of their own."""
    schedule: Schedule = Schedule()
    opt_state: Literal["reset", "keep", "keep_personal"] = "reset"
    """State of the local optimiser at the start of a round: `reset` (paper), `keep`, or
    `keep_personal` for the personal parameters only."""
    clip: float | None = Field(None, gt=0)
    """Largest norm of a local step's gradient, over all parameters and before methods add their
    terms. null (paper): no limit."""
    ema: float | None = Field(None, gt=0, lt=1)
    """Decay of a moving average of each client's parameters over its local steps t, which is scored
    as the local model: min(ema, (1 + t)/(10 + t)). null (paper): no average."""
    server_ema: float | None = Field(None, gt=0, lt=1)
    """Decay of a moving average of the server's parameters over the rounds t, of which the global
    models consist: min(server_ema, (1 + t)/(10 + t)). It is no part of the training (FedADC,
    section IV-E: temporal ensemble). null (paper): no average."""
    keep: Literal["last", "best"] = "last"
    """The local model that is scored after the last round: the `last` (paper), or the `best` by
    validation MASE among the evaluated rounds."""
    calibration: Calibration = Calibration()
    evaluate_every: int | None = Field(None, ge=1)
    """Rounds between evaluations (authors' code: 10); the last round is always evaluated. null: a
    tenth of the rounds, rounded up, or the tried numbers of rounds. With `windows.history` only the
    last round has test scores."""
    simulation: Simulation = Simulation()
    privacy: PrivacySettings = PrivacySettings()

    @property
    def local_work(self) -> str:
        """The work of a client in a round, in words, such as `20 local steps`."""
        if self.local_epochs is None:
            return f"{self.local_steps:,} local {'step' if self.local_steps == 1 else 'steps'}"
        return f"{self.local_epochs:g} local {'epoch' if self.local_epochs == 1 else 'epochs'}"

    @property
    def calibrates(self) -> bool:
        """Whether clients calibrate the models that they forecast with."""
        return self.calibration.epochs > 0

    def expected_participants(self, client_count: int) -> float:
        """Expected number of participants of a round, given the number of clients."""
        if self.selection == "poisson":
            return self.participation * client_count
        if self.selection == "allocation":
            return client_count * count_participants(self.rounds, self.participation) / self.rounds
        return count_participants(client_count, self.participation)

    def noise_of_count(self, client_count: int) -> float:
        """σ_b on the number of norms within an adapting bound (Andrew et al. 2021: m/20)."""
        return self.expected_participants(self.privacy.noise_as_of or client_count) / 20

    def update_noise(self, client_count: int) -> float:
        """Noise on the sum of the updates, in units of C: z, or the larger z_Δ that also pays for
        the number of norms within an adapting bound."""
        z = self.privacy.noise
        if self.privacy.quantile is None or not z:
            return z
        return float((z**-2 - (2 * self.noise_of_count(client_count)) ** -2) ** -0.5)

    def evaluates(self, t: int) -> bool:
        """Whether the models are scored after round `t`."""
        interval = self.evaluate_every or math.ceil(self.rounds / 10)
        return t % interval == 0 or t == self.rounds


FEWEST_MASKED = 3
"""Clients of a masked sum, at least: one of two knows the other's numbers."""


class ChannelSettings(Section):
    """Codecs of the shared parameters ([guide](channel.md))."""

    up: str = "none"
    """Stages of updates, such as `ef21+q3+rc`."""
    down: str = "none"
    """Stages of the server's parameters, such as `delta+q3`."""
    scales: Literal["tensor", "one"] | Annotated[int, Field(ge=1)] = "tensor"
    """A scale for each `tensor`, for all (`one`), or for each block of this many parameters."""
    secure: bool = False
    """Clients mask what they send; the server sees sums only
    ([guide](privacy.md#secure-aggregation))."""

    @field_validator("up", "down")
    @classmethod
    def _check_chain(cls, text: str, info: ValidationInfo) -> str:
        chain_of(text, info.field_name or "")
        return text

    def chain(self, direction: Literal["up", "down"]) -> Chain | None:
        """The stages of a direction; None without any."""
        return chain_of(getattr(self, direction), direction)

    @property
    def chains(self) -> list[Chain | None]:
        """The stages of both directions."""
        return [self.chain("up"), self.chain("down")]

    @property
    def codecs(self) -> list[Codec]:
        """The codecs of both directions, if any."""
        return [chain.codec for chain in self.chains if chain]

    @property
    def is_coded(self) -> bool:
        """Whether anything is coded."""
        return bool(self.codecs)


ROUNDS = "federation.rounds"
"""The path of the number of rounds in a search."""
TriedValues = Annotated[list[Value], Field(min_length=1), AfterValidator(refuse_repetitions)]


class Tuning(Section):
    """Hyperparameter search on the validation set, with equally many trials for every cell.

    A trial is a complete training. The trial with the lowest validation MASE at the last round, as
    a mean over clients and all seeds, is kept, separately for the local and the global models. The
    test set is never used.
    """

    search: dict[str, TriedValues] = {}
    """Values to try, by path: `server_opt.*.lr: [0.01, 0.1, 1]`. A cell tries every combination of
    the values whose paths match its algorithms; a path with the name of an algorithm replaces the
    one with `*`. Numbers of `federation.rounds` are tried within one training; the best is trained
    again."""
    alone: dict[str, TriedValues] = {}
    """Values to try in cells without a server (P3), which must try equally many combinations.
    Empty: the `client_opt` paths of `search`."""
    trials: int | None = Field(None, ge=1)
    """Combinations that each cell tries, drawn as a Latin hypercube if there are more. null: all,
    which must then be equally many for every cell."""

    @field_validator("search")
    @classmethod
    def _check_rounds(cls, values_by_path: dict[str, list[Value]]) -> dict[str, list[Value]]:
        if not all(type(rounds) is int and rounds > 0 for rounds in values_by_path.get(ROUNDS, [])):
            raise refusal(f"{values_by_path[ROUNDS]} are not all whole numbers above 0", key=ROUNDS)
        return values_by_path

    @field_validator("alone")
    @classmethod
    def _check_paths(cls, values_by_path: dict[str, list[Value]]) -> dict[str, list[Value]]:
        for path in values_by_path:
            if not path.startswith("client_opt."):
                raise refusal(
                    f"{path!r} has no effect without a server; only paths of client_opt can be "
                    "tuned here"
                )
        return values_by_path

    @property
    def rounds(self) -> list[int]:
        """The numbers of rounds to try; empty: `federation.rounds` alone."""
        return sorted(n for n in self.search.get(ROUNDS, []) if isinstance(n, int))

    def find_search(self, trains_alone: bool) -> dict[str, list[Value]]:
        """The search of cells without a server (`trains_alone`) or of all other cells."""
        if not trains_alone:
            return self.search
        clients = {path: v for path, v in self.search.items() if path.startswith("client_opt.")}
        return self.alone or clients


class TreeSearch(Section):
    """All pairs are tried; each LightGBM keeps the best on validation."""

    learning_rate: list[Annotated[float, Field(gt=0)]] = []
    """Learning rates."""
    leaves: list[Annotated[int, Field(ge=2)]] = []
    """Most leaves of a tree."""


class Baselines(Section):
    """Baselines (docs/baselines.md)."""

    trees: int = Field(400, ge=1)
    """Most trees; validation stops earlier."""
    learning_rate: float = Field(0.1, gt=0)
    """Learning rate."""
    leaves: int = Field(31, ge=2)
    """Most, of a tree."""
    search: TreeSearch = TreeSearch()
    max_bin: int = Field(255, ge=2)
    """Bins per feature."""
    further: list[ChosenBaseline] = []
    """Added to those of every study."""
    leave_out: list[LeftOut] = []
    """Those of every study left out."""

    @field_validator("further")
    @classmethod
    def _refuse_repeated_baselines(cls, baselines: list[Baseline]) -> list[Baseline]:
        names = [baseline.name for baseline in baselines]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ValueError(f"{', '.join(twice)} is listed twice; each baseline has one row")
        return baselines

    @model_validator(mode="after")
    def _check_needs(self) -> Self:
        earlier = [name for name in STANDARD_BASELINES if name not in self.leave_out]
        extent = get_args(Crosses)
        for baseline in self.further:
            for name in baseline.needs:
                if name not in earlier:
                    raise ValueError(
                        f"{baseline.name} uses {name}, which is not a baseline before it in this "
                        f"study; {list_allowed(name, earlier)}"
                    )
                member = self.find(name)
                if extent.index(member.crosses) > extent.index(baseline.crosses):
                    raise ValueError(
                        f"{baseline.name} uses {name}, which needs {member.crosses} of other "
                        f"clients; use it in a combination for which {member.crosses} may cross"
                    )
                if baseline.needs_received and not member.is_received:
                    raise ValueError(
                        f"{baseline.name} uses {name}, which is trained on the client's own "
                        "readings; use one that others have trained: lightgbm_federated with "
                        "`turns`"
                    )
                if member.has_seen_the_data:
                    raise ValueError(
                        f"{baseline.name} uses {name}, which was trained on these data"
                    )
            earlier.append(baseline.name)
        return self

    def find(self, name: str) -> Baseline:
        """A baseline of the study, by its name; KeyError if it has none of this name."""
        if name in STANDARD_BASELINES:
            return find_baseline(name)()
        return {baseline.name: baseline for baseline in self.further}[name]

    def find_with_members(self, name: str) -> list[Baseline]:
        """A baseline of the study, and all those whose forecasts it uses, directly or not."""
        baseline = self.find(name)
        members = [self.find_with_members(member) for member in baseline.needs]
        return [baseline, *chain.from_iterable(members)]

    def knows_own_readings(self, name: str) -> bool:
        """Whether the readings of each client are in the models of others that it receives for this
        baseline, so that its errors there are not those of a new meter."""
        return any(
            member.crosses != "nothing" and not (member.needs or member.is_received)
            for member in self.find_with_members(name)
        )

    def are_of_plfl(self, names: Iterable[str]) -> bool:
        """Whether none of the baselines with these names is of a plug-in."""
        return all(type(self.find(name)).__module__.startswith("plfl.") for name in names)

    @property
    def names(self) -> list[str]:
        """The baselines of the study, of which `lightgbm_covariates` also needs covariates."""
        names_of_all = [*STANDARD_BASELINES, *(baseline.name for baseline in self.further)]
        return [name for name in names_of_all if name not in self.leave_out]

    @property
    def fit_settings(self) -> FitSettings:
        """What the study asks of its baselines, without levels of quantiles."""
        return FitSettings(
            self.trees,
            tuple(self.search.learning_rate or [self.learning_rate]),
            tuple(self.search.leaves or [self.leaves]),
            self.max_bin,
        )


class Claim(Section):
    """A comparison that a study names before it runs (docs/claims.md)."""

    better: Patterns = []
    """Forecasters: `P2`, `baseline-ridge`."""
    than: Patterns = []
    """The other side."""
    each: list[Literal["state", "variant", "sharing", "method", "client_opt", "server_opt"]] = []
    """For each of these."""
    where: dict[str, list[Any] | str | int | float | None] = {}
    """Axes: `{windows.history: [1, 4]}`."""
    score: str = ""
    """Instead of the error: `bytes`."""
    margin: float = Field(0.0, ge=0)
    """How much worse `better` may be: 0.02 for 2 %."""
    share: float | None = Field(None, gt=0)
    """Its share."""
    text: str = ""
    """Its words."""

    def labels(self, key: str) -> list[str]:
        """The values of an axis that it is about, in the form of names."""
        values = self.where[key]
        return [as_label(value) for value in (values if isinstance(values, list) else [values])]

    def absent_states(self, states: Sequence[str]) -> list[str]:
        """The states that it is about and a study with these `states` lacks."""
        claimed_states = self.labels("data.states") if "data.states" in self.where else []
        return [state for state in claimed_states if state not in states]

    def __str__(self) -> str:
        """Everything that decides what is compared, to recognise the claim."""
        return json.dumps(self.model_dump(exclude={"text"}, exclude_defaults=True))


def as_label(value: Any) -> str:
    """A value of an axis in the form of names."""
    return str(value) if isinstance(value, str | date) else json.dumps(value, default=str)


class PublicModels(Section):
    """Models of public meters that the study makes (docs/public.md)."""

    kind: MeterKind | None = None
    """What the meters are; null: none is made."""
    states: list[str] = []
    """States that train `results/NAME/public/KIND.xz`; `without-STATE.xz` lacks one.
    Empty: all."""

    _are_different = field_validator("states")(refuse_repetitions)


class Tracking(Section):
    """The study in MLflow."""

    enabled: bool = True
    """Log the study into `mlruns.db`, or to `MLFLOW_TRACKING_URI`, if MLflow is installed."""


class Compute(Section):
    """Use of the machine. Only `device` and `engine` can change the results."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where models are trained: `cpu`, `cuda`, or `auto`: on a GPU if there is one."""
    threads: int = Field(1, ge=1)
    """Processor cores per job that trains."""
    engine: Literal["auto", "fused", "stacked"] = "auto"
    """Implementation of local training: `fused` (a native kernel for the CPU), `stacked` (torch on
    CPU or GPU), or `auto`: `fused` if possible."""
    stack: Literal["auto", "study", "state", "sharing", "cell"] = "auto"
    """What a training job trains: all cells of the study or variant (`study`), of a state
    (`state`), of a state and sharing scheme (`sharing`), or one cell with all seeds (`cell`).
    `auto`: `study` on a GPU, `state` for seconds of training, else `sharing`. What does not fit
    into a GPU is split by state, then by sharing scheme."""
    checkpoint_seconds: float = Field(20.0, ge=0)
    """Least seconds between checkpoints of a training job. A killed job loses this much work and
    the current round; Ctrl-C and SIGTERM lose nothing."""
