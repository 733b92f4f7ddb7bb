"""Whether a federation is said to be worth it where it is, state by state."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from plfl.results import baseline_claims, claims
from plfl.results.claims import verdicts
from plfl.results.tables import Tables
from plfl.results.verdict import Verdict
from tests.helpers.constructed import BYTES, write

GRID = {"client_opt": ["adam"], "sharing": ["P1", "P2", "P3"]}
LEVEL = {"P1": 1.2, "P2": 1.0, "P3": 0.5}
"""Local training is best, but sends no data, so that it is no federated cell."""


def level(cell: dict[str, Any], *_: object) -> float:
    return LEVEL[cell["sharing"]] * (4 if cell["state"] == "NY" else 1)


def rivals(name: str) -> float:
    return {"lightgbm": 1.5, "lightgbm_lags": 2.2, "lightgbm_pooled": 0.1}.get(name, 3.0)


def asked(tables: Tables) -> dict[tuple[str, str | None, str | None], Verdict]:
    found = [v for v in verdicts(tables) if v.claim in baseline_claims.CLAIMS]
    return {(v.claim, v.state, v.model): v for v in found}


def study(folder: Path, baseline: Any = rivals, **config: Any) -> Tables:
    data = {"states": ["CA", "NY"], **config.pop("data", {})}
    grid = {**GRID, **config.pop("grid", {})}
    return write(folder, level, data=data, grid=grid, baseline=baseline, **config)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return study(tmp_path_factory.mktemp("worth"))


def test_each_state_has_its_own_verdict(folder: Tables) -> None:
    found = asked(folder)
    for model in ("local", "global"):
        for claim in ("n1", "n2"):
            assert found[claim, "CA", model].answer == "holds"
            assert found[claim, "NY", model].answer == "does not hold"
            cells = found[claim, "CA", model].cells
            assert cells == ("CA-P2-fedopt-adam-fedavg", "CA-baseline-lightgbm-none-none")
    verdict = found["n2", "CA", "local"]
    records = folder.records(
        ["client", "mase"], split="test", model="local", state="CA", sharing="P2"
    )
    assert verdict.effect == pytest.approx(1.5 - records["mase"].mean())
    assert (verdict.clients, verdict.seeds) == (12, 3)
    assert found["n3", "CA", "local"].answer == "not in this study", "nobody joins late"


def test_they_stand_first_in_text_and_json(folder: Tables) -> None:
    found = verdicts(folder)
    names = [(v.claim, v.state, v.model) for v in found[:4]]
    assert names == [
        ("n1", state, model) for state in ("CA", "NY") for model in ("local", "global")
    ]
    text = claims.as_text(folder.study, found)
    assert (
        "(n1) some federation beats the best baseline that sends no data\n  CA, local: HOLDS"
        in (text)
    )
    assert "  NY, global: DOES NOT HOLD" in text
    assert claims.as_json(folder.study, found)["verdicts"][0]["state"] == "CA"


def test_both_sides_are_chosen_on_validation(tmp_path: Path) -> None:
    def misled(cell: dict[str, Any], split: str, *_: object) -> float:
        chosen = (cell["sharing"] == "P1") == (split == "validation")
        return 1.0 if chosen else 1.4

    tables = write(tmp_path, misled, data={"states": ["CA"]}, grid=GRID, baseline=rivals)
    path = tmp_path / "baselines.parquet"
    table = pd.read_parquet(path)
    ridge = (table["baseline"] == "ridge") & (table["split"] == "validation")
    table.loc[ridge, "mase"] = 0.2
    table.to_parquet(path)
    cells = asked(Tables(tables.folder))["n1", "CA", "local"].cells
    assert cells == ("CA-P1-fedopt-adam-fedavg", "CA-baseline-ridge-none-none")


@pytest.mark.parametrize(
    ("schemes", "lost", "reason"),
    [
        (["P3"], ["n1", "n2"], "no sharing scheme that shares parameters"),
        (["P1", "P3"], ["n2"], "PL-FL (shares body)"),
    ],
    ids=["nothing shared", "no P2"],
)
def test_a_grid_without_the_cells_says_so(
    schemes: list[str], lost: list[str], reason: str, tmp_path: Path
) -> None:
    found = asked(study(tmp_path, grid={"sharing": schemes}))
    for claim in ("n1", "n2"):
        verdict = found[claim, "CA", "local"]
        assert (verdict.answer == "not in this study") == (claim in lost)
    assert reason in found[lost[0], "CA", "local"].reason


LATE = {"sharing": {"P1": ["*"], "late": {"join": "late"}, "raw": {"join": "raw"}}}


def short(folder: Path, weeks: int | None, error: float) -> dict[str, Verdict]:
    """The verdicts on local models of a study with late clients of this error."""

    def level(cell: dict[str, Any], *_: object) -> float:
        return {"late": error, "raw": 0.2}.get(cell["sharing"], 2.0)

    tables = write(
        folder,
        level,
        data={"states": ["CA"]},
        grid=GRID | {"sharing": list(LATE["sharing"])},
        windows={"history": weeks, "scaling": "per_client"},
        baseline=rivals,
        sent=dict.fromkeys(LATE["sharing"], 8) | BYTES,
        **LATE,
    )
    return {claim: v for (claim, _, model), v in asked(tables).items() if model == "local"}


@pytest.mark.parametrize(("error", "answer"), [(1.0, "holds"), (2.0, "does not hold")])
def test_late_clients_are_compared_with_lightgbm(error: float, answer: str, tmp_path: Path) -> None:
    found = short(tmp_path, 4, error)
    cells = ("CA-late-fedopt-adam-fedavg", "CA-baseline-lightgbm-none-none")
    assert (found["n3"].answer, found["n3"].cells) == (answer, cells)
    # A model on the raw data of all is no federated cell.
    assert found["n1"].cells[0].split("-")[1] == ("late" if error == 1 else "P1")


@pytest.mark.parametrize("weeks", [None, 40])
def test_late_clients_have_short_histories(weeks: int | None, tmp_path: Path) -> None:
    assert short(tmp_path, weeks, 1.0)["n3"].answer == "not in this study"
