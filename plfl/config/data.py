"""The section `data`: the source of the clients' series or images, its clients and its calendar."""

from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from plfl.base.errors import suggest_name
from plfl.config.error_messages import refusal
from plfl.config.meters import Meters
from plfl.config.named import CALENDAR, FEATURE_UNITS, added_blocks, available_sources, find_source
from plfl.config.values import refuse_repetitions
from plfl.interfaces.source import Source
from plfl.plugins.registry import Section, extend_section

WeatherJoin = Literal["position", "utc"]
"""How hourly weather is joined to the load: see `Comstock.join`."""


class Comstock(Section):
    """NREL's ComStock, simulated with EnergyPlus."""

    release: str = Field(
        "2023/comstock_amy2018_release_1", pattern=r"^\d{4}/comstock_(amy\d{4}|tmy3)_release_\d+$"
    )
    """Folder of the release in the bucket. Building ids hold for one release only."""
    upgrade: int = Field(10, ge=0, le=99)
    """Upgrade scenario: 0 is none, 10 (authors' code) "New Windows"."""
    join: WeatherJoin = "position"
    """How hourly weather is joined to the load: `position`, row by row (authors' code), which is
    off by one hour in IL and three in CA, or `utc`, by true time."""
    draw: int | None = Field(None, ge=0)
    """Seed of a random draw from all buildings of a state; null: `data.buildings` or the paper's
    list."""


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
