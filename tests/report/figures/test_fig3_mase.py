"""The heat maps say what the summary says."""

from itertools import product

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from plfl.baselines import catalogue
from plfl.report.figures import draw
from plfl.report.figures.fig3_mase import scale
from plfl.results.records import MODELS
from plfl.results.tables import Tables
from tests.helpers.contrast import contrast
from tests.report.figures.conftest import Drawn, Results

LOST = ("CA-P1-fedopt-prox-fedavg-10", "NY-P2-fedopt-adam-fedavgadaptive-10")


def _panels(figure: Figure) -> list[Axes]:
    return [axis for axis in figure.axes if axis.texts and axis.get_label() != "baselines"]


def _strips(figure: Figure) -> list[Axes]:
    return [axis for axis in figure.axes if axis.get_label() == "baselines"]


def _baselines(axis: Axes) -> dict[str, str]:
    """The baselines that a panel names, with their numbers."""
    shown = [text.get_text() for text in axis.texts]
    return dict(zip(shown[::2], shown[1::2], strict=True))


def _squares(axis: Axes) -> list[Rectangle]:
    return [p for p in axis.patches if isinstance(p, Rectangle) and p.get_fill()]


def _expected(tables: Tables, model: str) -> list[list[str]]:
    """The numbers of each panel, row by row, straight from the summary."""
    table = tables.summary
    table = table[(table["model"] == model) & (table["chosen"] == "last")]
    study, panels = tables.study, []
    for state, scheme in product(study.data.states, study.grid.sharing):
        alone = scheme in ("P3", "alone")
        servers = study.grid.server_opt[:1] if alone else study.grid.server_opt
        here = table[(table["state"] == state) & (table["sharing"] == scheme)]
        cells = here.groupby(["client_opt", "server_opt"])
        means, lost = cells["mase_mean"].mean(), cells["diverged"].any()
        panels.append(
            [
                "div." if lost[key] else f"{means[key]:.2f}"
                for key in product(study.grid.client_opt, servers)
            ]
        )
    return panels


@pytest.mark.parametrize(
    ("config", "lost"),
    [("SMALL", LOST), ("METERS", ("Ost-head-fedopt-sgd-fedyogi-2",))],
)
def test_numbers_are_those_of_the_summary(
    config: str, lost: tuple[str, ...], results: Results, drawn: Drawn
) -> None:
    tables, figures = results(config, *lost), drawn("fig3_mase", config, *lost)
    for model in MODELS:
        shown = [
            [text.get_text() for text in axis.texts]
            for axis in _panels(figures[f"fig3_mase_{model}"])
        ]
        assert shown == _expected(tables, model)


def _boxes(axis: Axes, *, hatched: bool) -> list[tuple[int, int]]:
    """Row and column of the squares that carry a hatch or a frame."""
    patches = [p for p in axis.patches if isinstance(p, Rectangle) and not p.get_fill()]
    return [(int(p.get_y()), int(p.get_x())) for p in patches if bool(p.get_hatch()) is hatched]


def test_diverged_cells_are_hatched_and_the_best_is_framed(drawn: Drawn) -> None:
    panels = _panels(drawn("fig3_mase", "SMALL", *LOST)["fig3_mase_local"])
    assert [_boxes(axis, hatched=True) for axis in panels] == [
        [(1, 0)], [], [], [], [], [], [], [(0, 1)], []
    ]  # fmt: skip
    for axis in panels:
        numbers = [text.get_text() for text in axis.texts]
        columns = len(axis.get_xticks())
        ((row, column),) = _boxes(axis, hatched=False)
        assert float(numbers[row * columns + column]) == min(
            float(n) for n in numbers if n != "div."
        )
        bold = [text.get_text() for text in axis.texts if text.get_fontweight() == "bold"]
        assert bold == [numbers[row * columns + column]]


def test_baselines_are_those_of_the_table_in_the_colours_of_the_grid(results: Results) -> None:
    tables = results("SMALL", *LOST)
    table = tables.baselines[tables.baselines["split"] == "test"]
    for figure in draw("fig3_mase", tables).values():
        strips = _strips(figure)
        assert len(strips) == 3
        mesh = next(c for c in _panels(figure)[0].collections if isinstance(c, QuadMesh))
        for state, axis in zip(tables.study.data.states, strips, strict=True):
            here = table[(table["state"] == state) & (table["baseline"] != "persistence")]
            means = here.groupby("baseline", sort=False)["mase"].mean()
            assert _baselines(axis) == {
                catalogue()[name].label: f"{mean:.2f}" for name, mean in means.items()
            }
            for patch, mean in zip(_squares(axis), means, strict=True):
                assert patch.get_facecolor() == pytest.approx(mesh.to_rgba(mean))
            bold = [text.get_text() for text in axis.texts if text.get_fontweight() == "bold"]
            best = tables.best_baseline(state) or ""
            assert bold == [catalogue()[best].label, f"{means[best]:.2f}"]


def test_every_number_reads_against_its_square(drawn: Drawn) -> None:
    for figure in drawn("fig3_mase", "SMALL", *LOST).values():
        for axis in _panels(figure):
            (mesh,) = (c for c in axis.collections if isinstance(c, QuadMesh))
            squares = mesh.to_rgba(np.ma.asarray(mesh.get_array())).reshape(-1, 4)
            for text, square in zip(axis.texts, squares, strict=True):
                assert contrast(text.get_color(), square[:3]) >= 4.5, text.get_text()
        for axis in _strips(figure):
            pairs = zip(axis.texts[::2], axis.texts[1::2], _squares(axis), strict=True)
            for name, value, patch in pairs:
                for text in (name, value):
                    colours = text.get_color(), patch.get_facecolor()[:3]
                    assert contrast(*colours) >= 4.5, text.get_text()


def test_an_optimiser_that_fails_does_not_make_all_others_look_alike() -> None:
    good = np.linspace(1.0, 1.3, 30)
    whole = scale(good)
    assert whole.vmin == pytest.approx(1)
    assert whole.vmax == pytest.approx(1.3)
    cut = scale(np.append(good, [4.0, 50.0, np.nan]))
    assert cut.vmin == pytest.approx(1)
    assert cut.vmax is not None
    assert 1.3 <= cut.vmax < 1.6


def test_scores_over_a_wide_range_get_a_logarithmic_scale() -> None:
    assert isinstance(scale(np.geomspace(0.5, 50, 40)), LogNorm)
    assert scale(np.full(3, np.nan)).vmax == 1
