"""The first sentences say what the results were constructed to show."""

from pathlib import Path
from typing import Any

from plfl.report.opening import sentences
from plfl.results.findings import findings
from plfl.results.tables import Tables
from tests.helpers import fake_results
from tests.helpers.constructed import config

WINS = {"P1": 0.5, "P2": 0.3, "P3": 0.6}
LOSES = {"P1": 0.9, "P2": 0.8, "P3": 0.2}


OTHERS = {"persistence", "seasonal naive", "ridge", "LightGBM", "local training"}
"""What the best federation is compared with."""


def told(tables: Tables) -> list[str]:
    return sentences(tables, findings(tables))


def named(sentence: str) -> set[str]:
    """The forecasters of a comparison."""
    return {other for other in OTHERS if other in sentence}


def study(
    folder: Path, levels: dict[str, float], states: str = "CA", noise: float = 0.02, **grid: Any
) -> Tables:
    def level(cell: dict[str, Any], *_: object) -> float:
        worse = 3 if cell["state"] == "NY" else 1
        return levels[cell["sharing"]] * (worse if cell["sharing"] != "P3" else 1)

    of = config(data={"states": states.split()}, grid={"client_opt": ["adam"], **grid})
    rivals = {"persistence": 1.0, "lightgbm": 0.4}
    return fake_results.write(
        folder, of, level, noise=noise, baseline=lambda name: rivals.get(name, 0.7)
    )


def test_states_that_differ_are_told_apart(tmp_path: Path) -> None:
    tables = study(tmp_path, WINS, "CA NY")
    best, beats, loses, *_, basis = told(tables)
    one = findings(tables).best[0]
    mase = f"{one.mase:.3f} [{one.low:.3f}, {one.high:.3f}]"
    assert f"in CA a federation, P2: test MASE {mase}" in best
    assert "in NY LightGBM (a baseline): test MASE 0.400 [" in best
    both, _, in_ca = beats.partition(" in both states and ")
    assert named(both) == {"persistence"}
    assert named(in_ca) == named(loses) == OTHERS - {"persistence"}
    assert "beats" in both and in_ca.endswith(" in CA.")
    assert "worse" in loses and loses.endswith(" in NY.")
    assert "3 seeds and 24 clients in 2 states (12 in each)" in basis


def test_what_is_undecided_comes_with_what_would_decide_it(tmp_path: Path) -> None:
    tables = study(tmp_path, {"P1": 0.5, "P2": 0.5, "P3": 0.51}, noise=0.12)
    (verdict,) = (v for v in findings(tables).verdicts if v.answer == "undecided")
    assert verdict.claim == "local training"
    _, beats, loses, *_, basis = told(tables)
    assert "beats" in beats and named(beats) == {"persistence", "seasonal naive", "ridge"}
    assert "worse" in loses and named(loses) == {"LightGBM"}
    assert basis.endswith(f"Undecided against local training. {verdict.needed}")


def test_one_seed_is_one_sentence(tmp_path: Path) -> None:
    _, seed, _, basis = told(study(tmp_path, LOSES, seeds=[1]))
    ahead, _, behind = seed.partition(" behind ")
    assert "single seed" in ahead and named(ahead) == {"persistence"}
    assert named(behind) == OTHERS - {"persistence"} and "not conclusive" in behind
    assert "1 seed and 12 clients" in basis and "3 seeds (grid.seeds)" in basis


def test_a_deployed_study_has_no_baselines(tmp_path: Path) -> None:
    study(tmp_path, WINS)
    fake_results.without_baselines(tmp_path)
    _, missing, wins, costs, _ = told(Tables(tmp_path))
    assert "no " in missing and named(missing) == {"seasonal naive", "ridge", "LightGBM"}
    assert "beats" in wins and named(wins) == {"persistence", "local training"}
    assert "raw data" not in costs


def test_without_a_federation_there_is_nothing_to_compare(tmp_path: Path) -> None:
    tables = study(tmp_path, WINS, sharing=["P3"])
    assert findings(tables).verdicts == findings(tables).federated == []
    best, none, basis = told(tables)
    assert "LightGBM (a baseline)" in best
    assert "no federation" in none
    assert "3 seeds" in basis


def test_a_study_of_which_every_federation_diverged(tmp_path: Path) -> None:
    content = {**fake_results.TINY, "grid": {**fake_results.TINY["grid"], "sharing": ["P1"]}}
    fake_results.write(tmp_path, content, diverged=("CA-P1-fedopt-adam-fedavg-10",))
    _, missing, lost, basis = told(Tables(tmp_path))
    assert "no local training" in missing
    assert "Every federated cell diverged" in lost
    assert "1 seed and 2 clients" in basis and "Train the diverged cells" in basis


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
    data = fake_results.METERS["data"] | {"states": ["Nord", "Sued", "Ost", "West", "Mitte"]}
    grid = fake_results.METERS["grid"] | {"client_opt": ["adam"], "server_opt": ["fedavg"]}

    def level(cell: dict[str, Any], *_: object) -> float:
        own = 0.7 if cell["state"] == "Sued" else 0.1 + 0.01 * len(cell["state"])
        return own * (1.01 if cell["sharing"] == "alone" else 1)

    content = fake_results.METERS | {"data": data, "grid": grid}
    tables = fake_results.write(tmp_path, content, level)
    best, *_, basis = told(tables)
    many = [one.mase for one in findings(tables).best if one.state != "Sued"]
    most, _, other = best.partition("; in Sued ")
    assert "in 4 of 5 states a federation, head" in most
    assert f"{min(many):.3f} to {max(many):.3f}" in most
    assert other.startswith("LightGBM, day and week lags (a baseline)") and " 0.560 [" in other
    assert "2 seeds and 15 meters in 5 states (3 in each)" in basis
    undecided = [v for v in findings(tables).verdicts if v.answer == "undecided"]
    assert f"{len(undecided)} of 25 comparisons are undecided" in basis
    nearest = min(undecided, key=lambda v: v.p_alone)
    assert basis.endswith(f"{nearest.claim} in {nearest.state}. {nearest.needed}")


def test_one_client_has_no_interval(tmp_path: Path) -> None:
    content = {**fake_results.TINY, "data": {**fake_results.TINY["data"], "clients": 1}}
    fake_results.write(tmp_path, content)
    best, *_, basis = told(Tables(tmp_path))
    assert "[" not in best
    assert "1 seed and 1 client." in basis
