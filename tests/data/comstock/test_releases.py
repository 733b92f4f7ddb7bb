"""Keys and names of every release, held against what the bucket's documentation says."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from plfl.base.errors import DataError
from plfl.config.sections import Comstock, Data
from plfl.config.study import Study
from plfl.data.comstock.releases import (
    PAPER_RELEASE,
    RELEASES,
    Layout,
    paper_buildings,
    paper_states,
)
from tests.helpers.refusals import naming

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "comstock.md"

BY_COUNTY = "metadata_and_annual_results/by_state_and_county/full/parquet"
KEYS = {
    ("2021/comstock_amy2018_release_1", 0): (
        "timeseries_individual_buildings/by_state/upgrade=0/state=CA/7-0.parquet",
        "metadata/metadata.parquet",
        "weather/amy2018/G0600370_2018.csv",
    ),
    ("2021/comstock_tmy3_release_1", 0): (
        "timeseries_individual_buildings/by_state/upgrade=0/state=CA/7-0.parquet",
        "metadata/metadata.parquet",
        "weather/tmy3/G0600370_tmy3.csv",
    ),
    ("2023/comstock_amy2018_release_1", 10): (
        "timeseries_individual_buildings/by_state/upgrade=10/state=CA/7-10.parquet",
        "metadata_and_annual_results/by_state/state=CA/parquet/"
        "CA_upgrade10_metadata_and_annual_results.parquet",
        "weather/amy2018/G0600370_2018.csv",
    ),
    ("2023/comstock_amy2018_release_2", 0): (
        "timeseries_individual_buildings/by_state/upgrade=0/state=CA/7-0.parquet",
        "metadata_and_annual_results/by_state/state=CA/parquet/"
        "CA_baseline_metadata_and_annual_results.parquet",
        "weather/amy2018/G0600370_2018.csv",
    ),
    ("2024/comstock_amy2018_release_1", 3): (
        "timeseries_individual_buildings/by_state/upgrade=3/state=CA/7-3.parquet",
        "metadata_and_annual_results/by_state/state=CA/parquet/"
        "CA_upgrade03_metadata_and_annual_results.parquet",
        "weather/amy2018/G0600370_2018.csv",
    ),
    ("2024/comstock_amy2018_release_2", 0): (
        "timeseries_individual_buildings/by_state/upgrade=0/state=CA/7-0.parquet",
        f"{BY_COUNTY}/state=CA/county=G0600370/CA_G0600370_baseline.parquet",
        "weather/amy2018/G0600370_2018.csv",
    ),
    ("2025/comstock_amy2018_release_1", 0): (
        "timeseries_individual_buildings/by_state/upgrade=0/state=CA/7-0.parquet",
        f"{BY_COUNTY}/state=CA/county=G0600370/CA_G0600370_upgrade0.parquet",
        "weather/amy2018/G0600370_2018.csv",
    ),
    ("2025/comstock_amy2018_release_2", 0): (
        "timeseries_individual_buildings/by_state/upgrade=0/state=CA/7-0.parquet",
        f"{BY_COUNTY}/state=CA/county=G0600370/CA_G0600370_upgrade0.parquet",
        "weather/amy2018/G0600370_2018.csv",
    ),
    ("2025/comstock_amy2018_release_3", 10): (
        "timeseries_individual_buildings/by_state/upgrade=10/state=CA/7-10.parquet",
        f"{BY_COUNTY}/state=CA/county=G0600370/CA_G0600370_upgrade10.parquet",
        "weather/amy2018/G0600370_2018.csv",
    ),
    ("2025/comstock_amy2012_release_2", 0): (
        "timeseries_individual_buildings/by_state/upgrade=0/state=CA/7-0.parquet",
        f"{BY_COUNTY}/state=CA/county=G0600370/CA_G0600370_upgrade0.parquet",
        "weather/amy2012/G0600370_2012.csv",
    ),
}
"""Keys of a series, metadata and weather under the release's folder, by release and upgrade."""


@pytest.mark.parametrize(("release", "upgrade"), KEYS)
def test_keys_are_those_of_the_bucket(release: str, upgrade: int) -> None:
    layout = Layout(release, upgrade)
    keys = (
        layout.load("CA", 7),
        layout.metadata("CA", "G0600370"),
        layout.weather("G0600370"),
    )
    assert keys == tuple(f"{release}/{key}" for key in KEYS[release, upgrade])


def test_every_release_is_held_against_its_keys() -> None:
    assert {release for release, _ in KEYS} == set(RELEASES)
    assert not [release for release in RELEASES if release.startswith("2022/")]


def test_the_default_study_reads_the_papers_release() -> None:
    layout = Layout.of(Data())
    assert layout == Layout(PAPER_RELEASE, 10)
    assert not layout.by_county
    assert not layout.typical_year
    assert Layout("2021/comstock_tmy3_release_1", 0).typical_year
    assert Layout("2024/comstock_amy2018_release_2", 0).by_county


@pytest.mark.parametrize(
    ("comstock", "message"),
    [
        (
            {"release": "2023/comstock_amy2018_release_3"},
            "data.comstock.release: '2023/comstock_amy2018_release_3' is unknown; allowed: 2021/",
        ),
        (
            {"release": "2023/comstock_amy2018_release_3"},
            "; did you mean '2025/comstock_amy2018_release_3'?",
        ),
        (
            {"release": "2021/comstock_amy2018_release_1", "upgrade": 10},
            "data.comstock.upgrade: 2021/comstock_amy2018_release_1 has the baseline only, "
            "not upgrade 10; set it to 0",
        ),
    ],
)
def test_what_the_bucket_does_not_have_is_refused(comstock: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as error:
        Layout.of(Data(comstock=Comstock(**comstock)))
    assert message in str(error.value)


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
