"""Training cells: what is recorded, and that company, order and names change nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl import methods
from plfl.base.errors import DataError
from plfl.baselines.features import raw_bytes
from plfl.data.dataset import Dataset
from plfl.data.examples import on_one_table
from plfl.experiments import train as experiment
from plfl.experiments.train import train
from plfl.experiments.training_setup import network_of
from plfl.experiments.workload import workload
from plfl.report import reporting
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.interruption import check_resumes
from tests.helpers.refusals import naming

DATASET = tiny.dataset()


def records(study: Study, *names: str, dataset: Dataset = DATASET) -> list[pd.DataFrame]:
    cells = [tiny.cell(name, study) for name in names]
    trained = train(study, cells, dataset)
    return [trained[cell].records for cell in cells]


def test_what_is_recorded() -> None:
    (table,) = records(tiny.study(), "XX-P2-fedopt-adam-fedyogi-10")
    trained = table[table["split"] == "train"]
    assert trained.groupby(["model", "round", "client"]).size().to_dict() == {
        (m, t, c): 1 for m in ("local", "global") for t in (1, 2, 3) for c in "abc"
    }
    assert trained["loss"].gt(0).all()
    assert set(trained["steps"]) == {4}
    # 305 training windows; a step sees eight of them.
    np.testing.assert_allclose(trained["epochs"], 4 * 8 / 305)
    scored = table[table["split"] != "train"]
    # Evaluated every second round and at the last.
    assert set(scored["round"]) == {2, 3}
    counts = scored.groupby(["round", "client", "split", "model"]).size()
    assert len(counts) == 2 * 3 * 2 * 2
    assert counts.eq(1).all()
    assert np.isfinite(scored[["mae", "rmse", "mase"]]).all(axis=None)


def test_the_best_cell_of_each_scheme_has_its_models() -> None:
    study = tiny.study(grid={"seeds": [1, 2]})
    results = train(study, study.cells, DATASET)
    errors: dict[str, dict[str, float]] = {}
    for cell, result in results.items():
        last = result.records.query("round == 3 and split == 'validation' and model == 'local'")
        scheme_errors = errors.setdefault(cell.sharing, {})
        name = f"{cell.client_opt}-{cell.server_opt}"
        scheme_errors[name] = scheme_errors.get(name, 0.0) + last["mase"].mean()
    kept = {cell: result.models for cell, result in results.items() if result.models}
    # The first of the best, with both seeds: where nothing is shared, others repeat it.
    best = {
        sharing: min(scheme_errors, key=scheme_errors.__getitem__)
        for sharing, scheme_errors in errors.items()
    }
    assert {(c.sharing, f"{c.client_opt}-{c.server_opt}", c.seed) for c in kept} == {
        (sharing, name, seed) for sharing, name in best.items() for seed in (1, 2)
    }
    for cell, models in kept.items():
        assert list(models) == (["local"] if cell.sharing == "P3" else ["local", "global"])
        assert all(rows.dtype == np.float32 and len(rows) == 3 for rows in models.values())


@pytest.mark.parametrize("engine", ["stacked", "fused"])
def test_states_that_train_side_by_side_are_those_alone(tmp_path: Path, engine: str) -> None:
    study = tiny.study(
        data={"states": ["XX", "YY"]},
        grid={"client_opt": ["adam"], "server_opt": ["fedavg"], "method": ["fedopt", "ditto"]}
        | {"sharing": ["P2", "P3"]},
        tuning={"search": {"client_opt.adam.lr": [1e-3, 1e-2]}},
        compute={"engine": engine},
    )
    apart = {"XX": DATASET, "YY": tiny.dataset(clients=4, rows=500)}
    table = on_one_table(apart, tmp_path)
    together = check_resumes(study, table, tmp_path / "checkpoint", 1)
    for state, dataset in apart.items():
        own = [cell for cell in study.cells if cell.state == state]
        for cell, alone in train(study, own, dataset).items():
            found = together[cell]
            for name in ("records", "forecasts", "errors"):
                one, other = getattr(found, name), getattr(alone, name)
                pd.testing.assert_frame_equal(one, other, check_exact=True)
            assert (alone.models or {}).keys() == (found.models or {}).keys()
            for model, rows in (alone.models or {}).items():
                np.testing.assert_array_equal(rows, (found.models or {})[model])


@pytest.mark.parametrize("state", ["reset", "keep"])
def test_schemes_that_train_side_by_side_are_those_alone(state: str) -> None:
    study = tiny.study(grid={"server_opt": ["fedavg"]}, federation={"opt_state": state})
    names = [f"XX-{s}-fedopt-{opt}-fedavg-10" for opt in ("adam", "prox") for s in ("P1", "P2")]
    together = records(study, *names)
    for name, beside in zip(names, together, strict=True):
        (alone,) = records(study, name)
        pd.testing.assert_frame_equal(beside, alone, check_exact=True)


def test_local_training_is_trained_once_for_all_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    federations: list[int] = []
    run = experiment.run_rounds

    def counting(some: list[Any], *rest: Any) -> None:
        federations.append(len(some))
        run(some, *rest)

    monkeypatch.setattr(experiment, "run_rounds", counting)
    study = tiny.study()
    names = [str(cell) for cell in study.cells if cell.sharing == "P3"]
    found = dict(zip(names, records(study, *names), strict=True))
    assert federations == [2]
    avg, yogi = (found[f"XX-P3-fedopt-adam-{server}-10"] for server in ("fedavg", "fedyogi"))
    assert set(yogi["server_opt"]) == {"fedyogi"}
    cell = ["sharing", "client_opt", "server_opt"]
    pd.testing.assert_frame_equal(avg.drop(columns=cell), yogi.drop(columns=cell))
    local, both = (model_rows(avg, model).drop(columns="model") for model in ("local", "global"))
    pd.testing.assert_frame_equal(local, both)


def recipe(model: dict[str, Any] | None = None, **federation: Any) -> Study:
    """A study of few cells with rates at which the models soon change for the worse."""
    return tiny.study(
        model=model or {},
        grid={"client_opt": ["adam"], "server_opt": ["fedavg"]},
        client_opt={"adam": {"lr": 0.1}},
        federation={"rounds": 6, "evaluate_every": 1, **federation},
    )


def model_rows(table: pd.DataFrame, model: str) -> pd.DataFrame:
    return table[table["model"] == model].reset_index(drop=True)


@pytest.mark.parametrize("sharing", ["P1", "P2", "P3"])
def test_an_average_is_scored_and_changes_nothing_else(sharing: str) -> None:
    name = f"XX-{sharing}-fedopt-adam-fedavg-10"
    (plain,), (averaged,) = records(recipe(), name), records(recipe(ema=0.9), name)
    training = plain["split"] == "train"
    pd.testing.assert_frame_equal(plain[training], averaged[training])
    theirs, ours = model_rows(plain, "global"), model_rows(averaged, "global")
    if sharing != "P3":
        pd.testing.assert_frame_equal(theirs, ours)
    theirs, ours = model_rows(plain, "local"), model_rows(averaged, "local")
    scores = ["mae", "rmse", "mase", "nrmse", "wape", "seasonal_mase"]
    pd.testing.assert_frame_equal(theirs.drop(columns=scores), ours.drop(columns=scores))
    scored = theirs["split"] != "train"
    assert (theirs["mae"] != ours["mae"])[scored].all()


@pytest.mark.parametrize(
    ("model", "ema"), [({}, None), ({"name": "mlp", "hidden": [4]}, 0.9)], ids=["lstm_mlp", "mlp"]
)
def test_the_best_model_of_each_client_is_scored_in_the_last_round(model, ema):
    name = "XX-P2-fedopt-adam-fedavg-10"
    last, best = recipe(model, ema=ema), recipe(model, ema=ema, keep="best")
    (usual,), (kept,) = records(last, name), records(best, name)
    before = usual["round"] < 6
    pd.testing.assert_frame_equal(usual[before], kept[before])
    pd.testing.assert_frame_equal(model_rows(usual, "global"), model_rows(kept, "global"))
    local = usual[(usual["model"] == "local") & (usual["split"] != "train")]
    found = kept[(kept["model"] == "local") & (kept["split"] != "train") & (kept["round"] == 6)]
    rounds = []
    for client, scores in local.groupby("client"):
        validation = scores[scores["split"] == "validation"]
        t = int(validation.loc[validation["mase"].idxmin(), "round"])
        rounds.append(t)
        for split in ("validation", "test"):
            wanted = scores[(scores["split"] == split) & (scores["round"] == t)]
            got = found[(found["split"] == split) & (found["client"] == client)]
            columns = ["mae", "rmse", "mase"]
            assert got[columns].to_numpy().tolist() == wanted[columns].to_numpy().tolist()
    assert min(rounds) < 6
    # The week that is shown is forecast by the same models.
    weeks = [
        train(study, [tiny.cell(name, study)], DATASET)[tiny.cell(name, study)].forecasts
        for study in (last, best)
    ]
    pd.testing.assert_series_equal(weeks[0]["global"], weeks[1]["global"])
    assert not weeks[0]["local"].equals(weeks[1]["local"])


def test_a_client_without_a_finite_score_keeps_its_last_model() -> None:
    diverges = tiny.study(
        grid={"client_opt": ["sgd"], "server_opt": ["fedavg"], "sharing": ["P3"]},
        client_opt={"sgd": {"lr": 1e12}},
        federation={"keep": "best"},
        model={"output": "linear"},
    )
    (table,) = records(diverges, "XX-P3-fedopt-sgd-fedavg-10")
    tested = table[table["split"] == "test"]
    assert not np.isfinite(tested["mae"]).any()
    told = reporting.reporting_of(diverges).sentence(diverges, diverges.cells[0], table)
    assert f"round {tested['round'].min()} " in told and "nan" not in told


@pytest.mark.parametrize(
    "method", sorted(n for n, m in methods.available().items() if not (m.only_task or m.only_model))
)
def test_no_method_stumbles_over_clients_that_diverge(method: str) -> None:
    grid = {"client_opt": ["sgdm" if method == "fedadc_dm" else "sgd"], "sharing": ["P1", "P2"]}
    diverging = {"sgd": {"lr": 1e30}, "sgdm": {"lr": 1e30, "momentum": 0.5, "dampening": 0.5}}
    always = {"join": 1, "max_delay": 0} if method.startswith("cc_") else {}
    study = tiny.study_of_method(method, grid=grid, client_opt=diverging, method=always)
    (table,) = records(study, str(study.cells[0]))
    trained = table[table["split"] == "train"]
    assert set(trained["round"]) == {1, 2, 3}
    # FedBABU trains the LSTM alone, whose outputs have bounds.
    assert np.isinf(trained["loss"]).any() or method == "fedbabu"


def test_what_clients_exchange_before_round_1_is_counted() -> None:
    """All three clients of one_shot train and send once, though two take part in round 1."""
    study = tiny.study(
        grid={"method": ["one_shot"], "client_opt": ["sgd"], "server_opt": ["fedavg"]},
        method={"one_shot": {"alone": 1}},
        federation={"participation": 0.67, "simulation": {"step_seconds": 1.0}},
    )
    (table,) = records(study, "XX-P1-one_shot-sgd-fedavg-10")
    trained = table[(table["split"] == "train") & (table["model"] == "local")]
    first = trained[trained["round"] == 1].set_index("client")
    (absent,) = first.index[first["loss"].isna()]
    message = 4 * network_of(study, DATASET.shape).layout.width
    sent = {client: (1 + (client != absent)) * message for client in "abc"}
    assert first["bytes_up"].to_dict() == first["bytes_down"].to_dict() == sent
    assert set(trained.groupby("round").size()) == {2, 3}
    # Four local steps before round 1, four in it.
    assert first["seconds"].to_dict() == {c: 4 if c == absent else 8 for c in "abc"}
    assert set(first["round_seconds"]) == {8}


def test_fewer_windows_than_a_minibatch_are_refused() -> None:
    study = tiny.study(federation={"batch_size": 999})
    with naming(DataError, "client a", "305 training windows", "federation.batch_size 999"):
        records(study, "XX-P1-fedopt-adam-fedavg-10")


def test_evaluated_rows_name_the_cluster_of_methods_that_have_clusters() -> None:
    methods = ["one_shot", "ifca", "fedcluster"]
    grid = {"method": ["fedopt", *methods], "client_opt": ["sgd"], "server_opt": ["fedavg"]}
    study = tiny.study(
        grid=grid | {"sharing": ["P1", "P3"]},
        method={method: {"clusters": 2} for method in methods},
    )
    for cell, result in train(study, study.cells, DATASET).items():
        records = result.records
        if cell.method == "fedopt" or cell.sharing == "P3":
            assert "cluster" not in records
            continue
        assert records.loc[records["split"] == "train", "cluster"].isna().all()
        evaluated = records[records["split"] != "train"]
        assert set(evaluated["cluster"]) <= {0, 1}
        assert evaluated.groupby(["round", "client"])["cluster"].nunique().eq(1).all()
        if cell.method == "fedcluster":
            assert set(evaluated["cluster"]) == {0, 1}


TUNING: dict[str, Any] = {
    "search": {"client_opt.*.lr": [1e-2, 3e-2], "server_opt.*.lr": [0.1, 0.3]},
    "alone": {"client_opt.*.lr": [1e-3, 3e-3, 1e-2, 3e-2]},
}
COMBINATIONS = [(1e-2, 0.1), (1e-2, 0.3), (3e-2, 0.1), (3e-2, 0.3)]


def single(rates: tuple[float, float], seeds: list[int], every: int = 2) -> pd.DataFrame:
    """Records of P1 with fixed rates, of all seeds."""
    study = tiny.study(
        grid={"seeds": seeds},
        federation={"evaluate_every": every},
        client_opt={"adam": {"lr": rates[0]}},
        server_opt={"fedavg": {"lr": rates[1]}},
    )
    names = [f"XX-P1-fedopt-adam-fedavg-{seed}" for seed in seeds]
    return pd.concat(records(study, *names)).assign(rates=str(rates))


def validation(table: pd.DataFrame, model: str, t: int = 3) -> float:
    """Validation MASE after a round, mean over clients and seeds."""
    last = table[(table["round"] == t) & (table["split"] == "validation")]
    return float(last[last["model"] == model]["mase"].mean())


def test_each_model_has_the_candidate_that_its_validation_chose_over_all_seeds() -> None:
    """One choice per cell, not per seed, and the global models' own one."""
    seeds = list(range(3))
    study = tiny.study(tuning=TUNING, grid={"seeds": seeds})
    cells = [tiny.cell(f"XX-P1-fedopt-adam-fedavg-{seed}", study) for seed in seeds]
    found = train(study, cells, DATASET)
    tables = [single(rates, seeds) for rates in COMBINATIONS]
    given = ["hyperparameters", "trials", "trial_steps", "rates"]
    for model in ("local", "global"):
        best = min(tables, key=lambda table: validation(table, model))
        for cell, result in found.items():
            ours, expected = (
                table[(table["model"] == model) & (table["seed"] == cell.seed)]
                .drop(columns=given, errors="ignore")
                .reset_index(drop=True)
                for table in (result.records, best)
            )
            pd.testing.assert_frame_equal(ours, expected)
    # Choosing seed by seed would have chosen otherwise, or the test would tell nothing.
    by_seed = {
        min(
            (table[table["seed"] == seed] for table in tables),
            key=lambda table: validation(table, "local"),
        )["rates"].iloc[0]
        for seed in seeds
    }
    assert len(by_seed) > 1
    both = found[cells[0]].records
    assert both.groupby("model")["hyperparameters"].nunique().eq(1).all()
    assert both["hyperparameters"].nunique() == 2


