"""The page holds the study's numbers, whole and readable, in one file."""

import base64
import re
from html.parser import HTMLParser
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

from plfl import page
from plfl.errors import ResultsError
from plfl.figures import available
from plfl.results.tables import Tables, client_label, server_label
from tests import fake_results

LOST = "CA-P1-fedopt-prox-fedavg-10"
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """Elements in order, the text of table cells, and whether every tag is closed."""

    def __init__(self, html: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def _pictures(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for stem in (stem for stems in available().values() for stem in stems):
        matplotlib.image.imsave(folder / f"{stem}.png", np.zeros((20, 30, 3)))
    return folder


def _write(folder: Path, config: dict[str, Any], *diverged: str) -> Path:
    fake_results.write(folder / "results", config, diverged)
    out = folder / "results" / "index.html"
    page.write(folder / "results", _pictures(folder / "figures"), out)
    return out


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(tmp_path_factory.mktemp("small"), fake_results.SMALL, LOST)


@pytest.fixture(scope="module")
def parsed(small: Path) -> Page:
    return Page(small.read_text(encoding="utf-8"))


def test_the_grid_has_every_cell_with_its_four_scores(small: Path, parsed: Page) -> None:
    tables = Tables(small.parent)
    study = tables.study
    grids = [
        table for table in parsed.tables if table[0][:3] == ["Split", "ClientOpt", "ServerOpt"]
    ]
    assert len(grids) == len(study.data.states)
    summary = tables.summary.set_index(
        ["state", "personalization", "client_opt", "server_opt", "model", "chosen"]
    )
    for state, (_, _, *rows) in zip(study.data.states, grids, strict=True):
        shown, split = {}, ""
        for row in rows:
            split = row.pop(0) if len(row) == 7 else split
            shown[split, row[0], row[1]] = row[2:]
        for key in product(
            *(getattr(study.grid, axis) for axis in ("personalization", "client_opt", "server_opt"))
        ):
            alone = study.shares_nothing(key[0])
            name = (key[0], client_label(key[1]), "none" if alone else server_label(key[2]))
            expected = []
            for of in product(("local", "global"), ("last", "best_validation")):
                row = summary.loc[(state, *key, *of)]
                expected.append("diverged" if row["diverged"] else f"{row['mase_mean']:.3f}")
            assert shown[name] == expected
        assert len(shown) == 2 * 2 + 2 * 2 + 2
    assert any("diverged" in row for table in grids for row in table)


def test_best_cells_are_chosen_on_validation(small: Path, parsed: Page) -> None:
    summary = Tables(small.parent).summary
    (best,) = (table for table in parsed.tables if "Validation, local" in table[0])
    assert len(best) == 1 + 9
    row = best[2]
    assert row[0] == "P2 (lstm.* shared)"
    here = summary[
        (summary["state"] == "CA")
        & (summary["personalization"] == "P2")
        & (summary["chosen"] == "last")
    ]
    local = here[here["model"] == "local"]
    chosen = local.sort_values("validation_mase").iloc[0]
    other = here[
        (here["model"] == "global")
        & (here["client_opt"] == chosen["client_opt"])
        & (here["server_opt"] == chosen["server_opt"])
    ]
    assert row[1] == f"{client_label(chosen['client_opt'])} + {server_label(chosen['server_opt'])}"
    numbers = [chosen["validation_mase"], chosen["mase_mean"], other["mase_mean"].item()]
    assert row[2:] == [f"{value:.3f}" for value in numbers]


def test_bytes_are_those_of_the_paper(parsed: Page) -> None:
    (table,) = (table for table in parsed.tables if "Both ways, B" in table[0])
    space = "\u202f"
    assert table[1:] == [
        ["P1 (all shared)", f"241{space}104", f"241{space}104", f"482{space}208", "100.00 %"],
        ["P2 (lstm.* shared)", f"14{space}000", f"14{space}000", f"28{space}000", "5.81 %"],
        ["P3 (nothing shared)", "0", "0", "0", "0.00 %"],
    ]


def test_every_client_has_a_row(small: Path, parsed: Page) -> None:
    clients = Tables(small.parent).clients
    (table,) = (table for table in parsed.tables if "Client" in table[0])
    rows = [row[-8:] if len(row) == 9 else row for row in table[1:]]
    assert [row[1] for row in rows] == clients["client"].tolist()
    assert [row[0] for row in rows] == ["1", "2", "3"] * 3
    assert [float(row[3]) for row in rows] == pytest.approx(clients["mean"].tolist(), rel=1e-3)
    scores = Tables(small.parent).records(
        ["mase"], client="il137", personalization="P3", client_opt="adam", server_opt="fedavg",
        split="test", model="local", round=4,
    )  # fmt: skip
    assert rows[4][1] == "il137"
    assert rows[4][-1] == f"{scores['mase'].item():.3f}"


def test_sample_data_are_called_so(parsed: Page, tmp_path: Path) -> None:
    assert "small (sample data)" in parsed.text
    assert "Its numbers say nothing about real loads." in parsed.text
    assert parsed.text.count("Sample data.") == 1 + len(available())
    other = Page(_write(tmp_path, fake_results.METERS).read_text(encoding="utf-8"))
    assert "sample data" not in other.text.lower()


def test_it_is_one_file_that_asks_nothing_of_the_network(small: Path, parsed: Page) -> None:
    assert not parsed.all("script")
    assert "url(" not in small.read_text(encoding="utf-8")
    assert [link["href"] for link in parsed.all("link")] == ["data:,"]
    images = parsed.all("img")
    assert len(images) == sum(len(stems) for stems in available().values())
    for image in images:
        kind, content = image["src"].split(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(content).startswith(b"\x89PNG")
        assert (image["width"], image["height"]) == ("15", "10"), "two pixels a CSS pixel"


def test_links_lead_to_files_that_are_there_and_to_places_in_the_page(
    small: Path, parsed: Page
) -> None:
    targets = [link["href"] for link in parsed.all("a")]
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets if target.startswith("#")} <= set(ids)
    files = {target for target in targets if not target.startswith("#")}
    assert files == set(page.FILES)
    assert all((small.parent / file).is_file() for file in files)


def test_it_is_readable_without_eyes(parsed: Page) -> None:
    assert parsed.all("html")[0]["lang"] == "en"
    names = [image["alt"].split(":")[0] for image in parsed.all("img")]
    assert names == [f"Figure {stem}" for stems in available().values() for stem in stems]
    tags = [tag for tag, _ in parsed.elements]
    assert tags.count("caption") == tags.count("table") == len(parsed.tables)
    scopes = {"col", "row", "colgroup", "rowgroup"}
    assert all(head["scope"] in scopes for head in parsed.all("th"))
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(
    ("ink", "paper"),
    [(ink, paper) for ink in ("ink", "quiet", "link", "warn") for paper in ("paper", "band")]
    + [("warn", "warn-band")],
)
def test_contrast_is_that_of_wcag_aa(ink: str, paper: str, small: Path) -> None:
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", small.read_text(encoding="utf-8")))
    low, high = sorted((_luminance(colours[ink]), _luminance(colours[paper])))
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_names_cannot_write_html(tmp_path: Path) -> None:
    config = fake_results.TINY | {
        "data": {"source": "meters", "states": ["CA"], "clients": 2, "meters": {"folder": "<i>x"}}
    }
    out = _write(tmp_path, config)
    clients = pd.read_parquet(out.parent / "clients.parquet")
    evil = '<script>alert("&")</script>'
    for name in ("clients", "records", "forecasts"):
        table = pd.read_parquet(out.parent / f"{name}.parquet")
        table["client"] = table["client"].replace(clients["client"][0], evil)
        table.to_parquet(out.parent / f"{name}.parquet")
    page.write(out.parent, tmp_path / "figures", out)
    parsed = Page(out.read_text(encoding="utf-8"))
    assert not parsed.all("script") and not parsed.all("i")
    assert evil in parsed.text and "folder <i>x" in parsed.text


def test_the_same_results_give_the_same_bytes(small: Path) -> None:
    before = small.read_bytes()
    page.write(small.parent, small.parent.parent / "figures", small)
    assert small.read_bytes() == before


def test_two_seeds_and_names_that_look_like_nothing(tmp_path: Path) -> None:
    meters = Page(_write(tmp_path / "m", fake_results.METERS).read_text(encoding="utf-8"))
    assert "mean over clients and 2 seeds" in meters.text
    assert "Seed" in meters.tables[1][0]
    assert "120 cells" in meters.text
    long = Page(_write(tmp_path / "l", fake_results.LONG).read_text(encoding="utf-8"))
    assert "NA (1 clients)" not in long.text and "NA (1 client)" in long.text


def test_a_study_of_which_everything_diverged_still_has_a_page(tmp_path: Path) -> None:
    lost = [f"CA-{split}-fedopt-adam-fedavg-10" for split in ("P1", "P2", "P3")]
    parsed = Page(_write(tmp_path, fake_results.TINY, *lost).read_text(encoding="utf-8"))
    assert parsed.text.count("every cell diverged") == 3


def test_a_missing_figure_leaves_no_page(tmp_path: Path) -> None:
    out = _write(tmp_path, fake_results.TINY)
    out.unlink()
    (tmp_path / "figures" / "week.png").unlink()
    with pytest.raises(ResultsError, match=r"week\.png: the figure is missing; draw"):
        page.write(out.parent, tmp_path / "figures", out)
    assert not out.exists()


def test_the_verdicts_stand_first(parsed: Page) -> None:
    claims = parsed.tables[0]
    assert claims[0] == ["Claim", "Model", "Verdict", "Rests on"]
    answers = {row[2] for row in claims[1:]}
    assert answers <= {"holds", "does not hold", "undecided", "not in this study"}
    assert all(row[3] for row in claims[1:])
