import numpy as np
import pandas as pd
import pytest

from plfl.publish.tracking.content import runs
from plfl.results.labels import baseline_label
from plfl.results.tables import Tables
from tests.helpers import fake_results
from tests.helpers.fake_results import BASELINES, METERS, METHODS, TINY

LONGER = TINY | {"federation": {"rounds": 4, "evaluate_every": 1}}


@pytest.fixture(scope="module")
def meters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("meters")
    fake_results.write(folder, METERS)
    return folder


@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("longer")
    fake_results.write(folder, LONGER)
    return folder


def logged(folder):
    return {run.subject: run for run in runs(Tables(folder))}


def curve(run, key):
    return {t: value for name, t, value in run.points if name == key}


def test_every_training_and_baseline_is_a_run_in_the_order_of_the_study(meters):
    tables = Tables(meters)
    expected = []
    for state in tables.study.data.states:
        here = [cell for cell in tables.study.cells if cell.state == state]
        # Where nothing is shared, the ServerOpts repeat the first one.
        expected += [str(c) for c in here if c.sharing == "head" or c.server_opt == "fedavgm"]
        expected += [f"{state}-baseline-{name}" for name in BASELINES]
    assert [run.subject for run in runs(tables)] == expected


def test_a_baseline_is_a_run_that_stands_among_the_cells(longer):
    tables, found, name = Tables(longer), logged(longer), "lightgbm_pooled"
    run, cell = found[f"CA-baseline-{name}"], found["CA-P2-fedopt-adam-fedavg-10"]
    assert run.name == f"CA baseline {name}"
    assert (run.hash, run.diverged_round) == (None, None)
    assert run.params == {
        "state": "CA",
        "sharing": "baseline",
        "method": name,
        "client_opt": "none",
        "server_opt": "none",
        "model": baseline_label(name),
    }
    means = tables.baseline_scores.loc["CA", name]
    test = tables.baselines.query("baseline == @name and split == 'test'")
    for model in ("local", "global"):
        for section in ("test_last", "test_best"):
            for score in ("mase", "mae", "rmse"):
                expected = pytest.approx(means[f"{score}_mean"], rel=1e-3)
                assert curve(run, f"{section}/{score}_{model}") == {4: expected}
            median = pytest.approx(test["mase"].median(), rel=1e-3)
            assert curve(run, f"{section}/mase_median_{model}") == {4: median}
        for section, column in (("test", "mase_mean"), ("val", "validation_mase")):
            level = pytest.approx(means[column], rel=1e-3)
            assert curve(run, f"{section}/mase_{model}") == {1: level, 4: level}
    sent = 2 * 4 * 0.9 * 35040
    assert curve(run, "traffic/total_mb") == {4: pytest.approx(sent / 1e6, rel=1e-3)}
    assert run.clients.columns.tolist() == cell.clients.columns.tolist()
    assert run.clients["client"].tolist() == cell.clients["client"].tolist()
    assert run.clients["mase_global"].tolist() == pytest.approx(test["mase"].tolist(), abs=5e-5)
    assert run.clients["mb_up"].sum() == pytest.approx(sent / 1e6, rel=1e-3)
    assert f"baseline {baseline_label(name)}." in run.note and "sample data" in run.note


def test_what_choosing_cost_and_what_the_global_model_was_given_are_told(tmp_path):
    fake_results.write(tmp_path, LONGER)
    path = tmp_path / "summary.csv"
    summary = pd.read_csv(path)
    cells = summary["sharing"].isin(["P1", "P2"])
    summary["hyperparameters"] = summary["hyperparameters"].astype(object)
    summary.loc[cells, ["hyperparameters", "trials", "trial_steps"]] = ["lr=1", 3, 9000.0]
    other = (summary["sharing"] == "P2") & (summary["model"] == "global")
    summary.loc[other, "hyperparameters"] = "lr=0.1"
    summary.to_csv(path, index=False)
    found = logged(tmp_path)
    same, differs = (found[f"CA-{split}-fedopt-adam-fedavg-10"] for split in ("P1", "P2"))
    assert differs.params["hyperparameters"] == "lr=1"
    assert differs.params["hyperparameters_global"] == "lr=0.1"
    assert "hyperparameters_global" not in same.params
    assert curve(differs, "tuning/trials") == {4: 3}
    assert curve(differs, "tuning/client_steps") == {4: 9000}
    assert curve(differs, "train/epochs") == {4: pytest.approx(4 * 0.05)}


def test_params_are_the_axes_and_what_was_used(meters):
    found = logged(meters)
    assert found["Nord-head-fedopt-sgd-fedyogi-2"].name == "Nord-head sgd+yogi s2"
    assert len({run.name for run in found.values()}) == len(found), "names tell seeds apart"
    shared, alone = (found[f"Ost-{s}-fedopt-sgd-fedavgm-1"].params for s in ("head", "alone"))
    axes = [shared[key] for key in ("state", "sharing", "client_opt", "server_opt", "seed")]
    assert axes == ["Ost", "head", "sgd", "fedavgm", "1"]
    # Rates are those that the cell was trained with, which tuning has chosen.
    assert (shared["lr"], shared["server_lr"], shared["rounds"]) == ("0.002", "0.3", "7")
    assert (shared["trials"], "hyperparameters" in shared) == ("1", False)
    # Nothing is shared, so no server took part.
    assert "server_lr" not in alone
    assert (alone["method"], alone["server_opt"]) == ("none", "none")


