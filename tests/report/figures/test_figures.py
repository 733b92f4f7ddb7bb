"""What holds for every figure."""

import hashlib
import itertools
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import matplotlib.image
import pytest
from docutils.core import publish_doctree  # type: ignore[import-untyped]
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from plfl.base.errors import PlflError
from plfl.report.figures import available, caption, draw
from plfl.report.figures.nothing import EMPTY
from plfl.report.figures.style import PAGE, fit, panels, save, style
from plfl.results.tables import Tables
from tests.helpers import fake_results
from tests.helpers.fake_results import render
from tests.helpers.refusals import naming
from tests.report.figures.conftest import Drawn, Results

REPORT = Path(__file__).resolve().parents[3] / "workflow" / "report"
EVERY_TINY = tuple(f"CA-{split}-fedopt-adam-fedavg-10" for split in ("P1", "P2", "P3"))


def _texts(figure: Figure) -> list[tuple[str, tuple[float, float, float, float]]]:
    """Every piece of text that is really drawn, with its box in pixels."""
    drawn: list[Text] = []
    original = Text.draw

    def record(self: Text, renderer: RendererBase, *args: Any, **kwargs: Any) -> None:
        drawn.append(self)
        original(self, renderer, *args, **kwargs)

    canvas = FigureCanvasAgg(figure)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", record)
        canvas.draw()  # type: ignore[no-untyped-call]
    # The box of slanted text says nothing about where its letters are, nor does a label's leader.
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    return [
        (text.get_text(), Text.get_window_extent(text, renderer).extents)
        for text in drawn
        if text.get_text() and text.get_visible() and not text.get_rotation() % 90
    ]


@pytest.mark.parametrize("name", available())
@pytest.mark.parametrize(
    ("config", "diverged"),
    [
        ("TINY", EVERY_TINY),
        ("METERS", ()),
        ("LONG", ()),
        ("METHODS", ()),
    ],
    ids=["tiny, all diverged", "meters", "long names", "methods"],
)
def test_text_neither_overlaps_nor_leaves_the_page_and_marks_sample_data(
    name: str, config: str, diverged: tuple[str, ...], drawn: Drawn
) -> None:
    for stem, figure in drawn(name, config, *diverged).items():
        assert figure.get_size_inches()[0] <= PAGE
        texts = _texts(figure)
        marks = [text for text, _ in texts].count("sample data")
        assert marks == (config in ("TINY", "METHODS")), stem
        width, height = figure.bbox.size
        for text, (left, bottom, right, top) in texts:
            inside = left >= -1 and bottom >= -1 and right <= width + 1 and top <= height + 1
            assert inside, f"{stem}: {text!r} is cut off"
        for (one, a), (other, b) in itertools.combinations(texts, 2):
            across = min(a[2], b[2]) - max(a[0], b[0])
            along = min(a[3], b[3]) - max(a[1], b[1])
            assert min(across, along) < 1, f"{stem}: {one!r} overlaps {other!r}"


def _digests(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def test_files_are_the_same_to_the_byte_one_by_one_and_together_in_another_process(
    results: Results, tmp_path: Path
) -> None:
    folder = results("TINY").folder
    shown = {name: available()[name] for name in ("convergence", "fig3_mase", "ranks", "week")}
    paths = [path for name in shown for path in render(name, folder, tmp_path / "here")]
    stems = [stem for stems in shown.values() for stem in stems]
    assert [path.name for path in paths] == [s + e for s in stems for e in (".pdf", ".png", ".svg")]

    code = (
        "import sys; from pathlib import Path; from plfl.report import figures\n"
        f"figures.available = lambda study: {shown}\n"
        "list(figures.render_all(Path(sys.argv[1]), Path(sys.argv[2])))"
    )
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    subprocess.run(
        [sys.executable, "-c", code, str(folder), str(tmp_path / "there")],
        env={**os.environ, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo"},
        check=True,
    )
    assert _digests(tmp_path / "there") == _digests(tmp_path / "here")


def test_settings_of_the_user_do_not_change_a_figure(results: Results, tmp_path: Path) -> None:
    folder = results("TINY").folder
    render("fig2_bytes", folder, tmp_path / "plain")
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "yellow", "savefig.dpi": 50}):
        render("fig2_bytes", folder, tmp_path / "styled")
    assert _digests(tmp_path / "plain") == _digests(tmp_path / "styled")


