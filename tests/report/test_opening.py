"""The first sentences say what the results were constructed to show."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from plfl.report.opening import sentences
from plfl.results.findings import findings
from plfl.results.tables import Tables
from tests.helpers import constructed, fake_results

WINS = {"P1": 0.5, "P2": 0.3, "P3": 0.6}
LOSES = {"P1": 0.9, "P2": 0.8, "P3": 0.2}


def told(tables: Tables) -> list[str]:
    return sentences(tables, findings(tables))


def study(folder: Path, levels: dict[str, float], **config: Any) -> Tables:
    def level(cell: dict[str, Any], *_: object) -> float:
        worse = 3 if cell["state"] == "NY" else 1
        return levels[cell["sharing"]] * (worse if cell["sharing"] != "P3" else 1)

    data = {"states": ["CA"], **config.pop("data", {})}
    grid = {"client_opt": ["adam"], **config.pop("grid", {})}
    baseline = {"baseline": lambda name: {"persistence": 1.0, "lightgbm": 0.4}.get(name, 0.7)}
    return constructed.write(folder, level, data=data, grid=grid, **{**baseline, **config})


def test_a_federation_that_wins(tmp_path: Path) -> None:
    best, wins, costs, basis = told(tables := study(tmp_path, WINS))
    (found,) = findings(tables).best
    assert best == (
        "The best forecaster on validation is a federation, P2 with Adam + FedAvg: test MASE "
        f"{found.mase:.3f} [{found.low:.3f}, {found.high:.3f}]."
    )
    assert wins == (
        "The best federation beats persistence, the best seasonal naive, the best ridge, "
        "the best LightGBM and local training."
    )
    # 3,500 numbers of 4 bytes in each direction, and one round.
    assert costs.startswith(
        "The best federation sends 28\u202f000 bytes per participating client and round, "
        "28\u202f000 bytes per client in its only round"
    )
    assert "LightGBM, pooled: 126\u202f144 bytes of raw data per client, once" in costs
    assert basis == "This rests on 3 seeds and 12 clients."


def test_a_federation_that_loses(tmp_path: Path) -> None:
    best, beats, loses, *_, basis = told(study(tmp_path, LOSES))
    assert best.startswith("The best forecaster on validation is local training, P3 with Adam: ")
    assert beats == "The best federation beats persistence."
    assert loses == (
        "The best federation does worse than the best seasonal naive, the best ridge, "
        "the best LightGBM and local training."
    )
    assert "Undecided" not in basis


def test_a_federation_that_beats_nothing(tmp_path: Path) -> None:
    worse = {split: 4 * level for split, level in LOSES.items()}
    _, loses, nothing, *_ = told(study(tmp_path, worse))
    assert loses.startswith("The best federation does worse than persistence, the best ")
    assert nothing == "No comparison shows a federation to be better."


def test_states_that_differ_are_told_apart(tmp_path: Path) -> None:
    best, beats, loses, *_, basis = told(study(tmp_path, WINS, data={"states": ["CA", "NY"]}))
    assert best.startswith(
        "The best forecaster on validation is in CA a federation, P2 with Adam + FedAvg: test MASE "
    )
    assert "; in NY LightGBM (a baseline): test MASE 0.400 [0.400, 0.400]." in best
    assert beats == (
        "The best federation beats persistence in both states and the best seasonal naive, "
        "the best ridge, the best LightGBM and local training in CA."
    )
    assert loses == (
        "The best federation does worse than the best seasonal naive, the best ridge, "
        "the best LightGBM and local training in NY."
    )
    assert basis == "This rests on 3 seeds and 24 clients in 2 states (12 in each)."


def test_what_is_undecided_comes_with_what_would_decide_it(tmp_path: Path) -> None:
    tables = study(tmp_path, {"P1": 0.5, "P2": 0.5, "P3": 0.51}, noise=0.12)
    (verdict,) = (v for v in findings(tables).verdicts if v.answer == "undecided")
    assert verdict.claim == "local training"
    assert "more seed" in verdict.needed or "Even" in verdict.needed
    _, beats, loses, *_, basis = told(tables)
    assert beats == (
        "The best federation beats persistence, the best seasonal naive and the best ridge."
    )
    assert loses == "The best federation does worse than the best LightGBM."
    assert basis == (
        f"This rests on 3 seeds and 12 clients. Undecided against local training. {verdict.needed}"
    )


def test_one_seed_is_one_sentence(tmp_path: Path) -> None:
    _, seed, _, basis = told(study(tmp_path, LOSES, grid={"seeds": [1]}))
    assert seed == (
        "With its single seed, the best federation is ahead of persistence and behind the best "
        "seasonal naive, the best ridge, the best LightGBM and local training; this is not "
        "conclusive, because one seed does not show how much trainings vary."
    )
    assert basis == "This rests on 1 seed and 12 clients. Run at least 3 seeds (grid.seeds)."


def test_a_deployed_study_has_no_baselines(tmp_path: Path) -> None:
    study(tmp_path, WINS)
    about = json.loads((tmp_path / "study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps(about | {"engine": "flower"}))
    (tmp_path / "baselines.parquet").unlink()
    _, missing, wins, costs, _ = told(Tables(tmp_path))
    assert missing == (
        "The results hold no seasonal naive, ridge or LightGBM to compare a federation with."
    )
    assert wins == "The best federation beats persistence and local training."
    assert "raw data" not in costs


def test_without_a_federation_there_is_nothing_to_compare(tmp_path: Path) -> None:
    best, none, basis = told(study(tmp_path, WINS, grid={"sharing": ["P3"]}))
    assert best.startswith("The best forecaster on validation is LightGBM (a baseline)")
    assert none == "The study has no federation: no sharing scheme of its grid shares parameters."
    assert basis.startswith("This rests on 3 seeds")


def test_a_study_of_which_every_federation_diverged(tmp_path: Path) -> None:
    config = {**fake_results.TINY, "grid": {**fake_results.TINY["grid"], "sharing": ["P1"]}}
    fake_results.write(tmp_path, config, ("CA-P1-fedopt-adam-fedavg-10",))
    _, missing, lost, basis = told(Tables(tmp_path))
    assert missing == "The results hold no local training to compare a federation with."
    assert lost == "Every federated cell diverged, so no federation beats anything."
    assert basis.startswith("This rests on 1 seed and 2 clients. Train the diverged cells")


def test_methods_and_their_bytes_are_those_of_the_best_cell(tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.METHODS)
    tables = Tables(tmp_path)
    best, *_, costs, _ = told(tables)
    cells = [one.cell for one in findings(tables).federated]
    assert [cell.method for cell in cells if cell] == ["ifca", "ifca"]
    # IFCA sends its shared part three times in each direction, in each of four rounds.
    sent = 3 * 2 * fake_results._bytes(tables.study, cells[0]) // 3  # type: ignore[arg-type]
    assert f"sends {sent:,} bytes".replace(",", "\u202f") in costs
    assert f"{4 * sent:,} bytes per client in all 4 rounds".replace(",", "\u202f") in costs
    assert "LightGBM, day and week lags (a baseline)" in best


def test_own_meters_in_many_regions(tmp_path: Path) -> None:
    fake_results.write(tmp_path, fake_results.METERS)
    tables = Tables(tmp_path)
    best, *_, basis = told(tables)
    groups: dict[str, list[float]] = {}
    for one in findings(tables).best:
        groups.setdefault(str(one.baseline), []).append(one.mase)
    many, (single,) = groups["lightgbm_lags"], groups["lightgbm_pooled"]
    assert best.startswith(
        "The best forecaster on validation is in 4 of 5 states LightGBM, day and week lags (a "
        f"baseline): test MASE {min(many):.3f} to {max(many):.3f}; in Sued LightGBM, pooled (a "
        f"baseline that needs all raw data in one place): test MASE {single:.3f} ["
    )
    assert basis.startswith("This rests on 2 seeds and 15 clients in 5 states (3 in each).")
    undecided = [v for v in findings(tables).verdicts if v.answer == "undecided"]
    assert f"{len(undecided)} of 25 comparisons are undecided; nearest to a decision" in basis
    nearest = min(undecided, key=lambda v: max(v.p_clients or 0, v.p_trainings or 0))
    assert basis.endswith(f"{nearest.claim} in {nearest.state}. {nearest.needed}")


@pytest.mark.parametrize("clients", [1])
def test_one_client_has_no_interval(clients: int, tmp_path: Path) -> None:
    config = {**fake_results.TINY, "data": {**fake_results.TINY["data"], "clients": clients}}
    fake_results.write(tmp_path, config)
    best, *_, basis = told(Tables(tmp_path))
    assert "[" not in best
    assert basis.startswith("This rests on 1 seed and 1 client.")


def test_pooled_data_are_called_so(tmp_path: Path) -> None:
    tables = study(tmp_path, WINS, baseline=lambda name: 0.1 if name == "lightgbm_pooled" else 2.0)
    best, *_ = told(tables)
    assert "LightGBM, pooled (a baseline that needs all raw data in one place)" in best


def test_numbers_are_those_of_the_tables(tmp_path: Path) -> None:
    tables = study(tmp_path, WINS)
    summary = pd.read_csv(tmp_path / "summary.csv")
    summary["bytes_up"] *= 10
    summary.to_csv(tmp_path / "summary.csv", index=False)
    costs = told(Tables(tables.folder))[-2]
    assert f"{14000 + 140000:,} bytes per client".replace(",", "\u202f") in costs
