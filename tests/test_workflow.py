"""The Snakemake workflow as a user meets it: own meters, small models, from files to forecasts.

`make smoke` goes on to figures, page and MLflow.
"""

import io
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

import plfl
from plfl.base.files import hold
from plfl.cli.main import main as plfl_command
from plfl.results.records import CELL
from tests.helpers import fake_results
from tests.helpers.projects import Project, write_meters


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("project"))
    project.make("results/own/models/index.csv", "results/own/comparisons.csv")
    return project


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """A copy of the finished project to do things to."""
    shutil.copytree(finished.folder, tmp_path, dirs_exist_ok=True)
    copy = Project.__new__(Project)
    copy.folder, copy.results = tmp_path, tmp_path / "results" / "own"
    copy.config = yaml.safe_load(yaml.safe_dump(finished.config))
    return copy


def test_the_best_models_forecast_what_was_recorded(finished: Project) -> None:
    index = pd.read_csv(finished.results / "models" / "index.csv")
    is_baseline = index["sharing"] == "baseline"
    assert {"persistence", "naive_day"} <= {*index["cell"][is_baseline]}
    index = index[~is_baseline]
    assert len(index) == 3
    assert (index["file"] == index["state"] + "-" + index["sharing"] + ".safetensors").all()
    tables = plfl.Tables(finished.results)
    for row in index.itertuples():
        model = plfl.load(finished.results / "models" / str(row.file))
        assert model.cell == tables.best("local", state=str(row.state), sharing=str(row.sharing))
        assert str(model.cell) == row.cell
        forecasts_as_recorded(finished, model)


def forecasts_as_recorded(project: Project, model: plfl.ForecastModel) -> None:
    weeks = pd.read_parquet(project.results / "forecasts.parquet")
    week = weeks[(weeks[CELL] == pd.Series(vars(model.cell))).all(axis=1)]
    assert len(week)
    for client, own in week.groupby("client"):
        file = project.folder / "meters" / model.cell.state / f"{client}.csv"
        found = model.predict(model.read(file), str(client))
        wanted = own.set_index("stamp")["local"]
        np.testing.assert_allclose(found["forecast"][wanted.index], wanted, rtol=1e-6)


