"""From cells to the study's tables, and what is asked of a results folder that is read again."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plfl.base.errors import ResultsError
from plfl.config.baselines import BASELINE
from plfl.data.dataset import Dataset
from plfl.data.windows import build
from plfl.experiments.baselines import evaluate
from plfl.experiments.cell_cache import CellCache
from plfl.experiments.train import train
from plfl.interfaces.baseline import FitSettings
from plfl.publish.crate import list_requirements
from plfl.report.reporting import reporting_of
from plfl.results import records
from plfl.results.collect import (
    JobFiles,
    collect,
    costs,
    describe_clients,
    summarise,
    write_summary,
)
from plfl.results.records import (
    CELL,
    CellResult,
    Models,
    RecordFiles,
    cell_digest,
    join_tables,
    read_models,
    read_table,
    versions_of,
    write_arrow,
    write_models,
    write_table,
)
from plfl.results.tables import Tables
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.refusals import naming

STUDY = tiny.study()
DATASET = tiny.dataset()
RECEIPT = {"source": "sample", "files": {"a.parquet": "0" * 64}, "clients": {"a": {"state": "XX"}}}


def collect_again(study: Study, source: Path, folder: Path) -> None:
    """Gather the files in `source` into tables in `folder`."""
    cells = {cell: RecordFiles.in_folder(source, str(cell)) for cell in study.cells}
    baselines = [RecordFiles.in_folder(source / "baselines", "XX")]
    datasets, receipts = {"XX": source / "XX.npz"}, {"XX": source / "XX.files.json"}
    collect(study, JobFiles(cells, baselines, datasets, receipts), folder, git="abc")


def test_versions_are_those_that_made_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, paths = pd.DataFrame({"mae": [0.5]}), [tmp_path / name for name in "ab"]
    for path, number in zip(paths, ("10.1", "9.9"), strict=True):
        monkeypatch.setattr(
            records, "installed_versions", lambda number=number: {"torch": number, "numpy": "1"}
        )
        write_table(table, path)
    monkeypatch.setattr(records, "installed_versions", lambda: {"torch": "11", "numpy": "2"})
    assert versions_of(paths) == {"torch": "9.9, 10.1", "numpy": "1"}
    assert versions_of(paths[:1])["torch"] == "10.1"
    write_arrow(pa.table({"mae": [0.5]}), paths[0])  # as earlier versions of plfl did
    assert versions_of(paths[:1]) == {"torch": "11", "numpy": "2"}
    write_summary(tmp_path, table, {}, None, versions_of(paths))
    text = (tmp_path / "study.json").read_text(encoding="utf-8")
    about = json.loads(text) | {"versions": {"torch": "9.9, 10.1", "python": "3.12.1"}}
    assert list_requirements(about).splitlines()[2] == "torch==10.1  # trained with 9.9, 10.1"
    assert json.loads(text)["versions"]["torch"] == "9.9"
    for number, text in enumerate(["2.6.0+cpu", "2.6.0", "2.10.0"]):
        monkeypatch.setattr(records, "installed_versions", lambda text=text: {"torch": text})
        write_table(table, tmp_path / f"{number}.parquet")
    of_one_number = [tmp_path / f"{number}.parquet" for number in range(3)]
    assert versions_of(of_one_number)["torch"] == "2.6.0, 2.6.0+cpu, 2.10.0"


def collected(study: Study, dataset: Dataset, folder: Path) -> Path:
    """The folder, with what the jobs of a study write and the tables that are gathered of it."""
    dataset.save(folder / "XX.npz")
    for cell, result in train(study, study.cells, dataset).items():
        result.write(RecordFiles.in_folder(folder, str(cell)), "digest")
    (folder / "XX.files.json").write_text(json.dumps(RECEIPT))
    found = evaluate("XX", dataset, FitSettings(trees=3), study.task)
    tables = CellResult(found.scores, found.forecasts, found.errors)
    tables.write(RecordFiles.in_folder(folder / "baselines", "XX"))
    collect_again(study, folder, folder)
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collected(STUDY, DATASET, tmp_path_factory.mktemp("results"))


def test_mase_is_rebuilt_from_the_errors_by_day(results: Path) -> None:
    errors = pd.read_parquet(results / "errors.parquet")
    kinds = errors.dtypes[["error", "forecasts", "scale"]]
    assert kinds.tolist() == ["float32", "int32", "float32"]
    records = pd.read_parquet(results / "records.parquet")
    last = records[(records["split"] == "test") & (records["round"] == STUDY.federation.rounds)]
    columns = {"sharing": BASELINE, "model": BASELINE, "client_opt": "none", "server_opt": "none"}
    baseline_rows = pd.read_parquet(results / "baselines.parquet").query("split == 'test'")
    baseline_rows = baseline_rows.rename(columns={"baseline": "method"}).assign(**columns)
    expected = pd.concat([last, baseline_rows])
    keys = [*CELL, "model", "client"]
    sums = errors.groupby(keys, dropna=False).agg(
        error=("error", lambda e: e.sum(skipna=False)), n=("forecasts", "sum"), s=("scale", "first")
    )
    rebuilt = (sums["error"] / sums["n"] / sums["s"]).rename("rebuilt").reset_index()
    both = expected[[*keys, "mase"]].merge(rebuilt, on=keys, how="outer", validate="1:1")
    assert len(both) == len(expected) == len(rebuilt)
    np.testing.assert_allclose(both["rebuilt"], both["mase"], rtol=1e-5)
    # The last targets end at midnight, the first ones do not begin a day.
    starts = DATASET.starts(0, "test")
    begins = DATASET.stamps[DATASET.target_rows(starts)] - np.timedelta64(DATASET.interval, "m")
    days = pd.Series(begins).dt.floor("D").value_counts()
    own = errors[(errors["client"] == DATASET.clients[0]) & (errors["method"] == "persistence")]
    assert own.set_index("day")["forecasts"].to_dict() == days.to_dict()


def test_the_summary_says_what_the_records_say(results: Path) -> None:
    records = pd.read_parquet(results / "records.parquet")
    summary = pd.read_csv(results / "summary.csv").set_index([*CELL, "model"])
    sharing = summary.index.get_level_values("sharing")
    assert sharing.isin(STUDY.grid.sharing).sum() == len(STUDY.cells) * 2
    assert "in use" in sharing
    row = summary.loc[("XX", "P2", "fedopt", "adam", "fedyogi", 10, "local")]
    cell_rows = records.query(
        "sharing == 'P2' and client_opt == 'adam' and server_opt == 'fedyogi'"
    )
    test = cell_rows.query("split == 'test' and model == 'local' and round == 3")
    assert row["round"] == 3
    assert row["mase_mean"] == pytest.approx(test["mase"].mean(), rel=1e-5)
    assert row["mase_median"] == pytest.approx(test["mase"].median(), rel=1e-5)
    assert row["mase_clients"] == 3
    training = cell_rows.query("split == 'train' and model == 'local'")
    sent = training["bytes_up"].sum()
    assert row["bytes_up"] == sent > 0
    assert row["data"] == "sample"


def test_joined_tables_are_one_in_groups_of_whole_tables(tmp_path: Path) -> None:
    stamps = pd.date_range("2018-01-01", periods=4, unit="ms")
    parts = [
        pd.DataFrame({"cell": "a", "loss": [1.0, np.nan], "stamp": stamps[:2]}),
        pd.DataFrame({"cell": "b", "loss": [2.0, 3.0], "cluster": [1, -1], "stamp": stamps[2:]}),
        pd.DataFrame({"cell": "c", "loss": [4.0], "stamp": stamps[:1]}),
    ]
    paths = [tmp_path / f"{i}.parquet" for i in range(3)]
    for part, path in zip(parts, paths, strict=True):
        write_table(part, path)
    shown: list[pd.DataFrame] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plfl.results.records.ROWS_PER_GROUP", 3)
        join_tables(paths, tmp_path / "all.parquet", shown.append)
    whole = pd.concat(parts, ignore_index=True)
    read = read_table(tmp_path / "all.parquet")
    pd.testing.assert_frame_equal(read[list(whole)], whole)
    pd.testing.assert_frame_equal(pd.concat(shown, ignore_index=True)[list(whole)], whole)
    groups = pq.ParquetFile(tmp_path / "all.parquet").metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [4, 1]


def test_a_training_in_which_nobody_ever_took_part_costs_nothing() -> None:
    study = tiny.study(federation={"rounds": 2, "simulation": {"availability": 1e-9}})
    cell = tiny.cell("XX-P2-fedopt-adam-fedavg-10", study)
    records = train(study, [cell], DATASET)[cell].records
    costs = summarise(records, "sample")[["bytes_down", "bytes_up", "epochs"]]
    assert (costs == 0).all(axis=None)
    sentence = reporting_of(study).sentence(study, cell, records)
    assert "nan" not in sentence and "; no client took part in any round" in sentence


def test_a_table_that_cannot_be_joined_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with naming(ResultsError, "bad.parquet"):
        join_tables([tmp_path / "bad.parquet"], tmp_path / "all.parquet")
    assert not (tmp_path / "all.parquet").exists()


def test_a_client_without_persistence_error_is_left_out() -> None:
    dataset = tiny.dataset(flat="b")
    clients = describe_clients("XX", dataset).set_index("client")
    assert clients.loc["b", "persistence_mae_test"] == 0
    cell = tiny.cell("XX-P3-fedopt-adam-fedavg-10", STUDY)
    summary = summarise(train(STUDY, [cell], dataset)[cell].records, "sample")
    assert set(summary["mase_clients"]) == {2}
    assert np.isfinite(summary["mase_mean"]).all()
    assert not summary["diverged"].any()


def test_tables_are_the_same_bytes_again(results: Path, tmp_path: Path) -> None:
    names = ["records.parquet", "summary.csv", "clients.parquet", "forecasts.parquet"]
    names += ["baselines.parquet", "baseline_forecasts.parquet", "errors.parquet"]
    collect_again(STUDY, results, tmp_path)
    for name in [*names, "study.json"]:
        assert (results / name).read_bytes() == (tmp_path / name).read_bytes()


def test_a_trained_cell_is_recalled_only_whole_and_under_its_digest(tmp_path: Path) -> None:
    cell = tiny.cell("XX-P3-fedopt-adam-fedavg-10", STUDY)
    result = train(STUDY, [cell], DATASET)[cell]
    trained = CellCache(tmp_path / "trained")
    targets = RecordFiles.in_folder(tmp_path, "a")
    assert not trained.restore("d1", targets)
    trained.store("d1", result, targets)
    pd.testing.assert_frame_equal(pd.read_parquet(targets.records), result.records)
    pd.testing.assert_frame_equal(pd.read_parquet(targets.errors), result.errors)
    for target in targets:
        target.unlink()
    assert not trained.restore("d2", targets)
    assert trained.restore("d1", targets)
    assert cell_digest(targets[0]) == "d1"


MODELS: Models = {
    "local": np.arange(6, dtype=np.float32).reshape(2, 3),
    "global": np.full((2, 3), np.float32(0.1)),
}


def test_they_come_back(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    write_models(file, MODELS, {"scale": 0.1 + 0.2})
    found, about = read_models(file)
    assert list(found) == ["local", "global"] and about == {"scale": 0.1 + 0.2}
    assert all(np.array_equal(found[model], MODELS[model]) for model in found)
    write_models(file, {"local": MODELS["local"]})
    assert list(read_models(file)[0]) == ["local"]


def test_damage_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    write_models(file, MODELS)
    whole = file.read_bytes()
    for damaged in (whole[:-5] + b"\0\0\0\0\7", whole[:40], b""):
        file.write_bytes(damaged)
        with naming(ResultsError, file):
            read_models(file)
    import safetensors.numpy

    safetensors.numpy.save_file({"local": MODELS["local"]}, file)
    with naming(ResultsError, file, "plfl"):
        read_models(file)


@pytest.fixture(scope="module")
def study() -> Study:
    return tiny.study(
        windows={"horizons": 4, "look_ahead": 1, "target": "change"},
        task={"name": "quantiles", "levels": [0.1, 0.25, 0.5, 0.75, 0.9]},
        model={"name": "mlp", "hidden": [4]},
        grid={"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P2", "P3"]},
    )


@pytest.fixture(scope="module")
def folder(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    dataset = build(tiny.tables(rows=900), study.windows)
    return collected(study, dataset, tmp_path_factory.mktemp("results"))


def test_means_over_clients_are_in_the_summary(folder: Path) -> None:
    records = pd.read_parquet(folder / "records.parquet")
    last = records.query("split == 'test' and round == 3 and sharing == 'P2' and model == 'local'")
    row = Tables(folder).summary.query("sharing == 'P2' and model == 'local'").iloc[0]
    for score in ("nrmse", "seasonal_mase", "crps", "scaled_crps", "coverage_80", "width_50"):
        assert row[f"{score}_mean"] == pytest.approx(last[score].mean(), rel=1e-5)
    assert row["mase_worst_tenth"] == pytest.approx(last["mase"].max(), rel=1e-5)
    assert not any("_h" in column for column in Tables(folder).summary)


def test_every_target_has_its_scores(folder: Path) -> None:
    records = pd.read_parquet(folder / "records.parquet").query("split == 'test' and round == 3")
    mean = records[[f"mae_h{row}" for row in (1, 2, 3, 4)]].mean(axis=1)
    np.testing.assert_allclose(mean, records["mae"])  # all targets have equally many windows
    baselines = pd.read_parquet(folder / "baselines.parquet").query("split == 'test'")
    persistence = baselines[baselines["baseline"] == "persistence"]
    np.testing.assert_allclose(persistence[[f"mase_h{row}" for row in (1, 2, 3, 4)]], 1)


AXES = dict(zip(CELL, ["CA", "P1", "fedopt", "sgd", "fedavg", 1], strict=True))


def table(present: dict[int, str], mase: dict[int, float], **train_columns: object) -> pd.DataFrame:
    """Records of one cell: who took part in each round, and the test MASE of evaluated rounds."""
    rows = [
        {"round": t, "client": c, "split": "train", "model": model, "bytes_down": 10}
        | {"bytes_up": 10, "loss": 1.0, "epochs": 0.5}
        | train_columns
        for model in ("local", "global")
        for t, clients in present.items()
        for c in clients
    ]
    rows += [
        {"round": t, "client": c, "split": "test", "model": model, "mase": level + extra}
        for t, level in mase.items()
        for c in "abc"
        for model, extra in (("local", 0.0), ("global", 0.5))
    ]
    return pd.DataFrame(rows).assign(**AXES)


def test_waiting_is_the_mean_over_participants_and_rounds() -> None:
    records = table({1: "ab", 2: "a"}, {2: 1.0}, seconds=3.0, round_seconds=5.0)
    records.loc[(records["round"] == 1) & (records["client"] == "b"), "seconds"] = 5.0
    first = records[(records["round"] == 1) & (records["client"] == "a")]
    records = pd.concat([records, first.assign(client="c", seconds=0.0, loss=np.nan)])
    for found in costs(records).to_dict("records"):
        assert found["seconds"] == 10
        assert found["waiting"] == pytest.approx((2 + 0 + 2) / 3)


def test_epochs_are_summed_over_rounds_and_averaged_over_clients() -> None:
    # a: two rounds of half a pass; b: one; c, which is only scored: none.
    records = table({1: "ab", 2: "a"}, {2: 1.0})
    assert costs(records)["epochs"].tolist() == [(1.0 + 0.5 + 0.0) / 3] * 2
