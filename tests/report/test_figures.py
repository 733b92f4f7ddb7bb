"""The figures show the numbers of the tables, are readable, and are the same to the byte."""

import hashlib
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from plfl.report.figures import available, draw
from plfl.report.figures.fig3_mase import scale
from plfl.report.figures.style import PAGE_WIDTH, fit, panels, save, style
from plfl.results.ranking import mase_by_client, rank_methods
from plfl.results.records import MODELS
from plfl.results.scores import scores
from plfl.results.tables import Tables
from plfl.results.traffic import mean_traffic
from plfl.results.words import baseline_label
from plfl.study import Study
from plfl_images.reporting import ImageReporting
from tests.helpers import fake_results
from tests.helpers.constructed import config as constructed
from tests.helpers.fake_results import render
from tests.helpers.repository import ROOT

EVERY_TINY = tuple(f"CA-{split}-fedopt-adam-fedavg-10" for split in ("P1", "P2", "P3"))
LOST = ("CA-P1-fedopt-prox-fedavg-10", "NY-P2-fedopt-adam-fedavgadaptive-10")
ONE_STATE = fake_results.SMALL | {"data": fake_results.SMALL["data"] | {"states": ["CA"]}}

Results = Callable[..., Tables]
Drawn = Callable[..., dict[str, Figure]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Tables of a synthetic study: `results("SMALL", "name of a diverged cell", …)`."""

    @cache
    def tables(config: str, *diverged: str) -> Tables:
        content: dict[str, Any] = getattr(fake_results, config)
        folder = tmp_path_factory.mktemp(config.lower())
        return fake_results.write(folder, content, diverged=diverged)

    return tables


@pytest.fixture(scope="module")
def drawn(results: Results) -> Drawn:
    """A figure of a synthetic study, drawn once: `drawn("ranks", "SMALL", …)`, as `results`."""
    return cache(lambda name, config, *diverged: draw(name, results(config, *diverged)))


# What holds for every figure


def _study(**blocks: Any) -> Study:
    return Study.parse(fake_results.TINY | blocks, "test")


def test_a_study_has_the_figures_in_which_it_has_something_to_show() -> None:
    grid = fake_results.TINY["grid"]
    assert set(available(_study())) == {"fig1_loads", "fig2_bytes", "ranks"}
    assert "fig3_mase" in available(_study(grid=grid | {"client_opt": ["adam", "sgd"]}))
    assert "ranks" not in available(_study(grid=grid | {"sharing": ["P1"]}))
    assert "fig2_bytes" not in available(_study(grid=grid | {"sharing": ["P3"]}))


def test_the_readme_lists_the_figures_that_there_are() -> None:
    text = (ROOT / "figures" / "README.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    stems = {stem for stems in available().values() for stem in stems}
    images = {*ImageReporting.drawn_files, *ImageReporting().captions(_study())}
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == stems | images


def _texts(figure: Figure) -> list[tuple[str, tuple[float, float, float, float]]]:
    """Every piece of text that is really drawn, with its box in pixels."""
    written: list[Text] = []
    original = Text.draw

    def record(self: Text, renderer: RendererBase, *args: Any, **kwargs: Any) -> None:
        written.append(self)
        original(self, renderer, *args, **kwargs)

    canvas = FigureCanvasAgg(figure)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", record)
        canvas.draw()  # type: ignore[no-untyped-call]
    # The box of slanted text says nothing about where its letters are, nor does a label's leader.
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    return [
        (text.get_text(), Text.get_window_extent(text, renderer).extents)
        for text in written
        if text.get_text() and text.get_visible() and not text.get_rotation() % 90
    ]


@pytest.mark.parametrize("name", available())
@pytest.mark.parametrize(
    ("config", "diverged"),
    [("TINY", EVERY_TINY), ("METERS", ()), ("METHODS", ())],
    ids=["tiny, all diverged", "meters", "methods"],
)
def test_text_neither_overlaps_nor_leaves_the_page_and_marks_sample_data(
    name, config, diverged, results, drawn
):
    if name not in available(results(config, *diverged).study):
        return
    for stem, figure in drawn(name, config, *diverged).items():
        assert figure.get_size_inches()[0] <= PAGE_WIDTH
        texts = _texts(figure)
        marks = [text for text, _ in texts].count("sample data")
        assert marks == (config in ("TINY", "METHODS")), stem
        width, height = figure.bbox.size
        for text, (left, bottom, right, top) in texts:
            inside = left >= -1 and bottom >= -1 and right <= width + 1 and top <= height + 1
            assert inside, f"{stem}: {text!r} is cut off"
        for (text, a), (other, b) in itertools.combinations(texts, 2):
            across = min(a[2], b[2]) - max(a[0], b[0])
            along = min(a[3], b[3]) - max(a[1], b[1])
            assert min(across, along) < 1, f"{stem}: {text!r} overlaps {other!r}"


def _digests(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def test_files_are_the_same_to_the_byte_one_by_one_and_together_in_another_process(tmp_path):
    folder = tmp_path / "results"
    fake_results.write(folder, ONE_STATE, diverged=LOST)
    some = {name: available()[name] for name in ("fig1_loads", "fig3_mase")}
    paths = [path for name in some for path in render(name, folder, tmp_path / "here")]
    stems = [stem for stems in some.values() for stem in stems]
    assert [path.name for path in paths] == [s + e for s in stems for e in (".pdf", ".png", ".svg")]

    code = (
        "import sys; from pathlib import Path; from plfl.report import figures\n"
        f"figures.available = lambda study: {some}\n"
        "list(figures.render_all(Path(sys.argv[1]), Path(sys.argv[2])))"
    )
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    subprocess.run(
        [sys.executable, "-c", code, str(folder), str(tmp_path / "there")],
        env={**os.environ, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo"},
        check=True,
    )
    assert _digests(tmp_path / "there") == _digests(tmp_path / "here")


def test_a_layout_that_differs_in_its_last_bits_gives_the_same_files(tmp_path: Path) -> None:
    files = []
    for name, noise in (("a", 0.0), ("b", 1e-13)):
        figure = Figure((2, 2))
        figure.add_axes((0.1 + noise, 0.2, 0.7, 0.7)).plot([0, 1], [0, 1])
        files.append(save(figure, tmp_path / name))
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_dollars_in_names_are_no_formulas(tmp_path: Path) -> None:
    name = "feeder_$a_0_$b"
    with style():
        figure, axes = panels(1, 1, (3, 2))
        axes[0, 0].set_title(fit(name, 40))
        figure.savefig(tmp_path / "x.svg")
    assert f"<!-- {name} -->" in (tmp_path / "x.svg").read_text(encoding="utf-8")


def test_results_without_baselines_are_drawn_without_them(tmp_path: Path) -> None:
    """Data of a deployed study stay with their clients, so it has none."""
    fake_results.write(tmp_path, ONE_STATE)
    fake_results.without_baselines(tmp_path)
    tables = Tables(tmp_path)
    assert len(draw("fig3_mase", tables)["fig3_mase_local"].axes) == 4, "panels and a colour bar"


# The paper's figures


def test_loads_are_those_of_the_clients_in_their_order(results: Results, drawn: Drawn) -> None:
    tables = results("METERS")
    axes = drawn("fig1_loads", "METERS")["fig1_loads"].axes
    assert [axis.get_title() for axis in axes] == tables.study.data.states
    for axis in axes:
        here = tables.clients[tables.clients["state"] == axis.get_title()].sort_values("order")
        number = np.arange(1, len(here) + 1)
        expected = [(number - 0.1, here["mean"]), (number + 0.1, here["std"])]  # none is hidden
        dots = np.asarray(axis.collections[0].get_offsets())
        np.testing.assert_allclose(dots, np.hstack(expected).T)
    assert axes[0].get_ylabel() == "Load (kWh per 60 min)"


def test_bytes_are_those_of_each_method_in_both_directions(tmp_path: Path) -> None:
    axes = {"method": ["fedopt", "scaffold", "ifca"], "sharing": ["P1", "P2", "P3"]}
    grid = fake_results.METHODS["grid"] | axes
    tables = fake_results.write(tmp_path, fake_results.METHODS | {"grid": grid})
    sent = tables.records(["sharing", "method", "bytes_up", "bytes_down"], split="train")
    (axis,) = draw("fig2_bytes", tables)["fig2_bytes"].axes
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert names[:2] == ["P1, FedOpt", "P1, SCAFFOLD"] and names[-1] == "P3 (local training)"
    expected = []
    for scheme, method in mean_traffic(tables).index:
        rows = sent[(sent["sharing"] == scheme) & (sent["method"] == method)]
        ((up, down),) = set(rows[["bytes_up", "bytes_down"]].itertuples(index=False, name=None))
        expected.append(up + down)
    totals = [int("".join(filter(str.isdigit, text.get_text()))) for text in axis.texts]
    assert totals == expected
    assert expected[:3] == [2 * 241104 * copies for copies in (1, 2, 3)]
    first_widths = [
        bar.get_width() for bars in axis.containers for bar in bars if bar.get_y() < 0.5
    ]
    assert [width for width in first_widths if width] == [241104, 241104], (
        "the parts of the first total"
    )


def _numbers(tables: Tables, model: str) -> list[list[str]]:
    """The numbers of each panel, row by row, straight from the summary."""
    table = tables.summary
    table = table[table["model"] == model]
    study, found = tables.study, []
    for state, scheme in product(study.data.states, study.grid.sharing):
        servers = study.grid.server_opt[: 1 if scheme in ("P3", "alone") else None]
        here = table[(table["state"] == state) & (table["sharing"] == scheme)]
        cells = here.groupby(["client_opt", "server_opt"])
        means, lost = cells["mase_mean"].mean(), cells["diverged"].any()
        keys = list(product(study.grid.client_opt, servers))
        finite = [f"{means[key]:.2f}" for key in keys if not lost[key]]
        found.append(finite + ["div."] * sum(lost[key] for key in keys))
    return found


@pytest.mark.parametrize(
    ("config", "lost"), [("SMALL", LOST), ("METERS", ("Ost-head-fedopt-sgd-fedyogi-2",))]
)
def test_heat_maps_say_what_the_tables_say(config, lost, results, drawn):
    tables = results(config, *lost)
    states, schemes = tables.study.data.states, tables.study.grid.sharing
    baseline_rows = tables.baselines[tables.baselines["split"] == "test"]
    for model in MODELS:
        axes = drawn("fig3_mase", config, *lost)[f"fig3_mase_{model}"].axes
        grid = np.array(axes[: len(states) * (len(schemes) + 1)], object)
        grid = grid.reshape(len(states), -1)
        written = [[text.get_text() for text in axis.texts] for axis in grid[:, :-1].flat]
        assert written == _numbers(tables, model)
        for state, axis in zip(states, grid[:, -1], strict=True):
            here = baseline_rows[baseline_rows["state"] == state]
            means = here.groupby("baseline", sort=False)["mase"].mean().drop("persistence")
            assert [text.get_text() for text in axis.texts] == [f"{mean:.2f}" for mean in means]
            labels = [label.get_text() for label in axis.get_yticklabels()]
            assert labels == list(map(baseline_label, means.index))
            (frame,) = _frames(axis)
            assert means.index[int(frame[0])] == tables.best_baseline(state)
    first = "P1 (everything shared)" if config == "SMALL" else "head ("
    assert grid[0, 0].get_title().replace("\n", " ").startswith(first)


def _frames(axis: Axes) -> list[tuple[float, float]]:
    """Row and column of the frames of a panel."""
    return [(box.get_y(), box.get_x()) for box in axis.patches if isinstance(box, Rectangle)]


def test_the_least_error_of_each_panel_is_framed(drawn: Drawn) -> None:
    for axis in drawn("fig3_mase", "SMALL")["fig3_mase_local"].axes[:3]:
        ((row, column),) = _frames(axis)
        written = {(t.get_position()[1] - 0.5, t.get_position()[0] - 0.5): t for t in axis.texts}
        values = {at: float(t.get_text()) for at, t in written.items() if t.get_text() != "div."}
        assert values[row, column] == min(values.values())


@pytest.mark.parametrize(
    ("scores", "first", "last"),
    [
        # A quarter, or half, of the optimisers has failed: 2.25 (2.25 / 1) ** 1.5, and so on.
        ([1.0, 2.25, 2.5, 100.0], 1, 7.59375),
        ([4.0, 4.84, 200.0, 300.0, 300.0], 4, 6.44204),
        ([4.0, 4.1, 4.2, 5.9, np.nan], 4, 5.9),  # nothing has failed
        ([2.0, 2.0], 2, 2.2),
        ([np.nan, np.inf], 0, 1),
    ],
)
def test_the_colours_of_heat_maps_end_where_outliers_begin(scores, first, last):
    norm = scale(np.array(scores))
    assert (norm.vmin, norm.vmax) == pytest.approx((first, last), rel=1e-6)
    assert isinstance(norm, LogNorm) == (last / max(first, 1) > 2.5)


def test_one_failed_optimiser_leaves_the_colours_of_others_apart(tmp_path: Path) -> None:
    def level(cell: dict[str, Any], *of: Any) -> float:
        return 60.0 if cell["client_opt"] == "prox" else fake_results.plausible(cell, *of)

    tables = fake_results.write(tmp_path, ONE_STATE, level)
    axes = draw("fig3_mase", tables)["fig3_mase_local"].axes[:3]  # P1, P2, P3
    colours = np.vstack([axis.collections[0].get_facecolor() for axis in axes])
    light = colours[:, :3] @ [0.2126, 0.7152, 0.0722]
    scores = np.array([float(text.get_text()) for axis in axes for text in axis.texts])
    assert np.ptp(light[scores < 5]) > 0.3 * np.ptp(light)
    assert np.ptp(light[scores > 50]) == 0


def test_numbers_have_the_contrast_of_a_page(drawn: Drawn) -> None:
    def luminance(colours: Any) -> Any:
        rgb = to_rgba_array(colours)[:, :3]
        linear = np.where(rgb > 0.04045, ((rgb + 0.055) / 1.055) ** 2.4, rgb / 12.92)
        return linear @ [0.2126, 0.7152, 0.0722]

    for axis in drawn("fig3_mase", "SMALL")["fig3_mase_local"].axes[:3]:
        squares = luminance(axis.collections[0].get_facecolor())
        letters = luminance([text.get_color() for text in axis.texts])
        lighter, darker = np.maximum(squares, letters), np.minimum(squares, letters)
        assert ((lighter + 0.05) / (darker + 0.05) > 4.5).all()  # WCAG, level AA


def test_the_axes_of_heat_maps_have_names_and_headings_are_whole(tmp_path: Path) -> None:
    config = {
        **fake_results.TINY,
        "windows": {"scaling": "per_client"},
        "sharing": {"P1": ["*"], "alone": [], "received": {"join": "unseen"}},
        "grid": {"client_opt": ["adam", "sgd"], "server_opt": ["fedavg"]},
    }
    config["grid"]["sharing"] = ["P1", "alone", "received"]
    axes = draw("fig3_mase", fake_results.write(tmp_path, config))["fig3_mase_local"].axes
    titles = [axis.get_title().replace("\n", " ") for axis in axes[:3]]
    assert titles[2] == "received (received without taking part)"
    assert [axis.get_xlabel() for axis in axes[:3]] == ["ServerOpt", "", "ServerOpt"]
    assert axes[0].get_ylabel() == "CA\nClientOpt"


def test_few_loads_have_an_axis_label_and_the_name_of_their_state(drawn: Drawn) -> None:
    (axis,) = drawn("fig1_loads", "TINY")["fig1_loads"].axes
    assert (axis.get_title(), axis.get_xlabel()) == ("CA", "Client")


# The other figures


def test_ranks_are_those_of_the_records_and_bars_join_what_is_alike(tmp_path: Path) -> None:
    optimiser = {"adam": 1.0, "adamams": 1.001, "prox": 2.0, "proxadam": 3.0}

    def level(cell: dict[str, Any], split: str, model: str, t: int) -> float:
        """ClientOpts far apart but for the first two; FedAdam better on validation alone."""
        fedadam = cell["server_opt"] == "fedadam"
        return optimiser[cell["client_opt"]] * (1.05 if fedadam == (split == "test") else 1.0)

    grid = {"sharing": ["P2"], "server_opt": ["fedavg", "fedadam"]}
    data = {"states": ["CA", "NY"], "clients": 12}
    tables = fake_results.write(tmp_path, constructed(grid=grid, data=data), level, constant=4)
    wanted = ["state", "client", "client_opt", "mase"]
    test = {"split": "test", "server_opt": "fedadam"}
    for axis, model in zip(draw("ranks", tables)["ranks"].axes, MODELS, strict=True):
        records = tables.records(wanted, model=model, **test).dropna()
        mase = records.groupby(["state", "client", "client_opt"])["mase"].mean().unstack()
        expected = mase.rank(axis=1).mean()
        written = [text.get_text() for text in axis.texts]
        for label, name in {"Adam": "adam", "AdamAMS": "adamams", "Prox": "prox"}.items():
            (text,) = (t for t in written if ["P2", label] in (t.split()[:2], t.split()[1:]))
            assert f"{expected[name]:.2f}" in text
        ends = axis.get_lines()[0].get_xdata()[[0, -1]]
        assert sorted(ends) == pytest.approx(sorted((expected["adam"], expected["adamams"])))
        critical = rank_methods(
            mase_by_client(tables.study, scores(tables, model))
        ).critical_difference
        assert "22 clients: mean rank" in axis.get_title()
        assert f"(CD) {critical:.2f}" in axis.get_title()


def test_a_diverged_combination_has_no_score_and_ranks_last(tmp_path: Path) -> None:
    def broken(cell: dict[str, Any], *rest: Any) -> float:
        return np.nan if cell["client_opt"] == "adam" else 1.0

    grid = {"sharing": ["P2"], "client_opt": ["adam", "prox"]}
    study = constructed(grid=grid, data={"states": ["CA"], "clients": 5})
    tables = fake_results.write(tmp_path, study, broken)
    table = mase_by_client(tables.study, scores(tables, "local"))
    assert table["P2 Adam"].isna().all() and table["P2 Prox"].notna().all()
    assert rank_methods(table).ranks["P2 Adam"] == 2


def test_ranking_follows_demsar() -> None:
    # Table 6 of Demsar (2006): four variants of C4.5 on 14 data sets (AUC, higher is better).
    auc = [
        (0.763, 0.768, 0.771, 0.798), (0.599, 0.591, 0.590, 0.569), (0.954, 0.971, 0.968, 0.967),
        (0.628, 0.661, 0.654, 0.657), (0.882, 0.888, 0.886, 0.898), (0.936, 0.931, 0.916, 0.931),
        (0.661, 0.668, 0.609, 0.685), (0.583, 0.583, 0.563, 0.625), (0.775, 0.838, 0.866, 0.875),
        (1.000, 1.000, 1.000, 1.000), (0.940, 0.962, 0.965, 0.962), (0.619, 0.666, 0.614, 0.669),
        (0.972, 0.981, 0.9751, 0.975), (0.957, 0.978, 0.946, 0.970),
    ]  # fmt: skip
    found = rank_methods(-pd.DataFrame(auc, columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]))
    assert found.ranks.round(3).tolist() == [1.964, 2.0, 2.893, 3.143]
    assert list(found.ranks.index) == ["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]
    assert found.critical_difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), rel=1e-3)
    # His 0.026 is without the correction for ties.
    assert 0.01 < found.friedman < 0.026
    difference = found.ranks["C4.5"] - found.ranks["C4.5+m+cf"]
    assert (found.p.to_numpy()[3, 0] < 0.05) == (difference > found.critical_difference)


def test_what_diverged_ranks_last() -> None:
    blocks = pd.DataFrame({"a": [np.nan] * 4, "b": [1.0, 2, 3, 4], "c": [2.0, 1, 4, 3]})
    assert rank_methods(blocks).ranks.to_dict() == {"b": 1.5, "c": 1.5, "a": 3}


SKIPPING: dict[str, Any] = {
    **fake_results.METHODS,
    "data": fake_results.METHODS["data"] | {"states": ["CA"]},
    "grid": {
        "method": ["fedopt", "fedadc", "fedprox", "ifca", "fedrep"],
        "client_opt": ["sgd", "prox"],
        "server_opt": ["fedavg", "slowmo"],
        "sharing": ["P1", "P2", "P3"],
        "refused": "skip",
    },
}


@pytest.fixture(scope="module")
def skipping(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder = tmp_path_factory.mktemp("refused")
    fake_results.write(folder / "results", SKIPPING)
    return Tables(folder / "results")


def test_the_heat_map_has_no_number_there(skipping: Tables) -> None:
    refused = {" ".join(cell) for cell in skipping.study.plan.combinations.refusals}
    assert refused == {
        *("fedadc sgd slowmo", "fedadc prox slowmo", "fedprox prox fedavg", "fedprox prox slowmo")
    }
    for figure in draw("fig3_mase", skipping).values():
        shown = [text.get_text() for axis in figure.axes for text in axis.texts]
        # Two schemes with a server; in the third, FedProx of Prox; FedRep with P1.
        assert shown.count("n/a") == 2 * 4 + 1 + 4
        assert "div." not in shown
