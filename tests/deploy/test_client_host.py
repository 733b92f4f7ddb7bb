"""A client trains on the series that its study asks for."""

import pandas as pd
import pytest

from plfl.base.errors import ConfigError, DataError
from plfl.config.named import FEATURE_UNITS
from plfl.data.features import assemble
from plfl.deploy import client_host
from plfl.study import Study
from tests.helpers.refusals import naming

NAME = "101"


@pytest.fixture
def study(tmp_path):
    """The study of one meter with a temperature; keys of `data.meters` go over its own."""
    (tmp_path / "meters").mkdir()
    readings = series().rename_axis("timestamp").reset_index()
    readings.to_csv(tmp_path / "meters" / f"{NAME}.csv", index=False)

    def of(meters=None, **data) -> Study:
        columns = {name: name for name in ("timestamp", "load", "temperature")}
        own = {"folder": tmp_path / "meters", "columns": columns, **(meters or {})}
        block = {"states": ["XX"], "clients": 1, "folder": tmp_path / "data"}
        block |= {"source": "meters", "meters": own, **data}
        return Study.parse({"data": block}, "test")

    return of


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own").mkdir(mode=0o700)
    return tmp_path / "own"


def series(rows=200) -> pd.DataFrame:
    stamps = pd.date_range("2018-01-01 00:15", periods=rows, freq="15min")
    columns = {"load": [float(1 + abs(48 - n % 96)) for n in range(rows)], "temperature": 20.0}
    return pd.DataFrame(columns, stamps)


def read(of: Study, folder) -> pd.DataFrame:
    return client_host.series(of, of.cells[0], NAME, folder)


def test_it_is_that_of_the_source(study, folder):
    table = read(study(), folder)
    assert table.columns.tolist() == ["load", "time_index", "weekday", "temperature"]
    assert table["load"].tolist() == series()["load"].tolist()
    assert not list(folder.iterdir()), "new readings are used from the next start on"


def test_who_is_not_in_the_study_gets_nothing(study, folder):
    own_study = study()
    with naming(ConfigError, "'7'", "101"):
        client_host.series(own_study, own_study.cells[0], "7", folder)


def put(table: pd.DataFrame, folder) -> None:
    table.to_parquet(folder / "series.parquet")


def test_a_table_of_the_owner_is_used_whatever_is_asked_for(study, folder, tmp_path):
    own = assemble(series() * 7, list(FEATURE_UNITS))
    put(own, folder)
    (tmp_path / "meters" / f"{NAME}.csv").unlink()
    for own_study in (
        study(),
        study({"unit": "Wh"}),
        study(source="comstock", features=[*own.columns]),
    ):
        pd.testing.assert_frame_equal(read(own_study, folder), own, check_freq=False)
    assert [path.name for path in folder.iterdir()] == ["series.parquet"]


@pytest.mark.parametrize(
    ("damaged", "word"),
    [
        (lambda table: table.reset_index(drop=True), "its index has no times"),
        (lambda table: table[::-1], "but rows must be 15 minutes apart"),
        (lambda table: table.iloc[[0, *range(len(table))]], "but rows must be 15 minutes apart"),
        (lambda table: table.assign(load=table["load"].astype(str)), "write numbers"),
        (lambda table: table.assign(load=-table["load"]), "negative"),
        (lambda table: table.assign(temperature=float("inf")), "infinite"),
    ],
)
def test_a_table_of_the_owner_with_wrong_rows_is_refused(study, folder, damaged, word):
    own_study = study(features=["load", "temperature"])
    put(damaged(series()), folder)
    with naming(DataError, "series.parquet", word):
        read(own_study, folder)


def test_a_table_of_the_owner_that_is_no_table_is_refused(study, folder):
    (folder / "series.parquet").write_text("timestamp,load")
    with naming(DataError, "series.parquet", "is not a Parquet file"):
        read(study(), folder)


class Homes:
    """A source whose clients have names, and which has one series for each."""

    def fetch(self, data, state):
        pass

    def load(self, data, state):
        return {"home a": series(), "home b": series() * 2}


def test_names_of_a_source_need_not_be_numbers(study, folder, monkeypatch):
    own_study = study(source="sample")
    monkeypatch.setattr(client_host.sources, "source_of", lambda data: Homes())
    monkeypatch.setattr(client_host.agreement, "roster", lambda study, cell: ["home a", "home b"])
    table = client_host.series(own_study, own_study.cells[0], "home b", folder)
    pd.testing.assert_frame_equal(table, series() * 2)


@pytest.mark.parametrize("data", [{}, {"source": "sample"}])
def test_a_table_of_the_owner_has_to_have_what_the_study_names(study, folder, data):
    put(series()[["load"]], folder)
    own_study = study(features=["load", "weekday", "temperature"], **data)
    with naming(DataError, "series.parquet", "weekday, temperature", "data.features"):
        read(own_study, folder)
