import json
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import mlflow
import pandas as pd
import pytest
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient

from plfl.base.errors import ResultsError
from plfl.config.study import FORMAT, Study
from plfl.publish.tracking import store
from plfl.publish.tracking.store import track
from plfl.results import overview
from tests.helpers import fake_results
from tests.helpers.fake_results import TINY
from tests.helpers.refusals import naming

CELL = "CA-P2-fedopt-adam-fedavg-10"
BASELINES = {f"CA baseline {name}" for name in fake_results.BASELINES}


@pytest.fixture
def results(tracked, tmp_path):
    return Path(shutil.copytree(tracked, tmp_path / "tiny"))


@pytest.fixture
def figures(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "fig1.png").write_bytes(b"first picture")
    (tmp_path / "figures" / "fig1.pdf").write_bytes(b"not shown")
    return tmp_path / "figures"


def experiment(results):
    return store.find_experiment(store.connect(results / "mlflow.db"))


def runs(results, view=ViewType.ACTIVE_ONLY):
    client = store.connect(results / "mlflow.db")
    return client.search_runs([experiment(results).experiment_id], run_view_type=view)


def delete_runs(results):
    client = store.connect(results / "mlflow.db")
    for run in runs(results):
        client.delete_run(run.info.run_id)


def by_name(results):
    found = {run.info.run_name: run for run in runs(results)}
    assert len(found) == len(runs(results))
    return found


def dump(results):
    with closing(sqlite3.connect(results / "mlflow.db")) as link:
        return list(link.iterdump())


def content(results):
    """All that a visitor sees, without what differs between two loggings of the same."""
    return {
        name: (run.info.status, run.data.params, run.data.metrics, run.data.tags)
        for name, run in by_name(results).items()
    }


def artifacts(results, run):
    return results / "mlartifacts" / run.info.run_id / "artifacts"


def edit_about(results, change):
    path = results / "study.json"
    about = json.loads(path.read_text())
    change(about)
    path.write_text(json.dumps(about))


def test_a_cell_is_a_flat_run_with_its_tags(results):
    found = by_name(results)
    cells = {"CA-P1 adam+avg", "CA-P2 adam+avg", "CA-P3 adam"}
    assert set(found) == {*cells, *BASELINES, "overview"}
    run = found["CA-P2 adam+avg"]
    hashes = json.loads((results / "study.json").read_text())["cells"]
    assert run.info.status == "FINISHED"
    assert run.data.tags["plfl.cell"] == hashes[CELL]
    assert run.data.tags["plfl.data"] == "sample data"
    assert run.data.tags["mlflow.source.git.commit"] == "0123abc"
    assert "mlflow.parentRunId" not in run.data.tags
    assert run.inputs.dataset_inputs[0].dataset.name == "sample data CA"
    assert experiment(results).name == "tiny (sample data)"
    table = pd.read_json(artifacts(results, run) / "per_client.json", orient="split")
    assert table["client"].tolist() == ["ca100", "ca137"]
    assert json.loads(run.data.tags["mlflow.loggedArtifacts"]) == [
        {"path": "per_client.json", "type": "table"}
    ]
    diverged = found["CA-P3 adam"]
    assert diverged.info.status == "FAILED"
    assert diverged.data.tags["diverged_round"] == "2"
    assert diverged.data.metrics["test/mase_local"] > 0
    assert "test_last/mase_local" not in diverged.data.metrics


def test_logging_again_changes_nothing(results, figures):
    track(results, figures)
    before, files = dump(results), sorted(results.rglob("*"))
    track(results, figures)
    assert dump(results) == before
    assert sorted(results.rglob("*")) == files


@pytest.mark.parametrize("changed", ["hash", "records"])
def test_a_changed_cell_replaces_its_run(changed, results):
    before = by_name(results)
    if changed == "hash":
        edit_about(results, lambda about: about["cells"].update({CELL: "new"}))
    else:
        records = pd.read_parquet(results / "records.parquet")
        records.loc[records["sharing"] == "P2", "mase"] *= 1.5
        records.to_parquet(results / "records.parquet")
    track(results)
    after = by_name(results)
    assert set(after) == set(before)
    others = {"overview"} if changed == "hash" else set()  # it holds study.json
    replaced = {n for n in after if after[n].info.run_id != before[n].info.run_id}
    assert replaced == {"CA-P2 adam+avg"} | others
    assert not artifacts(results, before["CA-P2 adam+avg"]).exists()


