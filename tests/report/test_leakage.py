"""The page about leakage says in words what its table says in numbers."""

from types import SimpleNamespace
from typing import Any

import pandas as pd

from plfl.experiments.leakage import OCCUPANCY, OWN, SENDER, STUDY
from plfl.report.leakage import page

WEEKEND, NIGHT = OCCUPANCY


def test_the_page_tells_what_is_clear_and_what_protections_hide() -> None:
    values = {  # without protection, and with noise, of two seeds each
        SENDER: (0.25, (0.8, 0.82), (0.5, 0.29)),
        NIGHT: (0.5, (0.7, 0.6), (0.6, 0.56)),
        STUDY: (0.5, (0.53, 0.6), (0.5, 0.5)),
        WEEKEND: (0.5, (0.4, 0.5), (0.5, 0.5)),
        OWN: (0.5, (float("nan"),) * 2, (float("nan"),) * 2),
    }
    rows = [
        (question, chance, name, seed, value)
        for question, (chance, *of) in values.items()
        for name, pair in zip(("nothing", "clip 1, noise 2"), of, strict=True)
        for seed, value in enumerate(pair)
    ]
    columns = ["question", "chance", "protection", "seed", "value"]
    study: Any = SimpleNamespace(name="my", data=SimpleNamespace(origin="sample data"))
    cell: Any = "NY-P2-fedopt-adam-fedavg-1"
    lines = page(study, cell, pd.DataFrame(rows, columns=columns)).splitlines()
    told = [line for line in lines if "by chance in" in line]
    assert [line.rpartition(":")[2] for line in told] == [
        " right in 81 of 100 cases, by chance in 25 (clearly better)",
        " right in 45 of 100 cases, by chance in 50 (no better)",
        " right in 65 of 100 cases, by chance in 50 (clearly better)",
        " right in 56 of 100 cases, by chance in 50 (hardly better)",
    ]
    (hidden,) = (line for line in lines if "With `clip 1, noise 2`" in line)
    assert "sees only the server's parameters" in hidden
    assert NIGHT in hidden
    assert "comes from" not in hidden, "in one seed it is no better than chance"
    assert any(line.startswith(f"| {OWN} | 0.50 | – | – |") for line in lines)
