"""What a results folder says of the baselines, and how the rest of it takes them."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import ConfigError, ResultsError
from plfl.report.figures import draw
from plfl.report.page import write
from plfl.results.collect import summarise, summarise_baselines, with_baselines
from plfl.results.scores import scores, select
from plfl.results.tables import Tables
from plfl.results.traffic import mean_traffic
from plfl.study import Study
from tests.helpers import fake_results
from tests.helpers.fake_results import pictures
from tests.helpers.refusals import naming


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder = tmp_path_factory.mktemp("small")
    fake_results.write(folder, fake_results.SMALL)
    return Tables(folder)


def edit(small: Tables, folder: Path, rows: str, **values: object) -> Tables:
    """A copy of the results, with other values in some rows of the table of baselines."""
    shutil.copytree(small.folder, folder, dirs_exist_ok=True)
    table = pd.read_parquet(folder / "baselines.parquet")
    for name, value in values.items():
        table.loc[table.eval(rows), name] = value
    table.to_parquet(folder / "baselines.parquet")
    return Tables(folder)


def test_a_baseline_without_a_forecast_for_one_client_has_no_score(small, tmp_path):
    lost = "baseline == 'ridge' and client == 'il100' and split == 'test'"
    tables = edit(small, tmp_path, lost, mae=np.nan, rmse=np.nan, mase=np.nan)
    row = tables.baseline_scores.loc["IL", "ridge"]
    assert row[["mase_mean", "mae_mean", "rmse_mean"]].isna().all()
    assert np.isfinite(row["validation_mase"])
    found = scores(tables, "local", includes_baselines=True)["IL"]
    (ridge,) = select(found, sharing="baseline", method="ridge")
    assert np.isnan(ridge.mase).all()


def test_the_best_is_chosen_on_validation(small: Tables, tmp_path: Path) -> None:
    better = "state == 'CA' and baseline == 'ridge' and split == 'validation'"
    tables = edit(small, tmp_path, better, mase=0.1)
    assert tables.baseline_scores.loc["CA"]["mase_mean"].idxmin() != "ridge"
    assert tables.best_baseline("CA") == "ridge"
    pooled = edit(
        small, tmp_path, "baseline == 'lightgbm_pooled' and split == 'validation'", mase=0.1
    )
    assert pooled.best_baseline("NY") == "lightgbm_lags"
    lost = edit(small, tmp_path, "split == 'validation'", mase=np.nan, mae=np.nan)
    assert lost.best_baseline("NY") is None


@pytest.mark.parametrize("name", ["errors.parquet", "baselines.parquet", "summary.csv"])
def test_a_table_that_is_missing_is_named(name: str, tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.TINY)
    (tmp_path / name).unlink()
    with naming(ResultsError, name):
        scores(Tables(tmp_path), "local", includes_baselines=True)


def test_the_summary_has_their_rows_and_cells_keep_theirs(small: Tables) -> None:
    table = pd.read_csv(small.folder / "summary.csv")
    rows = table[table["sharing"] == "baseline"].set_index(["state", "method"])
    assert len(rows) + len(small.summary) == len(table)
    assert rows[["seed", "round"]].isna().all(axis=None)
    assert set(rows["model"]) == {"baseline"}
    assert list(rows.index) == list(small.baseline_scores.index)
    for column in ("mase_mean", "mae_mean", "rmse_mean", "validation_mase"):
        np.testing.assert_allclose(rows[column], small.baseline_scores[column])
    np.testing.assert_array_equal(rows["bytes_up"], small.baseline_scores["bytes"])
    assert set(small.summary["sharing"]) == {"P1", "P2", "P3"}
    assert small.summary["seed"].dtype == small.summary["bytes_up"].dtype == np.int64


def test_a_summary_counts_the_clients_with_a_mase() -> None:
    table = pd.DataFrame(
        {
            "state": "XX",
            "baseline": "ridge",
            "split": ["validation", "validation", "test", "test"],
            "client": ["a", "b", "a", "b"],
            "mae": [1.0, 2.0, 3.0, 4.0],
            "rmse": [2.0, 3.0, 4.0, 5.0],
            "mase": [0.5, 0.7, 0.9, np.nan],
            "bytes": [7, 8, 7, 8],
        }
    )
    (row,) = summarise_baselines(table, "meters").to_dict("records")
    assert (row["mase_mean"], row["mase_median"], row["mase_clients"]) == (0.9, 0.9, 1)
    assert (row["mae_mean"], row["rmse_mean"]) == (3.5, 4.5)
    assert row["validation_mase"] == pytest.approx(0.6)
    assert (row["bytes_up"], row["data"]) == (15, "meters")


def test_no_sharing_scheme_may_have_their_name() -> None:
    with naming(ConfigError, "sharing.baseline"):
        Study.parse({"sharing": {"baseline": ["*"]}, "grid": {}}, "my.yaml")


@pytest.fixture
def idle(tmp_path: Path) -> Tables:
    """A study in which nobody ever took part in P1 and P2."""
    tables = fake_results.write(tmp_path, fake_results.SMALL)
    records = pd.read_parquet(tmp_path / "records.parquet")
    is_idle = records["sharing"] != "P3"
    records = records[~is_idle | (records["split"] != "train")]
    records.to_parquet(tmp_path / "records.parquet")
    summary = with_baselines(
        summarise(records, "sample"), summarise_baselines(tables.baselines, "sample")
    )
    summary.to_csv(tmp_path / "summary.csv", index=False)
    return Tables(tmp_path)


def test_nobody_who_took_part_sent_nothing(idle: Tables) -> None:
    assert [scheme for scheme, _ in mean_traffic(idle).index] == ["P1", "P2", "P3"]
    assert (mean_traffic(idle) == 0).all(axis=None)
    (axis,) = draw("fig2_bytes", idle)["fig2_bytes"].axes
    assert {text.get_text().strip() for text in axis.texts} == {"0"}


def test_the_page_says_that_nobody_took_part(idle: Tables) -> None:
    pictures(idle.folder / "figures")
    page = idle.folder / "index.html"
    write(idle.folder, idle.folder / "figures", page)
    text = page.read_text(encoding="utf-8")
    assert "In 24 of 36 trainings nobody took part in any round" in text
    assert not re.search("(?i)nan.MB", text)


def test_records_that_lack_a_scheme_are_refused(small: Tables, tmp_path: Path) -> None:
    shutil.copytree(small.folder, tmp_path, dirs_exist_ok=True)
    records = pd.read_parquet(tmp_path / "records.parquet")
    records[records["sharing"] != "P2"].to_parquet(tmp_path / "records.parquet")
    with naming(ResultsError, "records.parquet"):
        mean_traffic(Tables(tmp_path))