def test_a_layout_that_differs_in_its_last_bits_gives_the_same_files(tmp_path: Path) -> None:
    files = []
    for name, noise in (("a", 0.0), ("b", 1e-13)):
        figure = Figure((2, 2))
        figure.add_axes((0.1 + noise, 0.2, 0.7, 0.7)).plot([0, 1], [0, 1])
        files.append(save(figure, tmp_path / name))
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_an_unknown_figure_is_told(results: Results, tmp_path: Path) -> None:
    with naming(PlflError, "'fig9'", "fig1_loads"):
        render("fig9", results("TINY").folder, tmp_path)


class _Snakemake:
    def __init__(self, source: str):
        self.config = {"name": "demo", "data": {"source": source}}
        self.params = SimpleNamespace(captions={name: caption(name) for name in available()})


@pytest.mark.parametrize("path", sorted(REPORT.glob("*.rst")), ids=lambda path: path.stem)
def test_captions_of_the_report_render_and_mark_sample_data(path: Path) -> None:
    template = jinja2.Template(path.read_text(encoding="utf-8"), undefined=jinja2.StrictUndefined)
    text = {
        source: publish_doctree(
            template.render(snakemake=_Snakemake(source)), settings_overrides={"halt_level": 2}
        ).astext()
        for source in ("sample", "comstock")
    }
    assert "sample data" in text["sample"].lower()
    assert "sample data" not in text["comstock"].lower()


def test_dollars_in_names_are_no_formulas(tmp_path: Path) -> None:
    name = "feeder_$a_0_$b"
    with style():
        figure, axes = panels(1, 1, (3, 2))
        axes[0, 0].set_title(fit(name, 40))
        figure.savefig(tmp_path / "x.svg")
    assert f"<!-- {name} -->" in (tmp_path / "x.svg").read_text(encoding="utf-8")


def test_tables_keep_names_as_they_are(results: Results) -> None:
    tables: Tables = results("LONG")
    assert set(tables.summary["state"]) == {"Nordrhein_Westfalen_Mittelspannung", "NA"}
    assert "none" in set(tables.summary["sharing"])


def test_results_without_baselines_are_drawn_without_them(tmp_path: Path) -> None:
    """Data of a deployed study stay with their clients, so it has none."""
    fake_results.write(tmp_path, fake_results.TINY)
    fake_results.without_baselines(tmp_path)
    tables = Tables(tmp_path)
    assert len(draw("fig3_mase", tables)["fig3_mase_local"].axes) == 4, "panels and colour bar"
    for name in ("convergence", "pareto", "week"):
        (legend,) = draw(name, tables)[name].legends
        labels = [text.get_text() for text in legend.get_texts()]
        assert not [label for label in labels if "baseline" in label]


@pytest.mark.parametrize(
    ("name", "sharing", "lost"),
    [
        ("clusters", "P1", False),
        ("ranks", "P1", False),
        ("fig2_bytes", "P3", False),
        ("week", "P1", True),
    ],
)
def test_a_figure_with_nothing_to_show_says_so(
    name: str, sharing: str, lost: bool, drawn: Drawn, tmp_path: Path
) -> None:
    grid = fake_results.TINY["grid"] | {"sharing": [sharing]}
    diverged = (f"CA-{sharing}-fedopt-adam-fedavg-10",) if lost else ()
    fake_results.write(tmp_path, fake_results.TINY | {"grid": grid}, diverged=diverged)
    (figure,) = draw(name, Tables(tmp_path)).values()
    assert [text.get_gid() for text in figure.axes[0].texts] == [EMPTY]
    for full in drawn(name, "METHODS").values():
        assert EMPTY not in {text.get_gid() for axis in full.axes for text in axis.texts}
