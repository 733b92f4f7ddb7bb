"""What the tests of the figures share."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from matplotlib.figure import Figure

from plfl.report.figures import draw
from plfl.results.tables import Tables
from tests.helpers import fake_results

Results = Callable[..., Tables]
Drawn = Callable[..., dict[str, Figure]]


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Tables of a synthetic study: `results("SMALL", "name of a diverged cell", …)`."""

    @cache
    def tables(config: str, *diverged: str) -> Tables:
        folder = tmp_path_factory.mktemp(config.lower())
        content: dict[str, Any] = getattr(fake_results, config)
        fake_results.write(folder, content, diverged=diverged)
        return Tables(folder)

    return tables


@pytest.fixture(scope="session")
def drawn(results: Results) -> Drawn:
    """A figure of a synthetic study, drawn once: `drawn("week", "SMALL", …)`, as `results`."""
    return cache(lambda name, config, *diverged: draw(name, results(config, *diverged)))
