"""What is chosen within the history, and who trains for whom, against trainings done by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from plfl import train
from plfl.base.errors import ConfigError
from plfl.config.windows import Windows
from plfl.data.dataset import Dataset
from plfl.data.sources import build_dataset
from plfl.experiments.training_setup import TrainingSetup
from plfl.experiments.workload import workload
from plfl.results import words
from plfl.results.records import CellResult
from plfl.study import Cell, Study
from plfl.study.forecaster_names import FEDERATION, ForecasterName
from tests.helpers import tiny
from tests.helpers.refusals import naming

ORIGIN = {"data": {"origins": ["2018-02-05"]}}
ONE = {"client_opt": ["adam"], "server_opt": ["fedavg"], "seeds": [1, 2]}
STEPS = {"rounds": 6, "local_steps": 5, "batch_size": 8, "evaluate_every": 1}
SCHEMES = {"P1": ["*"], "P3": [], "unseen": {"join": "unseen", "turns": 2}, "raw": {"join": "raw"}}


def study(**blocks: Any) -> Study:
    raw: dict[str, Any] = {
        "windows": {"history": 2, "scaling": "per_client", "look_back": 4, "look_ahead": 1},
        "federation": STEPS,
        "sharing": SCHEMES,
    }
    for name, block in blocks.items():
        raw[name] = {**raw.get(name, {}), **block}
    raw["data"] = {
        "source": "meters",
        "clients": 4,
        "features": ["load"],
        "meters": {"interval": 60},
    } | raw.get("data", ORIGIN["data"])
    raw["grid"] = ONE | raw.get("grid", {})
    return tiny.study(**raw)


def tables() -> dict[str, pd.DataFrame]:
    random = np.random.default_rng(2)
    hours = pd.date_range("2018-01-01 01:00", periods=24 * 70, freq="h")
    day = np.sin(np.arange(len(hours)) * 2 * np.pi / 24)
    loads = {n: 3 + k + (1 + k) * day + random.random(len(hours)) for k, n in enumerate("abcd")}
    return {name: pd.DataFrame({"load": load}, hours) for name, load in loads.items()}


def trained(of: Study) -> tuple[Dataset, dict[Cell, CellResult]]:
    data = build_dataset(of, tables())
    return data, train(of, of.cells, data)


def last(result: CellResult, split: str, model: str = "local") -> dict[str, float]:
    table = result.records
    rows = table[(table["split"] == split) & (table["model"] == model) & (table["round"] == 6)]
    return rows.set_index("client")["mase"].to_dict()


def plain(
    of: Study, data: Dataset, rounds: int, seeds: list[int], sharing: str
) -> list[CellResult]:
    """The same study trained on given sets, with nothing chosen."""
    settings = of.federation.model_copy(update={"rounds": rounds})
    fixed = of.windows.model_copy(update={"history": None, "split": Windows().split})
    grid = of.grid.model_copy(update={"sharing": [sharing], "seeds": seeds})
    uncut = of.data.model_copy(update={"origins": [], "federations": None})
    alike = of.model_copy(
        update={
            "federation": settings,
            "windows": fixed,
            "grid": grid,
            "data": uncut,
            "tuning": Study().tuning,
        }
    )
    return list(train(alike, alike.cells, data).values())


@pytest.mark.parametrize(("data", "begins"), [(ORIGIN["data"], "2018-01-22"), ({}, "2018-02-19")])
def test_personalisation_is_chosen_without_weeks_that_a_short_history_does_not_have(data, begins):
    own_study = study(
        data=data,
        grid={
            "method": ["fine_tuning", "ditto", "apfl", "knn_per"],
            "sharing": ["P1"],
            "seeds": [1],
        },
        federation=STEPS | {"rounds": 2},
        tuning={"search": {"client_opt.adam.lr": [0.001, 0.1], "federation.rounds": [1, 2]}},
    )
    found = []
    for factor in (1, 5):
        readings = tables()
        for table in readings.values():
            table.loc[table.index < begins, "load"] **= factor
        results = train(own_study, own_study.cells, build_dataset(own_study, readings))
        found.append(pd.concat([result.records for result in results.values()]))
    columns = ["split", "model", "client", "method", "loss", "mase", "hyperparameters"]
    pd.testing.assert_frame_equal(*(table[columns] for table in found))
    assert set(found[0]["trials"]) == {4}


@pytest.mark.parametrize("sharing", ["P1", "P3"])
def test_rounds_are_chosen_at_the_end_of_the_history_and_trained_again_on_all_of_it(sharing):
    rounds = [1, 3, 6]
    own_study = study(grid={"sharing": [sharing]}, tuning={"search": {"federation.rounds": rounds}})
    data, results = trained(own_study)
    errors = []
    for n in rounds:
        both = plain(own_study, data, n, [1, 2], sharing)
        scored = [
            r.records[(r.records["round"] == n) & (r.records["model"] == "local")] for r in both
        ]
        errors.append(np.mean([t[t["split"] == "validation"]["mase"].mean() for t in scored]))
    best = rounds[int(np.argmin(errors))]
    again = plain(own_study, data.refit(), best, [1, 2], sharing)
    for found, wanted in zip(results.values(), again, strict=True):
        table = wanted.records
        test = table[
            (table["split"] == "test") & (table["model"] == "local") & (table["round"] == best)
        ]
        assert last(found, "test") == test.set_index("client")["mase"].to_dict()
        local = found.records[found.records["model"] == "local"]
        assert set(local["hyperparameters"]) == {f"federation.rounds={best}"}
        assert local.loc[local["split"] == "train", "round"].max() == best
    mean = np.mean([list(last(r, "validation").values()) for r in results.values()])
    assert mean == pytest.approx(min(errors), rel=1e-12)


def test_without_a_validation_set_the_choice_is_made_in_the_training_set() -> None:
    """Rates are chosen on its last fifth; the chosen one trains on all of it."""
    rates = [0.001, 0.01, 0.1]
    windows = {"history": None, "split": [0.8, 0, 0.2]}
    own_study = study(
        data={"origins": []},
        windows=windows,
        grid={"sharing": ["P1"]},
        tuning={"search": {"client_opt.adam.lr": rates}},
    )
    data, results = trained(own_study)
    assert data.view.bounds[0].tolist() == [0, 1344 - 268, 1344, 1680]
    errors = {}
    for rate in rates:
        fixed = study(
            data={"origins": []},
            windows=windows,
            grid={"sharing": ["P1"]},
            client_opt={"adam": {"lr": rate}},
        )
        both = plain(fixed, data, 6, [1, 2], "P1")
        errors[rate] = np.mean([[*last(result, "validation").values()] for result in both])
        if rate == min(errors, key=lambda tried: errors[tried]):
            again = plain(fixed, data.refit(), 6, [1, 2], "P1")
    best = min(errors, key=lambda tried: errors[tried])
    for found, wanted in zip(results.values(), again, strict=True):
        assert set(found.records["lr"]) >= {best}
        assert last(found, "test") == last(wanted, "test")


@pytest.mark.parametrize(
    ("every", "tried", "scored"), [(2, [], {2, 4, 6}), (None, [3, 6], {3, 6}), (2, [5], {2, 4, 6})]
)
def test_the_validation_curve_of_the_choice_is_kept(every, tried, scored):
    """`evaluate_every` holds within the history, too. Test scores are of the last round alone."""
    own_study = study(
        grid={"sharing": ["P1"], "seeds": [1]},
        federation=STEPS | {"rounds": 6, "evaluate_every": every},
        tuning={"search": {"federation.rounds": tried}} if tried else {},
    )
    data, results = trained(own_study)
    (table,) = (result.records for result in results.values())
    trained_for = int(table.loc[table["split"] == "train", "round"].max())
    expected = {t for t in scored if t < trained_for} | {6}
    validation = table[table["split"] == "validation"]
    assert set(validation["round"]) == expected
    assert set(table.loc[table["split"] == "test", "round"]) == {6}
    if trained_for > 2 and every:
        (short,) = plain(own_study, data, 2, [1], "P1")
        errors = [
            t[(t["split"] == "validation") & (t["round"] == 2)] for t in (table, short.records)
        ]
        assert errors[0]["mase"].tolist() == errors[1]["mase"].tolist()


def test_a_late_client_uses_the_model_of_others_who_know_more() -> None:
    own_study = study(grid={"sharing": ["unseen"], "seeds": [1]})
    data, results = trained(own_study)
    (found,) = results.values()
    whole = data.with_view("whole").refit()
    for unseen in ([0, 2], [1, 3]):
        others = np.setdiff1d(np.arange(4), unseen)
        p1 = study(grid={"sharing": ["P1"], "seeds": [1]})
        (members,) = plain(p1, whole.select(others), 6, [1], "P1")
        assert members.models is not None
        evaluator = TrainingSetup.for_study(own_study, data.refit()).evaluator
        row = members.models["global"][:1].repeat(4, axis=0)
        scores = evaluator.score_models(torch.from_numpy(row), None).scores
        wanted = scores[scores["split"] == "test"].set_index("client")["mase"]
        for name in data.clients[unseen].tolist():
            assert last(found, "test")[name] == pytest.approx(wanted[name], rel=1e-5)
    assert last(found, "test") == last(found, "test", "global")
    own = found.records[(found.records["split"] == "train") & (found.records["model"] == "local")]
    assert own["client"].tolist() == ["a", "c", "b", "d"]
    assert found.models is not None
    assert set(own["bytes_down"]) == {4 * found.models["global"].shape[1]}
    assert not own["bytes_up"].any()


@pytest.mark.parametrize("data", [{"origins": []}, ORIGIN["data"]])
def test_a_new_client_knows_its_last_weeks_and_receives_what_the_others_trained(data) -> None:
    """With an origin, the others train twice: at last on all readings before it."""
    schemes = {"P1": ["*"], "new": {"join": "unseen", "turns": 2, "history": 1}}
    own_study = study(
        data=data,
        windows={"history": None},
        sharing=schemes,
        grid={"sharing": ["P1", "new"], "seeds": [1]},
    )
    dataset, results = trained(own_study)
    short = study(data=data, windows={"history": 1}, grid={"sharing": ["P1"]})
    week = build_dataset(short, tables())
    found = next(result for cell, result in results.items() if cell.sharing == "new")
    for late, others in (([0, 2], [1, 3]), ([1, 3], [0, 2])):
        members = plain(own_study, dataset.refit().select(np.array(others)), 6, [1], "P1")[0]
        assert members.models is not None
        evaluator = TrainingSetup.for_study(own_study, week).evaluator
        row = members.models["global"][:1].repeat(4, axis=0)
        scores = evaluator.score_models(torch.from_numpy(row), None).scores
        wanted = scores[scores["split"] == "test"].set_index("client")["mase"]
        for name in dataset.clients[late].tolist():
            assert last(found, "test")[name] == pytest.approx(wanted[name], rel=1e-5)
    assert own_study.plan.schemes.for_new == {"new": 1}
    assert own_study.plan.schemes.federated_schemes == ["P1"]
    kinds = [words.find_kind(own_study, ForecasterName(scheme)) for scheme in ("P1", "new")]
    assert kinds == [FEDERATION, ""]
    assert words.describe_shared(own_study, "new") == "a new meter with 1 week of readings"


def test_own_steps_of_late_clients_train_no_second_federation() -> None:
    search = {"federation.rounds": [2, 6], "method.fine_tuning.most_steps": [1, 8]}
    own_study = study(
        grid={"sharing": ["unseen"], "method": ["fine_tuning"], "seeds": [1]},
        method={"fine_tuning": {"epochs": 20}},
        tuning={"search": search},
    )
    _, results = trained(own_study)
    (found,) = results.values()
    assert last(found, "test") != last(found, "test", "global")
    assert set(found.records["trials"]) == {4}


def test_raw_data_train_one_model_for_all() -> None:
    own_study = study(grid={"sharing": ["raw"], "seeds": [1]})
    _, results = trained(own_study)
    (found,) = results.values()
    assert last(found, "test") == last(found, "test", "global")
    own = found.records[(found.records["split"] == "train") & (found.records["model"] == "local")]
    assert own["extras_up"].tolist() == [4 * 2 * 168] * 4
    exchanged = own[["bytes_up", "bytes_down"]].to_numpy().sum()
    assert 1e6 * workload(own_study)["megabytes"].sum() == pytest.approx(exchanged)


def test_federations_of_a_size_do_not_hear_of_each_other() -> None:
    own_study = study(
        data=ORIGIN["data"] | {"federations": 2}, grid={"sharing": ["P1"], "seeds": [1]}
    )
    data, results = trained(own_study)
    (found,) = results.values()
    assert found.models is not None
    for some in data.clients_of_federations():
        alone = plain(own_study, data.refit().select(some), 6, [1], "P1")[0]
        names = data.clients[some].tolist()
        assert alone.models is not None
        np.testing.assert_array_equal(found.models["local"][some], alone.models["local"])
        wanted = alone.records[(alone.records["split"] == "test") & (alone.records["round"] == 6)]
        wanted = wanted[wanted["model"] == "local"].set_index("client")["mase"]
        assert {n: last(found, "test")[n] for n in names} == wanted.to_dict()
    assert len(np.unique(found.models["global"], axis=0)) == 2


def test_what_cannot_be_chosen_within_a_history_is_refused() -> None:
    for blocks, word in (
        ({"federation": STEPS | {"keep": "best"}}, "keep"),
        ({"windows": {"scaling": "pooled"}, "grid": {"sharing": ["unseen"]}}, "scaling"),
        ({"tuning": {"search": {"federation.rounds": [7]}}}, "rounds"),
        ({"task": {"name": "forecast", "conformal": "client"}}, "conformal"),
    ):
        with naming(ConfigError, word):
            study(**({"grid": {"sharing": ["P1"]}} | blocks))
