"""Keys and names of every release, held against what the bucket's documentation says."""

import re
from pathlib import Path

import pytest
import yaml

from plfl.base.errors import DataError
from plfl.config.data import Comstock, Data
from plfl.data.comstock.releases import RELEASES, ReleaseKeys, paper_buildings
from plfl.study import Study
from tests.helpers.refusals import naming
from tests.helpers.repository import blocks

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "comstock.md"

COUNTY = "metadata_and_annual_results/by_state_and_county/full/parquet/state=CA/county=G0600370"
STATE = "metadata_and_annual_results/by_state/state=CA/parquet/CA"
METADATA = {
    ("2021/comstock_amy2018_release_1", 0): "metadata/metadata",
    ("2021/comstock_tmy3_release_1", 0): "metadata/metadata",
    ("2023/comstock_amy2018_release_1", 10): f"{STATE}_upgrade10_metadata_and_annual_results",
    ("2023/comstock_amy2018_release_2", 0): f"{STATE}_baseline_metadata_and_annual_results",
    ("2024/comstock_amy2018_release_1", 3): f"{STATE}_upgrade03_metadata_and_annual_results",
    ("2024/comstock_amy2018_release_2", 0): f"{COUNTY}/CA_G0600370_baseline",
    ("2025/comstock_amy2018_release_1", 0): f"{COUNTY}/CA_G0600370_upgrade0",
    ("2025/comstock_amy2018_release_2", 0): f"{COUNTY}/CA_G0600370_upgrade0",
    ("2025/comstock_amy2018_release_3", 10): f"{COUNTY}/CA_G0600370_upgrade10",
    ("2025/comstock_amy2012_release_2", 0): f"{COUNTY}/CA_G0600370_upgrade0",
}
"""Keys of the metadata under the release's folder, without the ending, by release and upgrade."""


def test_keys_are_those_of_the_bucket() -> None:
    assert {release for release, _ in METADATA} == set(RELEASES)
    for (release, upgrade), metadata in METADATA.items():
        layout, year = ReleaseKeys(release, upgrade), release.split("_")[1]
        series = f"timeseries_individual_buildings/by_state/upgrade={upgrade}/state=CA"
        assert layout.load("CA", 7) == f"{release}/{series}/7-{upgrade}.parquet"
        assert layout.metadata("CA", "G0600370") == f"{release}/{metadata}.parquet"
        file = f"G0600370_{year.removeprefix('amy')}.csv"
        assert layout.weather("G0600370") == f"{release}/weather/{year}/{file}"


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"release": "2023/comstock_amy2018_release_3"}, ["release", "did you mean '2025/com"]),
        ({"release": "2021/comstock_amy2018_release_1", "upgrade": 10}, ["not upgrade 10"]),
    ],
)
def test_what_the_bucket_does_not_have_is_refused(keys, told):
    with naming(DataError, *told):
        ReleaseKeys.from_data(Data(comstock=Comstock(**keys)))


def test_the_paper_has_42_buildings_in_each_of_three_states() -> None:
    for state in ("CA", "IL", "NY"):
        assert len(set(paper_buildings(state))) == 42
    assert paper_buildings("NY")[0] == 205362
    with naming(DataError, "'TX'", "data.buildings.TX", "data.comstock.draw"):
        paper_buildings("TX")


def test_the_guide_names_every_release_and_its_configurations_are_valid() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    told = []
    for row in re.findall(r"^\| `\d{4}/.*$", text, flags=re.MULTILINE):
        for release in re.findall(r"`(\d{4}/comstock_\w+)`", row):
            told.append(release)
            names = RELEASES[release]
            assert ("wall, window" in row) == ("window_area" in names.static)
            assert ("one file per county" in row) == ("{county}" in names.metadata)
            assert ("national" in row) == (names.state is not None)
    assert sorted(told) == sorted(RELEASES)
    studies = blocks("docs/comstock.md", "yaml")
    assert len(studies) == 2
    for block in studies:
        ReleaseKeys.from_data(Study.parse(yaml.safe_load(block), "docs/comstock.md").data)
