"""The forecaster that each client is assigned, and the scores of the mixture."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.results.assignment import (
    HALF_DAYS,
    _validation_days,
    assign,
    assignable_forecasters,
    best_kept_cell,
    credible_errors,
    mixture,
)
from plfl.results.scores import scores
from plfl.study import Study
from plfl.study.forecaster_names import IN_USE
from tests.helpers import fake_results


def test_an_own_error_counts_by_the_days_that_it_is_of(tmp_path: Path) -> None:
    tables = fake_results.write(tmp_path, fake_results.METERS)
    for state in tables.study.data.states:
        errors = {}
        for name, axes in assignable_forecasters(tables, state).items():
            if axes[0] == "baseline":
                rows = tables.baselines[tables.baselines["baseline"] == name]
            else:
                equal = dict(zip(["sharing", "method", "client_opt", "server_opt"], axes))  # noqa: B905
                rows = pd.read_parquet(tmp_path / "records.parquet").query("model == 'local'")
                rows = rows[(rows[[*equal]] == pd.Series(equal)).all(axis=1)]
                rows = rows[rows["round"] == 7]
            rows = rows[(rows["state"] == state) & (rows["split"] == "validation")]
            errors[name] = rows.groupby("client")["mase"].mean()
        own = pd.DataFrame(errors)
        days = 35040 * 60 / (24 * 60) * 0.1
        expected = ((days * own + HALF_DAYS * own.mean()) / (days + HALF_DAYS)).idxmin(axis=1)
        found = assign(tables, state)
        common = own.mean().idxmin()
        for client, one in found.items():
            assert one.reason.startswith("least mean") == (one.forecaster == common), client
        expected = expected.to_dict()
        assert {client: one.forecaster for client, one in found.items()} == expected
        assert "lightgbm_pooled" not in errors  # for which readings are sent
        for client, one in found.items():
            assert one.validation == pytest.approx(errors[one.forecaster][client])


def test_a_cell_whose_clients_mix_outputs_is_not_kept(tmp_path: Path) -> None:
    grid = {"method": ["knn_per", "fedopt"], "client_opt": ["adam"], "server_opt": ["fedavg"]}
    config = fake_results.TINY | {"grid": grid | {"sharing": ["P2", "P3"]}}
    tables = fake_results.write(
        tmp_path, config, lambda cell, *_: 0.1 if cell["method"] == "knn_per" else 0.5
    )
    best = tables.best("local", state="CA", sharing="P2")
    assert best is not None and best.method == "knn_per"
    for sharing in ("P2", "P3"):
        kept = best_kept_cell(tables, "CA", sharing)
        assert kept is not None and kept.method == "fedopt"
    assert assignable_forecasters(tables, "CA")["P2"][1] == "fedopt"


def test_one_for_all_is_left_on_strong_evidence_only() -> None:
    errors = pd.DataFrame({"P1": [0.5] * 9 + [0.9], "ridge": [0.6] * 9 + [0.5]}, [*"abcdefghij"])
    days = pd.Series(20.0, errors.index)
    assert (credible_errors(errors, days, np.inf).idxmin(axis=1) == "P1").all()
    assert credible_errors(errors, days, 0)["P1"].tolist() == errors["P1"].tolist()
    # Its own readings are for ridge by 0.4, all meters for P1 by 0.05.
    weak, strong = (credible_errors(errors, days, n).loc["j"] for n in (200, 100))
    assert weak["P1"] == pytest.approx((20 * 0.9 + 200 * 0.54) / 220)
    assert (weak.idxmin(), strong.idxmin()) == ("P1", "ridge")
    errors.loc["k", "ridge"] = 0.4  # without a score of P1, it gets what it has
    found = credible_errors(errors, pd.Series(1.0, errors.index))
    assert found.idxmin(axis=1)["k"] == "ridge" and found.loc["a"].notna().all()


def test_a_forecaster_without_scores_changes_nothing_for_the_others() -> None:
    nan = np.nan
    errors = pd.DataFrame({"A": [0.8, 0.8, 2, 2], "W": [0.9, 0.9, nan, nan]}, [*"abcd"])
    days = pd.Series(10.0, errors.index)
    expected = credible_errors(errors, days)
    assert (expected.idxmin(axis=1) == "A").all()
    found = credible_errors(errors.assign(absent=nan), days)
    pd.testing.assert_frame_equal(found[["A", "W"]], expected)
    assert found["absent"].isna().all()
    # No client has a score of A, W and this one: it is compared with none.
    found = credible_errors(errors.assign(apart=[nan, nan, nan, 1.0]), days)
    pd.testing.assert_frame_equal(found[["A", "W"]], expected)
    assert (found.idxmin(axis=1) == "A").all()
    alone = pd.DataFrame({"A": [0.8, nan], "B": [nan, 0.3]}, [*"ab"])
    assert credible_errors(alone, days[:2]).idxmin(axis=1).tolist() == ["A", "B"]


@pytest.mark.parametrize(
    ("blocks", "days"),
    [
        ({"data": {"origins": ["2024-06-01"]}}, (1460 - 28) / 5),
        ({"data": {"origins": ["2024-06-01"]}, "windows": {"history": 10}}, 70 / 5),
        ({"data": {"origins": ["2024-06-01"]}, "windows": {"history": 300}}, (1460 - 28) / 5),
        ({"windows": {"split": [0.8, 0, 0.2]}}, 1460 * 0.8 / 5),
        ({"windows": {"history": 10}}, 70 / 5),
        ({}, 146),
    ],
    ids=str,
)
def test_days_of_validation_are_a_fifth_of_the_history_without_the_test_set(
    blocks: dict[str, Any], days: float, tmp_path: Path
) -> None:
    content = copy.deepcopy(fake_results.METERS)
    for name, block in blocks.items():
        content[name] = content.get(name, {}) | block
    study = Study.parse(content, "of")
    tables = fake_results.write(tmp_path, fake_results.METERS)
    vars(tables)["study"] = next(iter(study.variants.values()))
    found = _validation_days(tables, "Ost")
    assert found.tolist() == pytest.approx([days] * 3)


def test_only_the_names_that_are_kept_are_assigned(tmp_path: Path) -> None:
    tables = fake_results.write(tmp_path, fake_results.TINY)
    found = assign(tables, "CA", ["naive_day", "ridge", "absent"])
    assert {one.forecaster for one in found.values()} == {"ridge"}
    assert not assign(tables, "CA", ["absent"])


def test_the_mixture_has_the_scores_of_what_each_client_is_assigned(tmp_path: Path) -> None:
    tables = fake_results.write(tmp_path, fake_results.METERS)
    forecasters = scores(tables, "local", includes_baselines=True)["Ost"]
    found = assign(tables, "Ost")
    names = ["ridge", "lightgbm_lags", "alone"]
    axes_of = assignable_forecasters(tables, "Ost")
    for (client, one), name in zip([*found.items()], names, strict=True):
        found[client] = type(one)(name, axes_of[name], 0.5, "")
    mixed = mixture(forecasters, found)
    assert mixed is not None and mixed.combination.sharing == IN_USE and mixed.validation == 0.5
    for number, (client, name) in enumerate(zip(found, names, strict=True)):
        (part,) = (one for one in forecasters if one.combination == axes_of[name])
        np.testing.assert_array_equal(mixed.weekly[number], part.select([client])[0])
        assert mixed.persistence[number] == part.persistence[part.clients.index(client)]
    assert mixture(forecasters[:1], found) is None