def test_curves_are_means_over_clients(longer):
    run = logged(longer)["CA-P2-fedopt-adam-fedavg-10"]
    for split, section in (("validation", "val"), ("test", "test")):
        for model in ("local", "global"):
            kept = {"sharing": "P2", "split": split, "model": model}
            records = Tables(longer).records(["round", "mase"], **kept)
            expected = records.groupby("round")["mase"].mean().to_dict()
            assert curve(run, f"{section}/mase_{model}") == pytest.approx(expected, abs=5e-5)


def test_traffic_is_summed_over_clients_and_rounds(longer):
    found = logged(longer)
    points = {split: found[f"CA-{split}-fedopt-adam-fedavg-10"] for split in ("P2", "P3")}
    a_round = 2 * 14_000 / 1e6  # two clients, 3,500 parameters of four bytes
    assert curve(points["P2"], "traffic/mb_up") == pytest.approx(
        dict.fromkeys([1, 2, 3, 4], a_round)
    )
    assert curve(points["P2"], "traffic/total_mb") == pytest.approx({4: 2 * 4 * a_round})
    assert curve(points["P3"], "traffic/total_mb") == {4: 0}
    assert curve(points["P2"], "traffic/staleness") == {4: 0}
    assert not [key for key, _, _ in points["P2"].points if key.startswith("time/")]


def test_simulated_time_and_the_price_of_the_target_are_told(tmp_path):
    grid = METHODS["grid"] | {"method": ["fedopt", "ifca"]}
    fake_results.write(tmp_path, METHODS | {"grid": grid})
    summary = pd.read_csv(tmp_path / "summary.csv").query("state == 'CA' and chosen == 'last'")
    rows = summary.query("method == 'ifca' and sharing == 'P1'").set_index("model")
    run = logged(tmp_path)["CA-P1-ifca-sgd-fedavg-10"]
    for key, column, unit in (
        ("time/seconds", "seconds", 1),
        ("time/waiting", "waiting", 1),
        ("target/rounds_local", "rounds_to_target", 1),
        ("target/mb_local", "bytes_to_target", 1e6),
        ("target/seconds_local", "seconds_to_target", 1),
    ):
        expected = {} if pd.isna(rows.loc["local", column]) else {4: rows.loc["local", column]}
        found = {t: unit * value for t, value in curve(run, key).items()}
        assert found == pytest.approx(expected, rel=1e-3), key
    assert rows["seconds"].gt(0).all()


def test_scores_are_those_of_the_summary_at_their_rounds(longer):
    run = logged(longer)["CA-P1-fedopt-adam-fedavg-10"]
    summary = Tables(longer).summary.query("sharing == 'P1' and model == 'global'")
    for chosen, section in (("last", "test_last"), ("best_validation", "test_best")):
        row = summary[summary["chosen"] == chosen].iloc[0]
        for column, score in (("mase_median", "mase_median"), ("rmse_mean", "rmse")):
            expected = {int(row["round"]): row[column]}
            assert curve(run, f"{section}/{score}_global") == pytest.approx(expected, abs=5e-5)


def test_a_cell_of_which_one_client_diverged_keeps_what_is_finite(tmp_path):
    fake_results.write(tmp_path, LONGER)
    records = pd.read_parquet(tmp_path / "records.parquet")
    bad = (records["client"] == "ca100") & (records["round"] > 2) & (records["split"] != "train")
    records.loc[bad, ["mae", "mase"]] = np.nan
    records.to_parquet(tmp_path / "records.parquet")
    found = logged(tmp_path)
    run = found["CA-P1-fedopt-adam-fedavg-10"]
    assert run.diverged_round == 3
    assert "Diverged in round 3" in run.note
    assert sorted(curve(run, "val/mase_global")) == sorted(curve(run, "test/mase_local")) == [1, 2]
    # Nor has `naive_weeks` a validation score: its four weeks do not fit before.
    assert all(np.isfinite(value) for one in found.values() for _, _, value in one.points)
    second = Tables(tmp_path).records(
        ["client", "mase"], sharing="P1", round=2, split="test", model="local"
    )
    assert run.clients["mase_local"].tolist() == pytest.approx(second["mase"].tolist(), abs=5e-5)


def test_a_cell_that_never_was_finite_is_still_a_run(tmp_path):
    fake_results.write(tmp_path, TINY, lambda *_: np.nan)
    run = logged(tmp_path)["CA-P1-fedopt-adam-fedavg-10"]
    assert run.diverged_round == 1
    assert run.clients["client"].tolist() == ["ca100", "ca137"]
    assert run.clients["mase_local"].isna().all()
