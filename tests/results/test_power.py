"""What is recommended decides as often as it says."""

import re

import numpy as np
import pytest

from plfl.results.power import POWER, advice, undecidable
from plfl.results.statistics import ALPHA, Comparison
from plfl.study import Study


def comparison(clients: float = 0.1, weeks: float = 0.03, seeds: float = 0.01) -> Comparison:
    """An effect of 0.04 over 12 clients, 8 weeks and 4 seeds, which vary by these deviations."""
    rng, sizes = np.random.default_rng(3), (12, 4, 8)
    parts = [
        rng.normal(0, deviation, size)
        for deviation, size in zip((clients, seeds, weeks), sizes, strict=True)
    ]
    varied = [part - part.mean() for part in parts]
    whole = 0.04 + varied[0][:, None, None] + varied[1][:, None] + varied[2]
    return Comparison((), {"CA": whole / 8})


def test_the_recommended_number_decides_with_the_stated_probability() -> None:
    of = comparison()
    found = re.search(r"With about (\d+) clients \(12 now\)", advice(of, ALPHA))
    assert found
    n, rng = int(found[1]), np.random.default_rng(1)
    deviations = {name: (part.variance * part.levels) ** 0.5 for name, part in of.parts.items()}

    def study() -> Comparison:
        shape = {"clients": (n, 1, 1), "seeds": (1, 4, 1), "weeks": (1, 1, 8)}
        parts = [rng.normal(0, deviations[name], shape[name]) for name in shape]
        return Comparison((), {"CA": (0.04 + sum(parts)) / 8})

    decided = np.mean([study().p < ALPHA for _ in range(600)])
    assert decided == pytest.approx(POWER, abs=0.06)


def test_only_what_helps_is_recommended() -> None:
    assert "seeds (4 now)" in advice(comparison(clients=0.0, seeds=0.08), ALPHA)
    assert advice(comparison(clients=50.0), ALPHA).startswith("More clients, weeks or seeds alone")


def test_where_a_factor_is_unknown_it_comes_first() -> None:
    single = Comparison((), {"CA": comparison().differences["CA"][:, :1, :1]})
    assert advice(single, ALPHA) == (
        "Run at least 4 weeks of test (windows.split or data.origins) and 3 seeds (grid.seeds)."
    )


def test_a_study_that_can_decide_nothing_says_so_before_it_runs() -> None:
    def study(clients: int, seeds: list[int]) -> Study:
        data = {"source": "sample", "clients": clients}
        return Study.parse({"data": data, "grid": {"seeds": seeds}}, "small")

    assert undecidable(study(30, [1, 2])) == ""
    assert "with 6 clients only large differences" in undecidable(study(2, [1, 2]))
    assert "one seed and one client" in undecidable(study(1, [4]))
    assert "3 seeds (grid.seeds)" in undecidable(study(2, [4]))