def test_a_cell_that_left_the_study_leaves(results):
    edit_about(results, lambda about: about["study"]["grid"].update(sharing=["P1", "P3"]))
    track(results)
    assert set(by_name(results)) == {"CA-P1 adam+avg", "CA-P3 adam", *BASELINES, "overview"}


def test_runs_of_others_are_left_alone(results):
    client = store.connect(results / "mlflow.db")
    other = client.create_run(experiment(results).experiment_id, run_name="mine")
    track(results)
    assert by_name(results)["mine"].info.run_id == other.info.run_id


def test_a_database_that_is_gone_is_made_anew_from_the_tables(results):
    whole = content(results)
    (results / "mlflow.db").unlink()
    shutil.rmtree(results / "mlartifacts")
    track(results)
    assert content(results) == whole


def hole(path):
    """Overwrite the page of the parameters."""
    with closing(sqlite3.connect(path)) as link:
        (size,) = link.execute("PRAGMA page_size").fetchone()
        asked = "SELECT rootpage FROM sqlite_master WHERE name = 'params'"
        page = link.execute(asked).fetchone()[0] - 1
    whole = path.read_bytes()
    path.write_bytes(whole[: size * page] + bytes(size) + whole[size * (page + 1) :])


def schema(*revisions):
    def change(path):
        with closing(sqlite3.connect(path)) as link, link:
            link.execute("DELETE FROM alembic_version")
            link.executemany("INSERT INTO alembic_version VALUES (?)", [(r,) for r in revisions])

    return change


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: path.write_bytes(b""), ""),
        (lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]), ""),
        (hole, ""),
        (lambda path: path.write_text("not a database " * 100), "not an MLflow database"),
        (schema("ffffffffffff"), f"a newer MLflow than {mlflow.__version__}"),
        (schema("451aebb31d03"), f"an older MLflow than {mlflow.__version__}"),
        (schema(), "not a complete MLflow database"),
    ],
    ids=["empty", "half", "holed", "text", "newer", "older", "incomplete"],
)
def test_a_database_that_cannot_be_used_is_refused_unchanged(spoil, says, results):
    spoil(results / "mlflow.db")
    before = (results / "mlflow.db").read_bytes()
    with naming(ResultsError, "mlflow.db", says):
        track(results)
    assert (results / "mlflow.db").read_bytes() == before


@pytest.mark.parametrize("name", [".mlflow.lock", "mlflow.db"])
def test_what_cannot_be_written_is_named(name, results, monkeypatch):
    def refuse(lock):
        raise PermissionError(13, "Permission denied", lock.lock_file)

    if name == "mlflow.db":
        monkeypatch.setattr(store.os, "access", lambda path, mode: Path(path).name != name)
    else:
        monkeypatch.setattr(store.FileLock, "__enter__", refuse)
    with naming(ResultsError, name):
        track(results)


def test_a_study_that_was_deleted_in_the_browser_returns(results):
    client = store.connect(results / "mlflow.db")
    client.delete_experiment(experiment(results).experiment_id)
    track(results)
    assert experiment(results).lifecycle_stage == "active"
    assert len(by_name(results)) == 4 + len(BASELINES)


@pytest.mark.parametrize("step", ["create_run", "set_terminated"])
def test_a_killed_call_is_corrected_by_the_next(results, monkeypatch, step):
    whole = content(results)
    delete_runs(results)
    calls, original = [], getattr(MlflowClient, step)

    def killed(*args, **kwargs):
        calls.append(step)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, step, killed)
        with pytest.raises(KeyboardInterrupt):
            track(results)
    assert content(results) != whole
    track(results)
    assert content(results) == whole


def test_a_call_killed_while_the_database_is_made_leaves_none(tmp_path, monkeypatch):
    fake_results.write(tmp_path, TINY)

    def killed(database):
        database.write_bytes(b"half a database")
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "connect", killed)
    with pytest.raises(KeyboardInterrupt):
        track(tmp_path)
    assert not list(tmp_path.glob("*.db"))


