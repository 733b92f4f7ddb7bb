"""What MLflow holds of a study, in a database of SQLite, as MLflow's own client reads it."""

import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pandas as pd
import pytest
from mlflow.tracking import MlflowClient

from plfl.base.errors import PlflError
from plfl.publish import tracking
from plfl.publish.tracking import runs, track
from plfl.results import overview
from plfl.results.tables import Tables
from plfl.results.traffic import mean_traffic
from plfl.study import Study
from tests.helpers import fake_results
from tests.helpers.fake_results import BASELINES, METERS, TINY
from tests.helpers.refusals import naming

LONGER = TINY | {"federation": {"rounds": 4, "evaluate_every": 1}}
CELL = "CA-P2-fedopt-adam-fedavg-10"
FEW = {name: BASELINES[name] for name in ("persistence", "ridge", "lightgbm_pooled")}
RESULTS = Path("results/tiny")


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    """MLflow needs ten seconds to make one."""
    folder = tmp_path_factory.mktemp("empty")
    path = folder / "mlruns.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def place(here, monkeypatch, empty_database):
    """The current folder, with an empty database."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(empty_database, here)
    return here


@pytest.fixture(autouse=True, scope="module")
def few_baselines():
    """A run of each takes as long to log as that of a cell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_results, "BASELINES", FEW)
        yield


def write_results():
    """A study of three cells, of which one diverges in round 2."""
    fake_results.write(RESULTS, TINY, diverged=("CA-P3-fedopt-adam-fedavg-10",))


@pytest.fixture
def results(place):
    write_results()
    return RESULTS