def test_every_cell_has_as_many_trials_and_their_steps_are_counted() -> None:
    study = tiny.study(tuning=TUNING, grid={"client_opt": ["adam"], "server_opt": ["fedavg"]})
    for result in train(study, study.cells, DATASET).values():
        assert set(result.records["trials"]) == {4}
        # Trials × rounds × clients × steps.
        assert set(result.records["trial_steps"]) == {4 * 3 * 3 * 4}
    assert workload(study)["client_steps"].tolist() == [4 * 3 * 3 * 4] * 3


def test_steps_of_the_members_whose_models_others_receive_are_counted() -> None:
    schemes = {"new": {"join": "unseen", "turns": 3}, "raw": {"join": "raw"}}
    grid = {"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["new", "raw"]}
    windows, federation = {"scaling": "per_client"}, {"rounds": 2}
    study = tiny.study(sharing=schemes, grid=grid, windows=windows, federation=federation)
    results = train(study, study.cells, DATASET)
    # Three groups, of which each is left out of two rounds of 4 steps of two clients, and one
    # client that takes the steps of all three.
    expected = {"new": 3 * 2 * 2 * 4, "raw": 2 * 3 * 4}
    for cell, result in results.items():
        assert set(result.records["trial_steps"]) == {expected[cell.sharing]}
        assert set(result.records["split"]) == {"train", "validation", "test"}
        assert not (result.records["client"] == "").any()


def test_what_joining_clients_exchange_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = {"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["raw"]}
    schemes, federation = {"raw": {"join": "raw"}}, {"evaluate_every": 1}
    windows = {"scaling": "per_client"}
    study = tiny.study(sharing=schemes, grid=grid, windows=windows, federation=federation)
    counted: list[Dataset] = []

    def count(dataset: Dataset) -> list[int]:
        counted.append(dataset)
        return raw_bytes(dataset)

    monkeypatch.setattr("plfl.experiments.folds.raw_bytes", count)
    ((_, result),) = train(study, study.cells, DATASET).items()
    scored = result.records[result.records["split"] == "test"]
    assert len(counted) == 1 and scored["round"].nunique() == 3
    assert (scored["bytes_up"] == max(raw_bytes(DATASET))).all()