def test_two_calls_at_once_log_everything_once(results):
    whole = content(results)
    delete_runs(results)
    threads = [threading.Thread(target=track, args=(results,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert content(results) == whole


def test_figures_lie_in_the_overview_and_are_renewed(results, figures):
    track(results, figures)
    first = by_name(results)["overview"]
    shown = {path.name: path.read_bytes() for path in artifacts(results, first).iterdir()}
    assert set(shown) == {"fig1.png", "study.json", "summary.csv"}
    assert shown["fig1.png"] == b"first picture"
    (figures / "fig1.png").write_bytes(b"second picture")
    track(results, figures)
    second = by_name(results)["overview"]
    assert (artifacts(results, second) / "fig1.png").read_bytes() == b"second picture"
    note = experiment(results).tags["mlflow.note.content"]
    assert f"runs/{second.info.run_id}/artifacts/fig1.png" in note
    assert first.info.run_id not in note


def test_views_are_stored_and_those_of_the_user_are_kept(results):
    client = store.connect(results / "mlflow.db")
    id = experiment(results).experiment_id
    client.set_experiment_tag(id, "mlflow.sharedViewState.mine", "{}")
    client.set_experiment_tag(id, "mlflow.sharedViewState.plfl-gone", "{}")
    track(results)
    views = [key for key in experiment(results).tags if key.startswith("mlflow.sharedViewState")]
    assert sorted(key.rsplit(".", 1)[1] for key in views) == [
        "mine",
        "plfl-CA-curves",
        "plfl-best",
    ]


def test_a_note_has_the_first_links_that_it_has_room_for():
    every = [f"[S{i:03}](/view/{i:030})" for i in range(900)]
    *links, rest = store._in_one_line(every).split(" · ")
    assert rest == "more in the Views menu"
    assert links == every[: len(links)] and len(links) > 100


def test_nothing_is_written_elsewhere(tracked):
    assert {path.name for path in tracked.parent.iterdir()} == {"here", "tiny"}
    assert not list((tracked.parent / "here").iterdir())


def test_many_points_and_seeds_are_logged_in_several_calls(results, monkeypatch):
    whole = content(results)
    monkeypatch.setattr(store, "MOST_METRICS", 20)
    delete_runs(results)
    track(results)
    assert content(results) == whole


def test_results_of_another_configuration_are_refused(tmp_path):
    fake_results.write(tmp_path, TINY)
    edit_about(tmp_path, lambda about: about.update(format=99))
    with naming(ResultsError, "study.json", "99"):
        track(tmp_path)
    edit_about(tmp_path, lambda about: about.update(format=FORMAT))
    edit_about(tmp_path, lambda about: about["study"].update(tempo=3))
    with naming(ResultsError, "0.1.0"):
        track(tmp_path)
    edit_about(tmp_path, lambda about: about["study"].pop("tempo"))
    edit_about(tmp_path, lambda about: about["study"].update(plugins=["gone.py"]))
    with naming(ResultsError, "gone.py"):
        track(tmp_path)
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.parametrize("transaction", ["EXCLUSIVE", "IMMEDIATE"])
def test_a_database_that_another_process_has_locked_is_named(results, transaction, monkeypatch):
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    before = dump(results)
    with closing(sqlite3.connect(results / "mlflow.db")) as other:
        other.execute(f"BEGIN {transaction}")
        with naming(ResultsError, "mlflow.db"):
            track(results)
    track(results)
    assert dump(results) == before


def test_a_database_that_is_locked_for_a_moment_is_waited_for(results):
    before = dump(results)
    other = sqlite3.connect(results / "mlflow.db", check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(0.5, other.close)
    release.start()
    track(results)
    release.join()
    assert dump(results) == before


def test_every_variant_is_an_experiment_of_one_database(tracked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    axes = {"federation.batch_size": [8, 16]}
    study = Study.parse({**TINY, "grid": {**TINY["grid"], "sharing": ["P1"], **axes}}, "swept")
    for variant in study.variants.values():
        fake_results.write(variant.results, variant.description())
    overview.gather(study, study.results, None)
    # To make a database takes seconds; that of another study is one as well.
    shutil.copy(tracked / "mlflow.db", study.results)
    assert track(study.results) == study.results / "mlflow.db"
    client = store.connect(study.results / "mlflow.db")
    for _ in range(2):
        found = {one.name: one.experiment_id for one in client.search_experiments()}
        own = {f"tiny/batch_size={size} (sample data)" for size in (8, 16)}
        assert set(found) == {"tiny (sample data)", *own}
        runs = client.search_runs([found["tiny/batch_size=16 (sample data)"]])
        own = [run for run in runs if run.data.params.get("sharing") == "P1"]
        assert [run.data.params["variant"] for run in own] == ["batch_size=16"]
        assert own[0].data.params["batch_size"] == "16"
        track(study.results)  # changes nothing
    assert not list(study.results.glob("*/mlflow.db"))
