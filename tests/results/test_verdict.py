"""How comparisons become an answer: corrected for all claims, decided by the weakest."""

import numpy as np
import pytest

from plfl.results.statistics import Comparison
from plfl.results.verdict import Evidence, Verdict, judge, settle


def test_holm_spans_the_whole_table() -> None:
    found = [
        Verdict(name, "local", answer="holds", effect=1.0, p=p, p_alone=p, seeds=3)
        for name, p in [("a", 0.012), ("b", 0.03), ("c1", 0.001)]
    ]
    lacking = Verdict("e1", "local", answer="not in this study")
    settled = settle([*found, lacking])
    assert [v.p for v in settled[:3]] == pytest.approx([2 * 0.012, 0.03, 3 * 0.001])
    assert [v.answer for v in settled] == ["holds"] * 3 + ["not in this study"]
    larger = settle([*found, Verdict("f", None, answer="holds", p=0.04, p_alone=0.04)])
    assert [v.answer for v in larger] == ["holds", "undecided", "holds", "undecided"]


@pytest.mark.parametrize(("sign", "answer"), [(1, "undecided"), (-1, "does not hold")])
def test_a_cell_that_diverged_does_not_save_a_false_claim(sign: int, answer: str) -> None:
    differences = sign * np.linspace(1, 1.2, 18).reshape(6, 3)
    evidence = Evidence([Comparison(("a", "b"), {"CA": differences})], blocking=("a",))
    assert judge(Verdict("c1", "local"), evidence).answer == answer


def test_the_weakest_of_all_comparisons_decides_what_holds() -> None:
    clear, noise = np.linspace(1, 1.2, 18).reshape(6, 3), np.linspace(-3, 3, 6)[:, None]
    strong, weak = (
        Comparison((name, "c"), {"CA": table})
        for name, table in (("a", clear), ("b", clear + noise))
    )
    for comparisons in ([strong, weak], [weak, strong]):
        verdict = judge(Verdict("c1", "local"), Evidence(comparisons))
        assert (verdict.answer, verdict.cells) == ("holds", weak.cells)
