"""The page and the figures of the variants of a study of classifiers."""

from pathlib import Path

import pytest

from plfl.cli.main import main
from plfl.results.overview import Overview, gather
from plfl_images.report import overview
from plfl_images.report.figures import grouped, look
from plfl_images.results.variants import compared
from tests.helpers import classified
from tests.images.test_classifier_variants import errors, folder, swept
from tests.images.test_classify import study as tiny

__all__ = ["folder"]


def test_the_page_shows_every_variant(folder: Path) -> None:
    (folder / "s=1,participation=0.3" / "index.html").write_text("the page")
    assert main(["report", str(folder)]) == 0
    text = (folder / "index.html").read_text(encoding="utf-8")
    for label in swept().variants:
        assert label.replace(",", ", ").replace("=", "=<wbr>") in text
    best = Overview(folder).table("best.csv")
    accuracy = 100 * best.loc[best["model"] == "global", "accuracy_tail"]
    cells = [f"{value:.1f} ± " for value in accuracy]
    for shown in ("FedADC", "FedAvg", "majority", "5 against 1", *cells):
        assert shown in text
    assert text.count("<img") == len(overview.CAPTIONS)
    assert "MASE" not in text
    assert 'href="s%3D1%2Cparticipation%3D0.3/index.html"' in text


def test_no_two_rows_look_alike() -> None:
    """A row has one look in all panels; in a panel with the first row, no colour is there twice."""
    rows = [{"method": str(k)} for k in range(20)]
    drawn = {row["method"]: look(k) for k, row in enumerate(rows)}
    assert len({tuple(each.values()) for each in drawn.values()}) == len(rows)
    for group in grouped(rows):
        assert len({drawn[row["method"]]["color"] for row in group}) == len(group)


def test_a_panel_per_variant(folder: Path) -> None:
    lines = overview.Lines(Overview(folder))
    figure = overview.curves(lines)
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == [f"s={s}, participation={share}" for share in (0.3, 0.6) for s in (1, 2, 5)]
    assert [line.get_label() for line in figure.axes[0].lines] == ["FedAvg", "FedADC"]
    # The end: a panel per participation, the labels along it.
    shown = overview.ends(lines).axes[:2]
    assert [axis.get_title() for axis in shown] == ["participation=0.3", "participation=0.6"]


def test_the_values_of_an_axis_are_the_lines_of_a_single_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = tiny(grid={"seeds": [0, 1], "data.skew.s": [1, 2, 5]})
    for variant in study.variants.values():
        classified.write(variant, variant.results, errors)
    gather(study, study.results, None, compared)
    (axis,) = overview.curves(overview.Lines(Overview(study.results))).axes
    assert [line.get_label() for line in axis.lines] == ["s=1", "s=2", "s=5"]


@pytest.mark.parametrize(
    "chosen, shown",
    [
        ("client_opt.sgd.lr=0.2", "lr=0.2"),
        ("client_opt.sgd.lr=0.2, method.fedprox.mu=0.1", "lr=0.2, mu=0.1"),
        ("client_opt.sgd.lr=0.2, server_opt.fedadam.lr=1",) * 2,
        ("", ""),  # nothing was chosen
    ],
)
def test_chosen_values_have_short_names_where_these_differ(chosen: str, shown: str) -> None:
    assert overview._briefly(chosen) == shown
