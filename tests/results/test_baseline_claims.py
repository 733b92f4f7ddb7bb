"""Whether a federation is said to be worth it where it is, state by state."""

from pathlib import Path
from typing import Any

import pytest

from plfl.results import claims
from plfl.results.baseline_claims import ABOUT_SCORES
from tests.helpers.constructed import config, judged, study
from tests.helpers.fake_results import write

GRID = {"client_opt": ["adam"], "sharing": ["P1", "P2", "P3"]}
LEVEL = {"P1": 1.2, "P2": 1.0, "P3": 0.5}
"""Local training is best, but sends no data, so that it is no federated cell."""


def level(cell: dict[str, Any], *_: object) -> float:
    return LEVEL[cell["sharing"]] * (4 if cell["state"] == "NY" else 1)


def rivals(name: str, split: str = "test") -> float:
    return {"lightgbm": 1.5, "lightgbm_lags": 2.2, "lightgbm_pooled": 0.1}.get(name, 3.0)


def test_each_state_has_its_own_verdict_and_they_stand_first(tmp_path: Path) -> None:
    data = {"states": ["CA", "NY"]}
    tables = write(tmp_path, config(data=data, grid=GRID), level, baseline=rivals)
    verdicts = claims.verdicts(tables)
    assert [(v.claim, v.state, v.model) for v in verdicts[:4]] == [
        ("n1", state, model) for state in ("CA", "NY") for model in ("local", "global")
    ]
    found = {(v.claim, v.state): v for v in verdicts if v.model == "local"}
    for claim in ("n1", "n2"):
        assert found[claim, "CA"].answer == "holds"
        assert found[claim, "NY"].answer == "does not hold"
        cells = found[claim, "CA"].cells
        assert cells == ("CA-P2-fedopt-adam-fedavg", "CA-baseline-lightgbm-none-none")
    verdict = found["n2", "CA"]
    mase = tables.records(["mase"], split="test", model="local", state="CA", sharing="P2")["mase"]
    assert verdict.effect == pytest.approx(1.5 - mase.mean())
    assert (verdict.clients, verdict.seeds) == (12, 3)
    assert found["n3", "CA"].answer == "not in this study", "nobody joins late"
    assert "  NY, global: DOES NOT HOLD" in claims.as_text(tables.study, verdicts)


def test_both_sides_are_chosen_on_validation() -> None:
    def misled(cell: dict[str, Any], split: str, *_: object) -> float:
        chosen = (cell["sharing"] == "P1") == (split == "validation")
        return 1.0 if chosen else 1.4

    def ridge(name: str, split: str) -> float:
        return 0.2 if (name, split) == ("ridge", "validation") else rivals(name)

    of = study(data={"states": ["CA"]}, grid=GRID)
    cells = judged(["n1"], misled, of, baseline=ridge)["n1", "local"].cells
    assert cells == ("CA-P1-fedopt-adam-fedavg", "CA-baseline-ridge-none-none")


@pytest.mark.parametrize(
    ("schemes", "lost", "reason"),
    [
        (["P3"], ["n1", "n2"], "no sharing scheme that shares parameters"),
        (["P1", "P3"], ["n2"], "PL-FL (shares body)"),
    ],
    ids=["nothing shared", "no P2"],
)
def test_a_grid_without_the_cells_says_so(schemes: list[str], lost: list[str], reason: str) -> None:
    of = study(data={"states": ["CA"]}, grid=GRID | {"sharing": schemes})
    found = judged(["n1", "n2"], level, of, baseline=rivals)
    for claim in ("n1", "n2"):
        assert (found[claim, "local"].answer == "not in this study") == (claim in lost)
    assert reason in found[lost[0], "local"].reason


@pytest.mark.parametrize(
    ("weeks", "error", "answer"),
    [
        (4, 1.0, "holds"),
        (4, 2.0, "does not hold"),
        (None, 1.0, "not in this study"),
        (40, 1.0, "not in this study"),
    ],
)
def test_late_clients_of_short_histories_are_compared_with_lightgbm(
    weeks: int | None, error: float, answer: str
) -> None:
    schemes = {"P1": ["*"], "late": {"join": "late"}, "raw": {"join": "raw"}}
    of = study(
        data={"states": ["CA"]},
        grid=GRID | {"sharing": list(schemes)},
        windows={"history": weeks, "scaling": "per_client"},
        sharing=schemes,
    )
    levels = {"P1": 2.0, "late": error, "raw": 0.2}
    found = judged(ABOUT_SCORES, lambda cell, *_: levels[cell["sharing"]], of, baseline=rivals)
    late = found["n3", "local"]
    assert late.answer == answer
    if answer != "not in this study":
        assert late.cells == ("CA-late-fedopt-adam-fedavg", "CA-baseline-lightgbm-none-none")
    # A model on the raw data of all is no federated cell.
    assert found["n1", "local"].cells[0].split("-")[1] == ("late" if error == 1 else "P1")