@pytest.fixture(scope="module")
def tracked_folder(tmp_path_factory, empty_database):
    """A folder with the study, and with what MLflow holds of it."""
    folder = tmp_path_factory.mktemp("tracked")
    shutil.copy(empty_database, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.chdir(folder)
        # A run has more points than a call takes.
        patch.setattr(tracking, "METRICS_PER_REQUEST", 7)
        write_results()
        track(RESULTS)
    return folder


@pytest.fixture
def tracked(tracked_folder, monkeypatch):
    """The results in that folder, in which the test works and changes nothing."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tracked_folder)
    return RESULTS


@pytest.fixture
def again(tracked_folder, here, monkeypatch):
    """The results in a folder of the test, with what MLflow holds of them."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copytree(tracked_folder, here, dirs_exist_ok=True)
    return RESULTS


def logged(experiment="tiny"):
    """The runs of an experiment by name; no two have the same."""
    client = MlflowClient(f"sqlite:///{Path('mlruns.db').resolve()}")
    id = client.get_experiment_by_name(experiment).experiment_id
    found = client.search_runs([id], max_results=1000)
    by_name = {run.info.run_name: run for run in found}
    assert len(by_name) == len(found)
    return client, by_name


def runs_by_subject(folder):
    return {run.subject: run for run in runs(Tables(folder))}


def curve(run, key):
    return {step: value for name, step, value in run.points if name == key}


def test_bytes_are_logged_by_round_to_the_byte(tracked):
    client, found = logged()
    run = found["CA-P2 fedopt adam+fedavg"]
    records = Tables(tracked).records(
        ["round", "client", "bytes_up", "bytes_down"], sharing="P2", split="train", model="local"
    )
    for column in ("bytes_up", "bytes_down"):
        history = client.get_metric_history(run.info.run_id, column)
        by_step = {metric.step: metric.value for metric in history}
        assert by_step == records.groupby("round")[column].sum().to_dict()
    assert run.data.metrics["bytes_up"] == 2 * 14_000  # two clients, 3,500 parameters


def test_one_metric_is_the_number_of_figure_2(tracked):
    tables = Tables(tracked)
    metrics = {name: run.data.metrics for name, run in logged()[1].items()}
    for scheme, name in (("P1", "CA-P1 fedopt adam+fedavg"), ("P2", "CA-P2 fedopt adam+fedavg")):
        drawn = mean_traffic(tables).loc[scheme].sum(axis=1).item()
        assert metrics[name]["bytes/per_round_and_client"] == drawn
    assert metrics["CA-P2 fedopt adam+fedavg"]["bytes/per_round_and_client"] == 2 * 14_000
    assert metrics["CA-P3 adam"]["bytes/per_round_and_client"] == 0


def test_bytes_of_each_client_and_round_are_a_table_and_no_metrics(tracked):
    client, found = logged()
    run = found["CA-P2 fedopt adam+fedavg"]
    path = client.download_artifacts(run.info.run_id, "client_bytes.csv")
    table = pd.read_csv(path)
    assert list(table) == ["round", "client", "bytes_down", "bytes_up"]
    assert table.groupby(["round", "client"])["bytes_up"].sum().unique().tolist() == [14_000]
    assert not [key for key in run.data.metrics if "ca100" in key]


def test_runs_are_named_after_method_and_scheme_and_have_every_hyperparameter(tracked):
    _, found = logged()
    cells = {"CA-P1 fedopt adam+fedavg", "CA-P2 fedopt adam+fedavg", "CA-P3 adam"}
    assert set(found) == {*cells, *(f"CA-baseline {name}" for name in FEW), "overview"}
    params = found["CA-P2 fedopt adam+fedavg"].data.params
    assert {"clients": "2", "look_back": "12", "look_ahead": "4"}.items() <= params.items()
    optimiser = (
        Tables(tracked).study.hyperparameters.find_client_opt("adam").model_dump(mode="json")
    )
    assert all(params[f"client_opt.{key}"] == str(value) for key, value in optimiser.items())
    assert {"participation", "server_opt.lr", "rounds", "batch_size", "seed"} <= params.keys()
    alone = found["CA-P3 adam"].data.params
    assert (alone["method"], alone["server_opt"]) == ("none", "none")
    assert "server_opt.lr" not in alone


def test_a_diverged_cell_has_failed_and_keeps_what_is_finite(tracked):
    client, found = logged()
    run = found["CA-P3 adam"]
    assert (run.info.status, run.data.tags["diverged_round"]) == ("FAILED", "2")
    assert [m.step for m in client.get_metric_history(run.info.run_id, "test/mase_local")] == [1]
    assert "test_last/mase_mean_local" not in run.data.metrics


def test_curves_and_scores_are_those_of_the_tables(place):
    fake_results.write(Path("longer"), LONGER)
    summary = pd.read_csv("longer/summary.csv").astype({"hyperparameters": object})
    for model, rate in (("local", 0.25), ("global", 0.5)):
        summary.loc[summary["model"] == model, "hyperparameters"] = f"client_opt.adam.lr={rate}"
    summary.to_csv("longer/summary.csv", index=False)
    tables, run = Tables(Path("longer")), runs_by_subject(Path("longer"))[CELL]
    assert run.params["client_opt.lr"] == "0.25"  # the value chosen for the local model
    for split, section in (("validation", "val"), ("test", "test")):
        for model in ("local", "global"):
            records = tables.records(["round", "mase"], sharing="P2", split=split, model=model)
            expected = records.groupby("round")["mase"].mean().to_dict()
            assert curve(run, f"{section}/mase_{model}") == pytest.approx(expected, rel=1e-12)
    rows = tables.summary.query("sharing == 'P2' and model == 'global'")
    (row,) = rows.to_dict("records")
    for column in ("mase_mean", "mase_median", "rmse_mean", "mase_worst_tenth"):
        assert curve(run, f"test_last/{column}_global") == {row["round"]: row[column]}
    clients = pd.read_csv(io.StringIO(run.tables["clients.csv"])).set_index("client")
    test = tables.records(["client", "mase"], sharing="P2", split="test", model="local", round=4)
    expected = test.set_index("client")["mase"].to_dict()
    assert clients["mase_local"].to_dict() == pytest.approx(expected)


def test_a_baseline_stands_in_the_columns_of_the_cells(place):
    fake_results.write(Path("longer"), LONGER)
    tables = Tables(Path("longer"))
    run = runs_by_subject(Path("longer"))["CA-baseline-lightgbm_pooled"]
    means = tables.baseline_scores.loc["CA", "lightgbm_pooled"]
    assert (run.params["sharing"], run.params["method"]) == ("baseline", "lightgbm_pooled")
    for model in ("local", "global"):
        for score in ("mase_mean", "mae_mean", "rmse_mean"):
            value = pytest.approx(means[score])
            assert curve(run, f"test_last/{score}_{model}") == {4: value}
        level = pytest.approx(means["validation_mase"])
        assert curve(run, f"val/mase_{model}") == {1: level, 4: level}
    assert curve(run, "total/bytes_up") == {4: means["bytes"]}


def test_every_training_is_a_run_once(place):
    fake_results.write(Path("meters"), METERS)
    found = list(runs(Tables(Path("meters"))))
    cells = Tables(Path("meters")).study.cells
    # Where nothing is shared, the ServerOpts repeat the first one.
    trained = {str(c) for c in cells if c.sharing == "head" or c.server_opt == "fedavgm"}
    baselines = {f"{state}-baseline-{b}" for state in ("Nord", "Sued", "Ost") for b in FEW}
    assert {run.subject for run in found} == trained | baselines
    assert len({run.name for run in found}) == len(found), "names tell seeds apart"


def test_what_is_logged_again_replaces_what_changed_and_nothing_else(again):
    client, before = logged()
    other = client.create_run(before["overview"].info.experiment_id, run_name="of the user")
    records = pd.read_parquet(again / "records.parquet")
    records.loc[records["sharing"] == "P2", "mase"] *= 1.5
    records.to_parquet(again / "records.parquet")
    track(again)
    _, after = logged()
    assert after.pop("of the user").info.run_id == other.info.run_id
    assert after.keys() == before.keys()
    changed = {n for n in after if after[n].info.run_id != before[n].info.run_id}
    assert changed == {"CA-P2 fedopt adam+fedavg"}
    about = json.loads((again / "study.json").read_text())
    about["study"]["grid"]["sharing"] = ["P1", "P3"]
    (again / "study.json").write_text(json.dumps(about))
    track(again)
    _, last = logged()
    assert before.keys() - last.keys() == {"CA-P2 fedopt adam+fedavg"}


@pytest.mark.parametrize("step", ["create_run", "log_batch", "set_terminated"])
def test_a_killed_logging_is_completed_by_the_next(step, results, monkeypatch):
    original, calls = getattr(MlflowClient, step), []

    def killed(*args, **kwargs):
        calls.append(step)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, step, killed)
        with pytest.raises(KeyboardInterrupt):
            track(results)
    track(results)
    _, found = logged()
    assert len(found) == 4 + len(FEW)
    assert {run.info.status for run in found.values()} == {"FINISHED", "FAILED"}
    expected = {run.name: len({key for key, *_ in run.points}) for run in runs(Tables(results))}
    assert {name: len(found[name].data.metrics) for name in expected} == expected


