"""The rows of summary.csv of what is in use, against means that are taken by hand."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from plfl.base.spreadsheets import write_csv
from plfl.config.baselines import BASELINE
from plfl.publish.tracking import runs
from plfl.results import words
from plfl.results.assignment import Assignment, assign
from plfl.results.collect import with_baselines
from plfl.results.contenders import contender_of
from plfl.results.contest import Contest
from plfl.results.in_use import read_use, summarise_use
from plfl.results.overview import best_cells
from plfl.results.scores import select
from plfl.results.selection import contenders_in_use
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.study.forecaster_names import IN_USE, IN_USE_ALONE
from tests.helpers import fake_results


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """A study whose summary has the rows of what is in use."""
    folder = tmp_path_factory.mktemp("small")
    tables = fake_results.write(folder, fake_results.SMALL)
    rows = summarise_use(Variant("", {}, tables))
    summary = pd.read_csv(folder / "summary.csv")
    write_csv(with_baselines(summary, rows), folder / "summary.csv")
    return Tables(folder)


def test_the_row_has_the_means_of_what_each_client_is_assigned(tables: Tables) -> None:
    rows = read_use(tables).query("sharing == @IN_USE").set_index("state")
    assert rows.index.tolist() == tables.study.data.states
    last = tables.study.federation.rounds
    for state, row in rows.iterrows():
        errors = []
        for client, assignment in assign(tables, str(state)).items():
            name = assignment.forecaster
            if name in tables.study.grid.sharing:
                cell = tables.best("local", state=state, sharing=name)
                assert cell is not None
                equal = {"sharing": name, "client_opt": cell.client_opt, "split": "test"}
                equal |= {"server_opt": cell.server_opt, "model": "local"}
                scores = tables.records(["mase"], client=client, round=last, **equal)
            else:
                scores = tables.baselines.query(
                    "client == @client and baseline == @name and split == 'test'"
                )
            errors.append(scores["mase"].mean())
            assert name in row["method"] or "other" in row["method"]
        assert row["mase_mean"] == pytest.approx(sum(errors) / len(errors))


def test_bytes_are_counted_by_direction(tables: Tables) -> None:
    variant = Variant("", {}, tables)
    for sharing in ("P1", IN_USE):
        for forecaster in select(variant.scores["local"]["CA"], sharing=sharing):
            contender = contender_of(variant, forecaster)
            total = {"bytes_down": 0.0, "bytes_up": 0.0}
            for member, _ in (
                contender.contenders_with_clients if sharing == IN_USE else [(contender, [])]
            ):
                name = member.forecaster.combination._asdict()
                if member.forecaster.is_baseline:
                    total["bytes_up"] += tables.baseline_scores["bytes"]["CA", name["method"]]
                    continue
                trainings = tables.summary.query("state == 'CA' and model == 'local'")
                for axis, value in name.items():
                    trainings = trainings[trainings[axis] == value]
                for direction in total:
                    total[direction] += trainings[direction].mean()
            counted = {"bytes_down": contender.bytes_down, "bytes_up": contender.bytes_up}
            assert counted == pytest.approx(total)
            assert contender.bytes_down > 0 or sharing == IN_USE


@pytest.fixture
def mixed(tmp_path: Path) -> Variant:
    """A study of four clients, of which one uses federated trees, and the others a combination
    with these; without a federation it would be another one."""
    trees = {"name": "lightgbm_federated", "secure": True}
    mean = {"name": "combined_received", "of": ["ridge", "lightgbm_federated"]}
    blocks: dict[str, Any] = fake_results.TINY | {
        "data": {"source": "sample", "states": ["CA"], "clients": 4},
        "baselines": {"further": [trees, mean]},
    }
    errors = {"combined_received": 0.3, "lightgbm_federated": 0.4}
    tables = fake_results.write(tmp_path, blocks, baseline=lambda name: errors.get(name, 2.0))
    variant = Variant("", {}, tables)
    chosen = ["combined_received"] * 3 + ["lightgbm_federated"]
    vars(variant)["assignments"] = {
        (name, "CA"): {
            str(client): Assignment(baseline, (BASELINE, baseline, "none", "none"), 0.3, "")
            for client, baseline in zip(tables.clients["client"], names, strict=True)
        }
        for name, names in ((IN_USE, chosen), (IN_USE_ALONE, [chosen[0], *reversed(chosen[1:])]))
    }
    return variant


def test_messages_that_two_forecasters_in_use_need_are_sent_once(mixed: Variant) -> None:
    use, _ = contenders_in_use(mixed, "CA")
    sent = mixed.tables.baseline_scores["bytes"]["CA"]
    assert len(use.contenders_with_clients) == 2
    assert sent["combined_received"] == sent["lightgbm_federated"] == use.bytes_up > 0


def test_two_uses_with_one_label_are_two_rows(mixed: Variant) -> None:
    assert len({use.label for use in contenders_in_use(mixed, "CA")}) == 1
    assert summarise_use(mixed)["sharing"].tolist() == [IN_USE, IN_USE_ALONE]
    best = best_cells(mixed)
    assert best.loc[best["model"].isin([IN_USE, IN_USE_ALONE])].shape[0] == 2


def test_bytes_that_differ_between_seeds_are_rounded(tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.METERS, lambda *_: 0.1)
    summary = pd.read_csv(tmp_path / "summary.csv")
    trained = summary["sharing"] == "head"
    summary.loc[trained, "bytes_up"] += summary.loc[trained, "seed"] == 1  # odd sums of two seeds
    write_csv(summary, tmp_path / "summary.csv")
    variant = Variant("", {}, Tables(tmp_path))
    rows = summarise_use(variant)
    in_use = rows[rows["sharing"] == IN_USE]
    assert in_use["method"].str.contains("head").any()
    use = select(variant.scores["local"][str(in_use["state"].iloc[0])], sharing=IN_USE)
    assert contender_of(variant, use[0]).bytes_up % 1 == 0.5
    table = with_baselines(summary, rows)
    assert table["bytes_up"].dtype == "Int64" and table["bytes_up"].notna().all()


def test_cells_are_read_without_it(tables: Tables) -> None:
    assert not read_use(tables).empty
    assert {*tables.summary["sharing"]} == {*tables.study.grid.sharing}


def test_mlflow_has_a_run_of_it_after_those_of_cells(tables: Tables) -> None:
    run_of = {run.name: run for run in runs(tables)}
    last_state = tables.study.data.states[-1]
    order = [run.params["sharing"] for run in run_of.values() if run.params["state"] == last_state]
    assert order[0] == "baseline" and order[-1].startswith("in use")
    assert order.index("P1") > order.count("baseline") - 1
    for state in tables.study.data.states:
        run = run_of[f"{state}-in use"]
        row = read_use(tables).query("state == @state and sharing == 'in use'").iloc[0]
        values = {key: value for key, _, value in run.points}
        assert values["test_last/mase_mean_local"] == row["mase_mean"]
        assert run.params["method"] == row["method"]


def test_forecasters_that_differ_from_time_to_time_are_named_by_how_often() -> None:
    labels = ["combination"] * 3 + ["LightGBM, bagged"] * 2
    assert words.word_mixture(labels, "meter") == (
        "combination for 3 of 5 meters, for 2 LightGBM, bagged"
    )
    assert words.word_mixture([*labels, "ridge"], "meter").endswith("bagged, for 1 other")
    assert words.usual_forecaster(labels[:3]) == "combination"
    assert words.usual_forecaster(labels) == "mostly combination, sometimes LightGBM, bagged"
    more_labels = [*labels, "ridge", "P1"]
    assert words.usual_forecaster(more_labels) == (
        "combination, sometimes LightGBM, bagged or 2 others"
    )


def test_a_side_in_use_counts_clients_of_all_times() -> None:
    times: list[Any] = [
        SimpleNamespace(label="P1", labels=["P1"] * 3, is_mixture=True),
        SimpleNamespace(label="ridge", labels=["ridge"] * 3, is_mixture=True),
        SimpleNamespace(label="P1 for 2", labels=["P1", "P1", "ridge"], is_mixture=True),
    ]
    contest = Contest([(side, side) for side in times], ([], []))
    assert contest.label(0) == "mostly P1, sometimes ridge"
    assert Contest(contest.pairs[:1] * 2, ([], [])).label(1) == "P1"
