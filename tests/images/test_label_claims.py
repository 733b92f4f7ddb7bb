"""Claims about classifiers, on synthetic results in which it is known what holds."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from plfl.config.study import Cell, Study
from plfl.results import claims
from plfl.results.verdict import Verdict
from plfl_images.results import classification, label_claims
from plfl_images.results.variants import Results
from tests.helpers import classified
from tests.images.test_classify import study as tiny


def results(errors: classified.Errors, **grid: Any) -> list[Results]:
    """Results of a study with this grid, made up in memory."""
    of = tiny(grid={"seeds": [0, 1, 2, 3], "refused": "skip"} | grid)
    found = Results.all_of(of, Path())
    for one in found:
        own = of.variants[one.label]
        vars(one.tables)["study"] = own
        records = classified.of_cells(own, errors)
        vars(one)["summary"] = classification.summarise(records, "digits", 0.8)
    return found


def judge(errors: classified.Errors, **grid: Any) -> dict[tuple[str, str], Verdict]:
    """The verdicts on them by claim and place."""
    found = label_claims.verdicts(results(errors, **grid))
    return {(verdict.claim, verdict.where): verdict for verdict in found}


def made_up(ahead: dict[str, float]) -> classified.Errors:
    """Errors of methods, SlowMo by its server: 0.5, less what a method is ahead."""

    def errors(study: Study, cell: Cell, t: int) -> float:
        name = cell.server_opt if cell.method == "fedopt" else cell.method
        salt = sum(map(ord, name)) + study.data.skew.s
        return 0.5 - ahead.get(name, 0.0) + classified.noise(cell, salt)

    return errors


END, QUARTER = "at the end", "at a quarter of the rounds"


def test_what_holds_and_what_does_not() -> None:
    errors = made_up({"slowmo": 0.2, "fedadc": 0.1, "fedadc_plus": 0.3, "feddyn": 0.05})
    found = judge(
        errors,
        method=["fedopt", "feddyn", "fedadc", "fedadc_plus"],
        server_opt=["fedavg", "slowmo"],
    )
    assert found["A1", END].answer == found["A1", QUARTER].answer == "holds"
    assert found["A2", END].answer == "does not hold"
    assert found["D", END].answer == "holds"
    assert found["D", END].reason.startswith("4 of 4")
    assert found["B1", ""].answer == "does not hold"  # the target is 80 %
    for claim in ("A3", "B2", "C", "E", "Q", "R", "S1", "S2"):
        assert found[claim, ""].answer == "not in this study"
        assert found[claim, ""].reason


def test_the_numbers_are_those_of_a_paired_t_test() -> None:
    grid: dict[str, Any] = {"server_opt": ["fedavg", "slowmo"], "data.skew.s": [1, 2]}
    found = judge(made_up({"slowmo": 0.2}), **grid)
    verdict = found["A1", f"s=2, {END}"]
    _, one = results(made_up({"slowmo": 0.2}), **grid)
    fedavg, slowmo = (100 * one.scored(row, "accuracy_tail") for row in one.rows)
    tested = stats.ttest_1samp(slowmo - fedavg, 0)
    interval = tested.confidence_interval()
    assert verdict.effect == pytest.approx(np.mean(slowmo - fedavg))
    assert (verdict.low, verdict.high) == pytest.approx((interval.low, interval.high))
    assert verdict.p_alone == pytest.approx(tested.pvalue)
    assert verdict.p is not None
    assert verdict.p >= tested.pvalue  # corrected for the other three
    assert "at a quarter" in claims.as_text(one.study, list(found.values()))


def test_a_small_lead_is_undecided_and_says_what_would_decide_it() -> None:
    found = judge(made_up({"slowmo": 0.004}), server_opt=["fedavg", "slowmo"])
    verdict = found["A1", END]
    assert verdict.answer == "undecided"
    assert "seeds vary too much" in verdict.reason
    assert "seed" in verdict.needed
    assert "client" not in verdict.needed


def test_a_lead_that_widens_with_fewer_labels() -> None:
    def errors(study: Study, cell: Cell, t: int) -> float:
        lead = {1: 0.3, 2: 0.2, 5: 0.05}[study.data.skew.s]
        name = cell.server_opt if cell.method == "fedopt" else cell.method
        noise = classified.noise(cell, sum(map(ord, name)) + study.data.skew.s)
        base = 0.3 if t < 20 and study.data.skew.s == 1 else 0.1
        return base + 0.4 * (name != "fedadc") * lead + noise

    found = judge(
        errors,
        method=["fedopt", "fedadc"],
        server_opt=["fedavg", "slowmo"],
        **{"data.skew.s": [2, 5, 1]},
    )
    verdict = found["A3", f"s = 1 against 5, {END}"]
    assert verdict.answer == "holds"
    assert verdict.effect == pytest.approx(100 * 0.4 * 0.25, abs=1)
    # With one label per client, only the last evaluated round reaches the target.
    slower = found["B2", "s = 1 against 5, rounds"]
    assert (slower.answer, slower.effect, slower.unit) == ("holds", 15, "rounds")
    assert found["B1", "s=1"].answer == "holds"


def test_the_two_momenta_of_fedadc_where_labels_are_fewest() -> None:
    def errors(study: Study, cell: Cell, t: int) -> float:
        red = study.hyperparameters.method.fedadc.variant == "nesterov"  # type: ignore[attr-defined]
        return 0.3 - 0.1 * red + classified.noise(cell, red + 2 * study.data.skew.s)

    axes = {
        "data.skew.s": [1, 2],
        "hyperparameters.method.fedadc.variant": ["heavy_ball", "nesterov"],
    }
    found = judge(errors, method=["fedadc"], **axes)
    about = [where for claim, where in found if claim == "C"]
    assert about == [f"data.skew.s=1, {QUARTER}", f"data.skew.s=1, {END}"]
    assert found["C", about[1]].answer == "holds"


def test_more_clusters() -> None:
    def errors(study: Study, cell: Cell, t: int) -> float:
        clusters = study.hyperparameters.method.fedsc.clusters  # type: ignore[attr-defined]
        gain = {2: 0, 4: 0.1, 8: 0.05}[clusters] if cell.method == "fedsc" else 0.0
        return 0.5 - gain + classified.noise(cell, clusters * len(cell.method))

    found = judge(
        errors,
        method=["fedopt", "fedcluster", "fedsc"],
        **{"hyperparameters.method.fedsc.clusters": [2, 4, 8]},
    )
    verdict = found["S2", END]
    assert verdict.answer == "does not hold"
    assert verdict.reason.startswith("1 of 2")
    # The others' trainings, which are the same for every number of clusters, count once.
    assert [where for claim, where in found if claim == "Q"] == [QUARTER]
    assert len([where for claim, where in found if claim == "S1"]) == 6


def test_selection_by_labels() -> None:
    def errors(study: Study, cell: Cell, t: int) -> float:
        aware = study.federation.selection == "data_aware"
        return 0.3 - 0.05 * aware + classified.noise(cell, aware)

    axes = {"data.skew.s": [5], "federation.selection": ["uniform", "data_aware"]}
    found = judge(errors, **axes)
    verdicts = [found["G", f"data.skew.s=5, {score}"] for score in (END, QUARTER)]
    assert [verdict.answer for verdict in verdicts] == ["holds", "holds"]
    assert verdicts[0].cells == ("FedAvg, data-aware against uniform",)


def test_calibrated_models_on_the_clients_own_labels() -> None:
    found = judge(made_up({}), **{"federation.calibration.epochs": [0, 2]})
    # In the synthetic results, local models make half as many errors.
    assert [where for claim, where in found if claim == "F"] == ["epochs=2"]
    verdict = found["F", "epochs=2"]
    assert (verdict.answer, verdict.effect) == ("holds", pytest.approx(25, abs=1))


def test_a_diverged_side() -> None:
    def errors(study: Study, cell: Cell, t: int) -> float:
        if cell.method == "fedadc_plus" and cell.seed == 0:
            return float("nan")
        return made_up({"fedadc_plus": 0.3})(study, cell, t)

    found = judge(errors, method=["fedopt", "fedadc_plus"])
    assert found["D", END].answer == "undecided"
    assert found["D", END].diverged == ("FedADC+",)


def test_sides_with_identical_results() -> None:
    found = judge(lambda study, cell, t: 0.3, server_opt=["fedavg", "slowmo"])
    verdict = found["A1", END]
    assert (verdict.answer, verdict.p) == ("undecided", None)
    assert "identical results" in verdict.reason


def test_the_page_lists_the_claims_as_they_are_judged() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "label-skew.md"
    rows = re.findall(r"^\| ([A-Z]\d?) \| ([^|]+) \|", page.read_text("utf-8"), re.MULTILINE)
    assert dict(rows) == {name: claim.text for name, claim in label_claims.LISTED.items()}