def test_a_results_folder_forecasts_and_scores_with_the_best_of_each_meter(
    finished, monkeypatch, capsys, invoke
):
    monkeypatch.chdir(finished.folder)
    results, files = "results/own", "meters/North"
    shown = invoke("forecast", results, files)
    found = pd.read_csv(io.StringIO(shown.out))
    scores = pd.read_parquet("results/own/baselines.parquet").query("split == 'validation'")
    index = pd.read_csv("results/own/models/index.csv")
    is_baseline = index["sharing"] == "baseline"
    index = index.set_index(index["sharing"].mask(is_baseline, index["cell"]))
    kept = index[index["state"] == "North"]
    for client, own in found.groupby("client"):
        (forecaster,) = {*own["forecaster"]}
        file = f"results/own/models/{kept.loc[forecaster, 'file']}"
        alone = pd.read_csv(io.StringIO(invoke("forecast", file, f"{files}/{client}.csv").out))
        pd.testing.assert_frame_equal(own.reset_index(drop=True), alone)
        rivals = scores[(scores["client"] == client) & scores["baseline"].isin(kept.index)]
        best = rivals["mase"].min()
        (told,) = re.findall(rf"^{client}: .*MASE ([\d.]+)", shown.err, re.MULTILINE)
        assert float(told) <= best + 0.005
    # Against the last reading, the last reading has an error of 1.
    assert plfl_command(["backtest", results, files, "--with", "persistence"]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert {*table["client"]} == {*found["client"]} and (table["mase"] == 1).all()
    table = pd.read_csv(io.StringIO(invoke("backtest", results, files, "--with", "naive_day").out))
    assert (table["mae"] == table["naive_day"]).all()
    assert "--with P9" in invoke("forecast", results, files, "--with", "P9", status=2).err


def test_results_are_scored_beside_predictions_and_become_rows_of_a_leaderboard(
    finished, monkeypatch, capsys, invoke
):
    monkeypatch.chdir(finished.folder)
    clients = plfl.clients("my.yaml")
    table = pd.concat([client.predictions(client.y_test, seed=1) for client in clients])
    table.to_csv("truth.csv", index=False)
    options = ["--results", "results/own", "--submit", "board.csv", "--method"]
    assert plfl_command(["score", "my.yaml", *options, "ours"]) == 0
    shown = invoke("score", "my.yaml", "truth.csv", *options, "truth").out
    assert all(f"best {scheme}" in shown for scheme in ("P1", "P2", "P3"))
    board = pd.read_csv("board.csv").set_index("method")
    assert board.index[0] == "truth"
    tables = plfl.Tables(finished.results)
    best = tables.best("local", state="North", sharing="P2")
    assert best is not None
    row = board.loc["ours: P2, FedOpt, local model"]
    assert row["score"] == pytest.approx(fake_results.scores_of(tables, best).mean(), rel=1e-5)
    assert row["exchanged"] == "models" and row["bytes_up"] > 0
    command, _, keys = row["command"].partition(", with the keys ")
    assert command == "plfl study own.yaml"
    assert plfl.Study.parse(yaml.safe_load(keys), "row") == tables.study
    summary = tables.summary.query("model == 'local'")
    summary = summary[(summary[CELL] == pd.Series(vars(best))).all(axis=1)]
    assert row["wape"] == pytest.approx(summary["wape_mean"].item(), rel=1e-5)
    naive = tables.baseline_scores["mase_mean"][("North", "naive_day")]
    found = board.loc["ours: Seasonal naive (day)", "score"]
    assert found == pytest.approx(naive, rel=1e-5)
    meters = Path("meters/North/a.csv")
    rows = pd.read_csv(meters, index_col=0)
    changed = rows.copy()
    changed.loc[rows.index > "2024-01-13"] *= 2
    changed.to_csv(meters)
    try:
        assert plfl_command(["score", "my.yaml", *options, "ours"]) == 2
        assert "was made from other data: the error of persistence of a" in capsys.readouterr().err
    finally:
        rows.to_csv(meters)


def later_readings(project: Project, days: int, factor: float = 1.0) -> pd.DataFrame:
    """Readings of meter `a` for the days after those of the project."""
    load = pd.read_csv(project.folder / "meters/North/a.csv", index_col=0)["load"].to_numpy()
    stamps = pd.date_range("2024-01-15 00:15", periods=96 * days, freq="15min", name="timestamp")
    return pd.DataFrame({"load": factor * np.resize(load, len(stamps))}, stamps)


def test_readings_after_those_of_the_study_are_scored_and_forecast(project, monkeypatch, invoke):
    monkeypatch.chdir(project.folder)
    later, whole = later_readings(project, 16, 1.3), pd.read_csv("meters/North/a.csv", index_col=0)
    later.to_csv("a.csv")
    Path("all").mkdir()
    pd.concat([whole.set_axis(pd.to_datetime(whole.index)), later]).to_csv("all/a.csv")
    # The study knows the earlier ones.
    new, both = (invoke("forecast", "results/own", files).out for files in ("a.csv", "all"))
    assert new == both
    said = invoke("backtest", "results/own", "a.csv", "--plot", "weeks.svg")
    assert said.out == invoke("backtest", "results/own", "all").out
    (row,) = pd.read_csv(io.StringIO(said.out)).to_dict("records")
    assert row["first"] == "2024-01-15 00:15:00+00:00" and row["forecasts"] == len(later)
    assert row["naive_day"] > 0 and row["past_mase"] > 0
    assert "<!-- a -->" in Path("weeks.svg").read_text(encoding="utf-8")


def test_programs_are_of_what_forecasts(project, monkeypatch, capsys, invoke):
    monkeypatch.chdir(project.folder)
    assert plfl_command(["forecast", "results/own", "meters/North/a.csv"]) == 0
    chosen = next(x for x in capsys.readouterr().err.splitlines() if x.startswith("a: "))
    assert chosen in invoke("export", "results/own", "--client", "a", "--to", "a.onnx").err
    assert plfl_command(["export", "results/own", "--with", "naive_day", "--to", "all"]) == 0
    assert "b: naive_day, chosen with --with" in capsys.readouterr().err
    assert sorted(path.name for path in Path("all").iterdir()) == ["a.onnx", "b.onnx", "c.onnx"]
    for path, reason in (("x.onnx", "name a folder"), ("x.pt2", "ends in .onnx")):
        one = ["--client", "a"] * (path == "x.pt2")
        assert reason in invoke("export", "results/own", "--to", path, *one, status=2).err


@pytest.mark.parametrize("days", [1, 3, 8, 20])
def test_a_new_meter_gets_the_best_of_all_that_suit_its_age(project, days, capsys):
    write_meters(project.folder / "new", "d", days=days)
    file = project.folder / "new" / "d.csv"
    assert plfl_command(["forecast", str(project.results), str(file), "--new"]) == 0
    (told,) = re.findall(
        r"^d: (\w+), least error of .* kWh ([\d.]+) \((.*)\)$", capsys.readouterr().err, re.M
    )
    errors = {told[0]: float(told[1])}
    errors |= {name: float(error) for name, error in map(str.split, told[2].split(", "))}
    assert told[0] == min(errors, key=lambda name: errors[name])
    naive = {"persistence", "naive_day"} if days == 8 else set()
    if days < 20:  # too young for what would be trained on its readings alone
        assert {*errors} == {"P1", "P2", *naive}
    assert len(errors) == (2 if days < 7 else 4)
    # The same errors from the files of the models.
    index = pd.read_csv(project.results / "models" / "index.csv").query("state == 'North'")
    names = index["sharing"].where(index["sharing"] != "baseline", index["cell"])
    files = dict(zip(names, index["file"], strict=True))
    found = {}
    for name in errors:
        model = plfl.load(project.results / "models" / files[name])
        readings = model.read(file)
        known = readings if days < 20 else readings[: -len(readings) // 5]
        adapted = model.adapt(known, "d", 0 if days < 20 else None)
        forecasts = adapted.predict(readings, early=True)
        if days == 20:
            forecasts = forecasts[forecasts["made_at"] >= known.index[-1]]
        found[name] = (forecasts["forecast"] - readings["load"]).abs()
    again = pd.DataFrame(found).dropna().mean()
    np.testing.assert_allclose(again[[*errors]], [*errors.values()], rtol=0.0051)


SHOWN = {"collect", "comparisons", "figures", "page", "track", "models"}


@pytest.mark.parametrize(
    ("block", "key", "value", "rules"),
    [
        ("compute", "threads", 2, set()),
        ("hyperparameters.client_opt", "prox", {"lr": 0.5}, {"collect"}),
        ("hyperparameters.client_opt", "adam", {"lr": 0.5}, {"train", "train_local", "collect"}),
        ("windows", "look_ahead", 5, {"windows", "baselines", "train", "train_local", "collect"}),
    ],
)
def test_a_change_runs_what_depends_on_it(project, block, key, value, rules):
    section = project.config
    for name in block.split("."):
        section = section.setdefault(name, {})
    section[key] = value
    jobs = project.jobs().keys()
    assert jobs - SHOWN == rules - SHOWN
    assert ("collect" in jobs) == ("collect" in rules)


def test_what_was_cut_or_changed_is_made_again(project: Project) -> None:
    patterns = ("cells/*.parquet", "*.parquet", "summary.csv", "study.json", "SHA256SUMS")
    files = [path for pattern in patterns for path in project.results.glob(pattern)]
    tables = {path: path.read_bytes() for path in files}
    changed, cut = sorted(project.results.glob("cells/North-P[12]-*-fedyogi-10.parquet"))
    better = pq.read_table(changed)
    better = better.set_column(
        better.column_names.index("mase"), "mase", pc.multiply(better["mase"], 0.1)
    )
    changed.unlink()
    pq.write_table(better, changed)
    content = cut.read_bytes()
    for path in [cut, *project.results.glob("trained/*.parquet")]:  # elsewhere one file
        if path.read_bytes() == content:
            os.truncate(path, 1000)
    os.truncate(project.results / "records.parquet", 1000)
    summary = project.results / "summary.csv"
    summary.write_text(summary.read_text().replace("0", "1"))
    status, said = project.snakemake(*(str(path.relative_to(project.folder)) for path in tables))
    assert status == 0, said
    assert {path: path.read_bytes() for path in tables} == tables
    assert re.search(f"{changed.name}: it has changed .* and 1 more: removed", said)
    logs = {path.stem: path.read_text() for path in project.results.glob("logs/train/*.log")}
    again = {name for name, log in logs.items() if "; the cell is trained again" in log}
    assert again == {"North-P2"}, "of P1, there was a whole copy"


def test_only_new_cells_are_trained_and_models_of_a_new_best_cell_are_made_again(project):
    """A job keeps the models of its best cell only, but that may leave the grid."""

    def inodes(files: str) -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in project.results.glob(files)}

    index = project.results / "models" / "index.csv"
    cells = pd.read_csv(index).set_index(["state", "sharing"])["cell"]
    best = cells["North", "P2"].split("-")[4]
    (other,) = {"fedavg", "fedyogi"} - {best}
    kept = set(inodes("trained/*.parquet").values())
    project.config["grid"] |= {"server_opt": [other, "fedadagrad"], "sharing": ["P2"]}
    project.make("results/own/models/index.csv")
    new = inodes("cells/North-P2-*.parquet")
    assert {name for name in new if new[name] in kept} == {name for name in new if other in name}
    assert any("fedadagrad" in name for name in new)
    log = (project.results / "logs" / "models.log").read_text()
    cell = f"North-P2-fedopt-adam-{other}-10"
    assert cell in log
    model = plfl.load(project.results / "models" / "North-P2.safetensors")
    assert str(model.cell) == cell
    forecasts_as_recorded(project, model)


def test_jobs_of_another_size_give_the_same_bits(project: Project) -> None:
    name = "North-P2-fedopt-adam-fedyogi-10.parquet"
    before = (project.results / "cells" / name).read_bytes()
    shutil.rmtree(project.results / "cells")
    shutil.rmtree(project.results / "trained")
    project.config["compute"] = {"stack": "cell"}
    jobs = project.jobs()
    assert (jobs["train"], jobs["train_local"]) == (4, 1), "P3 once for both ServerOpts"
    project.config["compute"] = {"stack": "study"}
    project.config["data"]["states"].append("South")
    jobs = project.jobs()
    assert jobs["train"] == 1 and "train_local" not in jobs
    project.make(f"results/own/cells/{name}")
    assert (project.results / "cells" / name).read_bytes() == before
    log = project.results / "logs" / "train" / "study.log"
    assert "own: round 2 of 2" in log.read_text()


def test_a_damaged_meter_stops_its_state_with_a_message(project: Project) -> None:
    meter = project.folder / "meters" / "North" / "b.csv"
    meter.write_text(meter.read_text() + "2024-01-01 00:15:00,3\n")
    status, said = project.snakemake()
    assert status
    assert "meters/North/b.csv" in said
    assert "Traceback" not in (project.results / "logs" / "windows" / "North.log").read_text()
    assert not (project.results / "data" / "North.npz").exists()


@pytest.mark.parametrize("age", [0, -1000])
def test_a_meter_that_is_replaced_by_one_that_is_not_newer_is_read_again(project, age):
    """As `mv` and `cp -p` do it."""
    assert not project.jobs().keys() & {"download", "windows", "train"}
    meter = project.folder / "meters" / "North" / "b.csv"
    before = meter.stat()
    other = meter.with_name("other")
    other.write_text(meter.read_text().replace("2024-01-01 00:15:00,2", "2024-01-01 00:15:00,3"))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns + age))
    other.rename(meter)
    assert project.jobs().keys() >= {"download", "windows", "baselines", "train", "train_local"}


