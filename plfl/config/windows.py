"""The section `windows`: how series become supervised windows, and the transforms of their
covariates.
"""

from collections.abc import Iterable
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from plfl.base.errors import suggest_name
from plfl.base.extras import require
from plfl.base.files import digest
from plfl.base.minutes import MINUTES_PER_DAY
from plfl.config.values import refuse_repetitions
from plfl.plugins.registry import Section


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
