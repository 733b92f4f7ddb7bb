"""The releases of NREL's ComStock, and the keys of their files in the public bucket.

The data are the End-Use Load Profiles for the U.S. Building Stock
(https://doi.org/10.25984/1876417, CC BY 4.0).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from plfl.base.errors import DataError, Problem
from plfl.base.keys import Key
from plfl.config.data import Data
from plfl.config.error_messages import list_allowed

BUCKET = "oedi-data-lake"
REGION = "us-west-2"
BUCKET_ROOT = "nrel-pds-building-stock/end-use-load-profiles-for-us-building-stock"
"""Prefix of all keys in the bucket; other keys here are relative to it."""

STATIC = {
    "floor_area": ("in.sqft", "in.sqft..ft2"),
    "wall_area": ("out.params.ext_wall_area..m2",),
    "window_area": ("out.params.ext_window_area..m2",),
}
"""Columns of the metadata, by feature. In some releases, the names include the unit."""


@dataclass(frozen=True)
class Release:
    """The metadata of a release: the key of their file, and the names of its columns."""

    metadata: str
    baseline: str = "baseline"
    upgrade: str = "upgrade{:02d}"
    county: str = "in.nhgis_county_gisjoin"
    """GISJOIN of the county whose weather the building was simulated with."""
    state: str | None = None
    """Column of the postal abbreviation, if the file contains the whole country."""
    static: tuple[str, ...] = tuple(STATIC)
    """The available constant features."""


_NATION = Release(
    "metadata/metadata.parquet", state="in.state_abbreviation", static=("floor_area",)
)
_STATE = Release(
    "metadata_and_annual_results/by_state/state={state}/parquet/"
    "{state}_{scenario}_metadata_and_annual_results.parquet"
)
_COUNTY = Release(
    "metadata_and_annual_results/by_state_and_county/full/parquet/state={state}/county={county}/"
    "{state}_{county}_{scenario}.parquet",
    county="in.as_simulated_nhgis_county_gisjoin",
)
_COUNTY_UNPADDED = Release(
    _COUNTY.metadata, baseline="upgrade0", upgrade="upgrade{}", county=_COUNTY.county
)

RELEASES = {
    "2021/comstock_amy2018_release_1": _NATION,
    "2021/comstock_tmy3_release_1": _NATION,
    "2023/comstock_amy2018_release_1": _STATE,
    "2023/comstock_amy2018_release_2": _STATE,
    "2024/comstock_amy2018_release_1": _STATE,
    "2024/comstock_amy2018_release_2": _COUNTY,
    "2025/comstock_amy2018_release_1": _COUNTY_UNPADDED,
    "2025/comstock_amy2018_release_2": _COUNTY_UNPADDED,
    "2025/comstock_amy2018_release_3": _COUNTY_UNPADDED,
    "2025/comstock_amy2012_release_2": _COUNTY_UNPADDED,
}
"""All ComStock releases in the bucket (there is none for 2022)."""

PAPER_RELEASE = "2023/comstock_amy2018_release_1"
"""The only release in which the ids of `paper_buildings` are the paper's buildings."""


@dataclass(frozen=True)
class ReleaseKeys:
    """The keys, relative to `BUCKET_ROOT`, of one scenario (the baseline or an upgrade) of one
    release."""

    release: str
    upgrade: int

    @classmethod
    def from_data(cls, data: Data) -> ReleaseKeys:
        """The keys of the release of a study; DataError if it is unknown, or has no series of the
        upgrade."""
        release, upgrade = data.comstock.release, data.comstock.upgrade
        if release not in RELEASES:
            raise DataError(
                Problem(
                    Key("data.comstock.release"),
                    f"{release!r} is unknown",
                    list_allowed(release, RELEASES),
                )
            )
        if release.startswith("2021/") and upgrade != 0:
            raise DataError(
                Problem(
                    Key("data.comstock.upgrade"),
                    f"{release} has the baseline only, not upgrade {upgrade}",
                    "set it to 0 or choose a later release",
                )
            )
        return cls(release, upgrade)

    @property
    def names(self) -> Release:
        """The names in the metadata of this release."""
        return RELEASES[self.release]

    @property
    def is_by_county(self) -> bool:
        """Whether each county has its own metadata file."""
        return "{county}" in self.names.metadata

    @property
    def is_typical_year(self) -> bool:
        """Whether the weather is a typical year (TMY3), composed of months from different years."""
        return "tmy3" in self.release

    def load(self, state: str, building: int) -> str:
        """Key of the time series of a building."""
        folder = f"{self.release}/timeseries_individual_buildings/by_state"
        return f"{folder}/upgrade={self.upgrade}/state={state}/{building}-{self.upgrade}.parquet"

    def metadata(self, state: str, county: str = "*") -> str:
        """Key of the metadata with the buildings of a state. With metadata by county, the key of
        that county, or without it a glob pattern for all."""
        names = self.names
        scenario = names.upgrade.format(self.upgrade) if self.upgrade else names.baseline
        key = names.metadata.format(state=state, county=county, scenario=scenario)
        return f"{self.release}/{key}"

    def weather(self, county: str) -> str:
        """Key of the weather of a county, given by its GISJOIN."""
        kind = self.release.split("_")[1]  # amy2018, amy2012 or tmy3
        return f"{self.release}/weather/{kind}/{county}_{kind.removeprefix('amy')}.csv"


def paper_buildings(state: str) -> list[int]:
    """Ids of the paper's 42 buildings of a state, in order; the first 12 are the paper's clients.
    They are valid for `PAPER_RELEASE` only (arXiv 2404.01517, `paper_buildings.csv`). DataError if
    the paper has no buildings in the state."""
    path = Path(__file__).with_name("paper_buildings.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["order"]))
    building_ids = [int(row["bldg_id"]) for row in rows if row["state"] == state]
    if not building_ids:
        raise DataError(
            Problem(
                Key("data.states"),
                f"the paper has no buildings in {state!r}, only in "
                f"{', '.join(sorted({row['state'] for row in rows}))}",
                f"list ids in data.buildings.{state}, or draw them with data.comstock.draw",
            )
        )
    return building_ids
