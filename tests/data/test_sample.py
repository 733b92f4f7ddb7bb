import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from benchmarks.sample_data import sample_year, statistics, week
from plfl.base.errors import DataError
from plfl.config.data import Data
from plfl.config.named import FEATURE_UNITS
from plfl.data.comstock import series as comstock
from plfl.data.comstock.releases import PAPER_RELEASE, ReleaseKeys, paper_buildings
from plfl.data.features import assemble
from plfl.data.sample import store as sample
from plfl.data.sample.buildings import BUILDING_KINDS
from plfl.data.sample.end_uses import STAMPS, simulate
from plfl.data.sample.places import STATES, buildings
from plfl.data.sample.weather import TEMPERATURE, weather
from tests.helpers.refusals import naming

SEED = 2018
LAYOUT = ReleaseKeys(PAPER_RELEASE, 10)
IDS = buildings("IL")[:3]
OWN = re.compile(r"timestamp|bldg_id|out\.electricity\..*\.energy_consumption")
"""The columns of a building's series that the sample data have, too."""
USES = (
    *("cooling", "exterior_lighting", "fans", "heat_recovery", "heat_rejection", "heating"),
    *("interior_equipment", "interior_lighting", "pumps", "refrigeration", "water_systems"),
    "total",
)
RADIATION = [f"{name} Radiation [W/m2]" for name in ("Global Horizontal", "Direct Normal")]
WEATHER_COLUMNS = [
    *("Dry Bulb Temperature [°C]", "Relative Humidity [%]", "Wind Speed [m/s]"),
    *("Wind Direction [Deg]", *RADIATION, "Diffuse Horizontal Radiation [W/m2]"),
]
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "sample-data.md"


def generate(root: Path, ids: list[int], state: str = "IL", seed: int = SEED) -> list[Path]:
    return sample.generate(root, PAPER_RELEASE, 10, state, ids, seed)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample, "MOST_BUILDINGS", 1200)
        generate(root, IDS)
    return root