def test_a_study_that_was_deleted_in_the_browser_returns(again):
    client, found = logged()
    client.delete_experiment(found["overview"].info.experiment_id)
    track(again)
    assert logged()[1].keys() == found.keys()


def test_two_studies_stand_in_one_database_and_variants_in_one_experiment(again):
    axes = {"federation.batch_size": [8, 16]}
    swept = {**TINY, "name": "swept", "grid": {**TINY["grid"], "sharing": ["P1"], **axes}}
    study = Study.parse(swept, "swept")
    for variant in study.variants.values():
        fake_results.write(variant.paths.results, variant.description())
    overview.gather(study, study.paths.results, None)
    track(study.paths.results)
    assert len(logged()[1]) == 4 + len(FEW)
    found = logged("swept")[1]
    for size in ("8", "16"):
        run = found[f"batch_size={size}/CA-P1 fedopt adam+fedavg"]
        assert run.data.params["federation.batch_size"] == run.data.params["batch_size"] == size
    assert [path.name for path in Path().glob("**/mlruns.db")] == ["mlruns.db"]


def test_a_database_that_cannot_be_used_is_named_and_left(results):
    Path("mlruns.db").write_text("not a database " * 100)
    before = Path("mlruns.db").read_bytes()
    with naming(PlflError, "mlruns.db", "plfl track"):
        track(results)
    assert Path("mlruns.db").read_bytes() == before


@pytest.fixture(params=["refuses", "is silent"])
def unreachable(request, results, monkeypatch):
    """The address of a server that refuses connections, or accepts them and says nothing."""
    monkeypatch.setattr(tracking, "SERVER_PATIENCE", 0.1)
    monkeypatch.setattr(tracking, "ANSWER_SECONDS", 0.1)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            server.listen()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        yield address


def test_a_server_that_does_not_answer_ends_the_logging_with_its_address(results, unreachable):
    with naming(PlflError, unreachable, "MLFLOW_TRACKING_URI", "plfl track"):
        track(results)


def test_a_server_is_waited_for_aloud(results, unreachable, caplog):
    with pytest.raises(PlflError):
        track(results)
    (record,) = (record for record in caplog.records if record.name == tracking.__name__)
    assert unreachable in record.getMessage()


def ask(address):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(address, timeout=30) as answer:
        return answer.read()


def test_the_browser_gets_the_figure_that_the_description_names(results):
    """The one test that starts MLflow's server."""
    figures = Path("figures/tiny")
    figures.mkdir(parents=True)
    for stem in ("clusters", "fig3_mase_local"):
        (figures / f"{stem}.png").write_bytes(stem.encode())
    track(results, figures)
    # A module of the user's must not replace one of MLflow's.
    Path("click.py").write_text("raise SystemExit('imported from the current folder')")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-P", "-m", "plfl", "ui", "--port", str(port)]
    environment = os.environ | {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    printed = Path("printed.txt")
    with printed.open("w") as out, subprocess.Popen(command, stdout=out, env=environment) as server:
        try:
            for _ in range(600):
                try:
                    ask(f"http://127.0.0.1:{port}/health")
                    break
                except (urllib.error.URLError, OSError):
                    assert server.poll() is None
                    time.sleep(0.1)
            client, found = logged()
            id = found["overview"].info.experiment_id
            note = client.get_experiment(id).tags["mlflow.note.content"]
            file = note.partition("/artifacts/")[2].partition(")")[0]
            run = found["overview"].info.run_id
            base = f"http://127.0.0.1:{port}/get-artifact"
            assert ask(f"{base}?path={file}&run_uuid={run}") == b"fig3_mase_local"
            study_page = f"  tiny: http://127.0.0.1:{port}/#/experiments/{id}/runs?"
            assert study_page in printed.read_text(encoding="utf-8")
        finally:
            server.terminate()