def test_a_study_that_runs_already_is_refused_in_a_line(project, monkeypatch, capsys):
    (project.folder / "my.yaml").write_text(yaml.safe_dump(project.config))
    monkeypatch.chdir(project.folder)
    lock = hold(Path("results/own/.lock"))
    try:
        assert plfl_command(["study", "my.yaml"]) == 2
    finally:
        lock.release()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("plfl: results/own: another process is running this study; wait until")


def test_files_that_changed_unnoticed_are_found_out(project: Project) -> None:
    receipt = project.results / "data" / "North.files.json"
    receipt.write_text(receipt.read_text().replace('": "', '": "0'))
    status, said = project.snakemake("--forcerun", "windows", "--until", "windows")
    assert status
    assert "has changed" in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"federation": {"roundz": 1}}, "federation.roundz: unknown key"),
        ({"data": {"source": "meters", "meters": {"folder": "none"}}}, "the folder does not exist"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(tmp_path, change, message):
    project = Project(tmp_path)
    project.config |= change
    status, said = project.snakemake()
    assert status
    assert message in said
    assert not project.results.exists()


def test_a_study_makes_public_models_of_its_states_and_judges_each_by_the_others(tmp_path):
    project = Project(tmp_path)
    for seed, state in enumerate(("North", "South", "East")):
        write_hours(tmp_path / "meters" / state, seed)
    project.config["data"] |= {"states": ["North", "South", "East"], "clients": 2}
    project.config["data"]["meters"] = {"interval": 60}
    project.config["public"] = {"kind": "homes", "states": ["North", "South"]}
    files = [f"results/own/public/{n}.xz" for n in ("homes", "without-North", "without-South")]
    public = {"name": "public", "kind": "homes", "file": files}
    project.config["baselines"]["further"] = [public]
    tables = [f"results/own/baselines/{n}.parquet" for n in ("North", "South", "East")]
    project.make(*tables)
    assert all((tmp_path / file).is_file() for file in files)
    scores = pd.concat([pd.read_parquet(tmp_path / table) for table in tables])
    scores = scores.query("baseline == 'public'")
    assert set(scores["state"]) == {"North", "South", "East"}
    assert (scores["failed"] == "").all()
    assert scores["mase"].notna().all()
    assert "public" not in project.jobs()
    write_hours(tmp_path / "meters" / "South", 7)
    jobs = project.jobs()
    assert jobs["public"] == 2  # but not that which South did not train
    assert jobs["baselines"] == 3


def write_hours(folder: Path, seed: int) -> None:
    """Write two meters of three weeks."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.csv"):
        old.unlink()
    ends = pd.date_range("2024-01-01 01:00", periods=24 * 21, freq="h", name="timestamp")
    random = np.random.default_rng(seed)
    for name in "ab":
        load = 2 + np.sin(ends.hour.to_numpy() / 4) + random.random(len(ends))
        pd.DataFrame({"load": load.round(4)}, ends).to_csv(folder / f"{name}.csv")


def test_variants_use_the_datasets_and_cells_that_exist(project: Project) -> None:
    name = "North-P2-fedopt-adam-fedavg-10.parquet"
    before = pd.read_parquet(project.results / "cells" / name)
    project.config["grid"]["federation.local_steps"] = [3, 4]
    jobs = project.jobs()
    trained = {"train": 4, "train_local": 2}
    assert jobs == trained | {"collect": 2, "comparisons": 2, "overview": 1, "track": 1}
    project.make(f"results/own/local_steps=3/cells/{name}")
    pd.testing.assert_frame_equal(
        pd.read_parquet(project.results / "local_steps=3" / "cells" / name), before
    )
    logs = project.results / "local_steps=3" / "logs" / "train"
    assert "round" not in (logs / "North-P2.log").read_text()  # nothing was trained again
    project.config["grid"]["windows.history"] = [1, None]
    assert {"windows": 2, "baselines": 2, "collect": 4}.items() <= project.jobs().items()