@pytest.fixture
def small_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of 1,200 buildings: all of them are described in its metadata."""
    monkeypatch.setattr(sample, "MOST_BUILDINGS", 1200)


@pytest.fixture(scope="module")
def california() -> pd.DataFrame:
    """A year of all sample buildings of California."""
    return sample_year("CA", buildings("CA"), SEED)


# -- the store -----------------------------------------------------------------------------------


def test_the_store_is_read_as_the_bucket_with_all_features(store: Path) -> None:
    data = Data(source="sample", states=["IL"], clients=3)
    tables = comstock.read(store, data, "IL", IDS[::-1])
    assert list(tables) == [str(i) for i in IDS[::-1]]
    for i in IDS:
        building = sample.describe("IL", i, SEED)
        table = assemble(tables[str(i)], data.features)
        assert list(table) == list(FEATURE_UNITS)
        assert table.index.equals(STAMPS)
        np.testing.assert_allclose(table["load"], simulate(building, SEED).sum(axis=1), atol=1e-4)
        outdoor = weather("IL", building.county.gisjoin, SEED)
        hours = outdoor.loc["2018-01-01 01:00":"2019-01-01 00:00"]
        np.testing.assert_array_equal(table["temperature"], np.repeat(hours[TEMPERATURE], 4))
        assert set(table["floor_area"]) == {building.sqft}
        assert set(table["wall_area"]) == {building.wall_area}
        assert set(table["window_area"]) == {building.window_area}
        assert 0 < building.window_area < building.wall_area


def test_series_have_the_form_of_a_building_of_comstock(store: Path) -> None:
    """Index, electricity columns in their order, types and stamps."""
    path = store / LAYOUT.load("IL", IDS[0])
    schema = pq.read_schema(path)
    types = [(name, str(schema.field(name).type)) for name in schema.names if OWN.fullmatch(name)]
    energy = [(f"out.electricity.{use}.energy_consumption", "double") for use in USES]
    assert types == [("timestamp", "timestamp[ns]"), *energy, ("bldg_id", "int64")]
    table = pd.read_parquet(path)
    assert (table.index.name, table.index.dtype) == ("bldg_id", "int64")
    year = pd.date_range("2018-01-01 00:15", "2019-01-01 00:00", freq="15min")
    np.testing.assert_array_equal(table["timestamp"], year)
    assert all(OWN.fullmatch(name) for name in table)
    assert (table.index == IDS[0]).all()
    uses = table.filter(regex="electricity").drop(columns=comstock.LOAD[0])
    np.testing.assert_allclose(uses.sum(axis=1), table[comstock.LOAD[0]], atol=1e-4)


def test_weather_has_the_form_of_a_file_of_nrel(store: Path) -> None:
    path = next((store / PAPER_RELEASE / "weather").rglob("*.csv"))
    assert path.name == f"{path.name[:8]}_2018.csv"
    table = pd.read_csv(path)
    assert list(table) == ["date_time", *WEATHER_COLUMNS]
    assert set(table[WEATHER_COLUMNS].dtypes) == {np.dtype(float)}
    year = pd.date_range("2018-01-01 01:00", "2019-01-01 00:00", freq="h")
    assert table["date_time"].tolist() == year.strftime("%Y-%m-%d %H:%M:%S").tolist()


def test_metadata_have_every_building_of_the_state(store: Path) -> None:
    table = pd.read_parquet(store / LAYOUT.metadata("IL"))
    assert list(table.index) == buildings("IL", 1200)
    assert set(table["in.comstock_building_type"]) == set(BUILDING_KINDS)
    assert set(table["in.state"]) == {"IL"}
    assert table["in.upgrade_name"].str.contains("sample data").all()


# -- determinism ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_state")
def test_files_depend_on_the_seed_and_the_building_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    generate(first, IDS[:2])
    weather.cache_clear()
    generate(second, [buildings("IL", 1200)[-1], IDS[1]])
    common = [LAYOUT.load("IL", IDS[1]), LAYOUT.metadata("IL")]
    for key in common:
        assert (first / key).read_bytes() == (second / key).read_bytes()
    before = {p: p.read_bytes() for p in first.rglob("*") if p.is_file()}
    generate(first, IDS[1:])
    assert {p: p.read_bytes() for p in before} == before

    generate(second, [IDS[1]], seed=SEED + 1)
    for key in common:
        assert (first / key).read_bytes() != (second / key).read_bytes()


# -- what is refused -----------------------------------------------------------------------------


def test_unknown_buildings_states_and_releases(tmp_path: Path) -> None:
    with naming(DataError, "buildings.IL", "9060001"):
        generate(tmp_path, [IDS[0], 5, buildings("CA")[0]])
    with naming(DataError, "'TX'"):
        buildings("TX")
    with naming(DataError, "data.comstock.release", "2025"):
        sample.generate(tmp_path, "2025/comstock_amy2018_release_1", 0, "IL", IDS, SEED)
    assert not any(tmp_path.iterdir())


def test_ids_are_nobody_else_s_and_the_first_twelve_of_twelve_types() -> None:
    for state in STATES:
        kinds = [sample.describe(state, i, SEED).kind for i in buildings(state)]
        assert len(set(kinds[:12])) == 12 and set(kinds) == set(BUILDING_KINDS)
    ids = [i for state in STATES for i in buildings(state)]
    assert len(set(ids)) == len(ids) == 126
    assert not {*ids} & {i for state in ("CA", "IL", "NY") for i in paper_buildings(state)}


# -- the comparison with buildings of NREL -------------------------------------------------------


def test_statistics_by_hand() -> None:
    """Two weeks on which Monday to Friday have 3 by day and 1 otherwise, in California."""
    stamps = pd.date_range("2018-02-05", periods=14 * 96, freq="15min")
    local = stamps - pd.Timedelta("3h")
    open_ = (local.day_of_week < 5) & (local.hour >= 9) & (local.hour < 17)
    load = pd.DataFrame({"a": np.where(open_, 3.0, 1.0)}, index=stamps)
    row = statistics(load, "America/Los_Angeles").loc["a"]
    mean = 1 + 2 * open_.mean()
    assert row["mean"] == pytest.approx(mean)
    assert row["load factor"] == pytest.approx(mean / 3)
    works = (local.day_of_week < 5)[local.hour == 9].mean()
    assert row["day / night"] == pytest.approx(1 + 2 * works)
    assert row["weekday / weekend"] == pytest.approx(5 / 3, rel=0.05)
    # Each opening and closing is seen by the four quarters of the hour after it.
    assert row["persistence error"] == pytest.approx(10 * 2 * 4 * 2 / (14 * 96 - 4) / mean)
    assert row["autocorrelation 24 h"] == pytest.approx(load["a"].autocorr(96))
    assert "autocorrelation 168 h" not in row


def table(title: str) -> pd.DataFrame:
    """The table of the guide whose corner says `title`, as numbers."""
    text = GUIDE.read_text(encoding="utf-8")
    lines = re.findall(r"^\| .* \|$", text.partition(f"| {title} |")[2].split("\n\n")[0], re.M)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rows = [row for row in rows if row[0] != "---"]
    return pd.DataFrame([row[1:] for row in rows], index=[row[0] for row in rows]).astype(float)


def assert_current(rows: pd.DataFrame, guide: pd.DataFrame) -> None:
    written = guide.loc[list(rows.index)].to_numpy()
    np.testing.assert_allclose(written, rows.to_numpy(), rtol=0.01)  # three digits are written


def test_the_guide_shows_what_the_generator_gives(california: pd.DataFrame) -> None:
    assert np.isfinite(california).all(axis=None) and (california > 0).all(axis=None)
    made = week(california)
    assert_current(made.set_axis(made.index + ", sample"), table("2–7 January 2018, California"))
