"""Keys and names of every release, held against what the bucket's documentation says."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from plfl.base.errors import DataError
from plfl.config.sections import Comstock, Data
from plfl.data.comstock.releases import (
    RELEASES,
    Layout,
    paper_buildings,
    paper_states,
)
from plfl.study import Study
from tests.helpers.refusals import naming

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "comstock.md"

BY_COUNTY = "metadata_and_annual_results/by_state_and_county/full/parquet/state=CA/county=G0600370"
BY_STATE = "metadata_and_annual_results/by_state/state=CA/parquet"
METADATA = {
    ("2021/comstock_amy2018_release_1", 0): "metadata/metadata.parquet",
    ("2021/comstock_tmy3_release_1", 0): "metadata/metadata.parquet",
    ("2023/comstock_amy2018_release_1", 10): (
        f"{BY_STATE}/CA_upgrade10_metadata_and_annual_results.parquet"
    ),
    ("2023/comstock_amy2018_release_2", 0): (
        f"{BY_STATE}/CA_baseline_metadata_and_annual_results.parquet"
    ),
    ("2024/comstock_amy2018_release_1", 3): (
        f"{BY_STATE}/CA_upgrade03_metadata_and_annual_results.parquet"
    ),
    ("2024/comstock_amy2018_release_2", 0): f"{BY_COUNTY}/CA_G0600370_baseline.parquet",
    ("2025/comstock_amy2018_release_1", 0): f"{BY_COUNTY}/CA_G0600370_upgrade0.parquet",
    ("2025/comstock_amy2018_release_2", 0): f"{BY_COUNTY}/CA_G0600370_upgrade0.parquet",
    ("2025/comstock_amy2018_release_3", 10): f"{BY_COUNTY}/CA_G0600370_upgrade10.parquet",
    ("2025/comstock_amy2012_release_2", 0): f"{BY_COUNTY}/CA_G0600370_upgrade0.parquet",
}
"""Keys of the metadata under the release's folder, by release and upgrade."""


@pytest.mark.parametrize(("release", "upgrade"), METADATA)
def test_keys_are_those_of_the_bucket(release: str, upgrade: int) -> None:
    layout, year = Layout(release, upgrade), release.split("_")[1]
    series = "timeseries_individual_buildings/by_state"
    keys = (
        f"{series}/upgrade={upgrade}/state=CA/7-{upgrade}.parquet",
        METADATA[release, upgrade],
        f"weather/{year}/G0600370_{year.removeprefix('amy')}.csv",
    )
    found = layout.load("CA", 7), layout.metadata("CA", "G0600370"), layout.weather("G0600370")
    assert found == tuple(f"{release}/{key}" for key in keys)


def test_every_release_is_held_against_its_keys() -> None:
    assert {release for release, _ in METADATA} == set(RELEASES)
    assert not [release for release in RELEASES if release.startswith("2022/")]


@pytest.mark.parametrize(
    ("comstock", "named"),
    [
        (
            {"release": "2023/comstock_amy2018_release_3"},
            ("data.comstock.release", "did you mean '2025/comstock_amy2018_release_3'?"),
        ),
        (
            {"release": "2021/comstock_amy2018_release_1", "upgrade": 10},
            ("data.comstock.upgrade", "not upgrade 10"),
        ),
    ],
)
def test_what_the_bucket_does_not_have_is_refused(
    comstock: dict[str, Any], named: tuple[str, ...]
) -> None:
    with naming(DataError, *named):
        Layout.of(Data(comstock=Comstock(**comstock)))


def test_the_paper_has_42_buildings_in_each_of_three_states() -> None:
    for state in ("CA", "IL", "NY"):
        assert len(set(paper_buildings(state))) == 42
    assert paper_buildings("NY")[0] == 205362
    assert paper_states()[205362] == "NY"


def test_another_state_has_none_and_the_message_says_where_to_name_ids() -> None:
    with naming(DataError, "'TX'", "data.buildings.TX"):
        paper_buildings("TX")


# -- the guide -----------------------------------------------------------------------------------


def test_the_guide_names_every_release_and_its_configuration_is_valid() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `\d{4}/.*$", text, flags=re.MULTILINE)
    told = [_releases(row) for row in rows]
    assert sorted(release for releases in told for release in releases) == sorted(RELEASES)
    for row, releases in zip(rows, told, strict=True):
        for release in releases:
            names = RELEASES[release]
            assert ("wall, window" in row) == ("window_area" in names.static)
            assert ("one file per county" in row) == ("{county}" in names.metadata)
            assert ("national" in row) == (names.state is not None)
    blocks = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        Layout.of(Study.parse(yaml.safe_load(block), "docs/comstock.md").data)


def _releases(row: str) -> list[str]:
    return re.findall(r"`(\d{4}/comstock_\w+)`", row)
