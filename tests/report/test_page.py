"""The page holds the study's numbers, whole and readable, in one file."""

import base64
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from plfl.base.errors import ResultsError
from plfl.report import answer, page
from plfl.report.figures import available
from plfl.report.rendering import format_signed, with_interval
from plfl.results.comparisons import COMPARISONS_FILE, read
from plfl.results.records import CELL, read_table, write_table
from plfl.results.selection import contender_in_use
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.results.words import baseline_label
from plfl.study import Study
from tests.helpers import fake_results
from tests.helpers.kept_baselines import write_sums
from tests.helpers.refusals import naming

LOST = "CA-P1-fedopt-prox-fedavg-10"
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """Elements in order, the text of table cells, and whether every tag is closed."""

    def __init__(self, html: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.captioned: list[tuple[str, list[list[str]]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.captioned.append(("", []))
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data
        if "caption" in self.open:
            caption, table = self.captioned[-1]
            self.captioned[-1] = (caption + data, table)
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data

    @property
    def tables(self) -> list[list[list[str]]]:
        return [table for _, table in self.captioned]

    def table(self, caption: str) -> list[list[str]]:
        """The only table whose caption starts like this."""
        (found,) = (table for text, table in self.captioned if text.startswith(caption))
        return found

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def _write(folder: Path, config: dict[str, Any], *diverged: str) -> Path:
    """What a page of a study needs; where it will be."""
    fake_results.write(folder / "results", config, diverged=diverged)
    fake_results.pictures(folder / "figures")
    return folder / "results" / "index.html"


def _page(out: Path, charts: bool = True) -> Page:
    """The page, written and read; without the data of its charts it takes half of the time."""
    with pytest.MonkeyPatch.context() as patch:
        if not charts:
            patch.setattr(page, "charts", lambda tables: {"specs": {}, "datasets": {}})
            patch.setattr(page, "library", str)
        page.write(out.parent, out.parent.parent / "figures", out)
    return Page(out.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = _write(tmp_path_factory.mktemp("small"), fake_results.SMALL, LOST)
    _page(out)
    return out


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a study of six meters with one optimiser and two seeds."""
    data = {"source": "meters", "states": ["all"], "clients": 6, "meters": {"interval": 60}}
    grid = fake_results.TINY["grid"] | {"seeds": [1, 2]}
    config = fake_results.TINY | {"name": "six", "data": data, "grid": grid}
    out = _write(tmp_path_factory.mktemp("six"), config)
    _page(out)
    return out


@pytest.fixture(scope="module")
def parsed(small: Path) -> Page:
    return Page(small.read_text(encoding="utf-8"))


def test_the_card_of_the_public_model_is_linked(tmp_path: Path, parsed: Page) -> None:
    config = fake_results.TINY | {"baselines": {"further": [{"name": "public", "kind": "homes"}]}}
    fake_results.write(tmp_path / "results", config, baseline=lambda _: 0.5)
    fake_results.pictures(tmp_path / "figures")
    page = _page(tmp_path / "results" / "index.html", charts=False)
    assert [link for link in page.all("a") if link["href"] == "#card-homes"]
    assert [block for block in page.all("details") if block.get("id") == "card-homes"]
    assert page.text.index("UK Power Networks") > page.text.index("To repeat the study")
    assert "UK Power Networks" in page.text and "It must not be used for billing" in page.text
    assert not [link for link in parsed.all("a") if link["href"].startswith("#card-")]


def test_a_model_that_has_seen_the_data_has_no_rank(tmp_path: Path) -> None:
    further = [{"name": "public", "kind": "homes", "trained_on_this_dataset": True}]
    config = fake_results.TINY | {"baselines": {"further": further}}
    fake_results.write(tmp_path / "results", config, baseline=lambda _: 0.01)
    fake_results.pictures(tmp_path / "figures")
    page = _page(tmp_path / "results" / "index.html", charts=False)
    rows = page.table("The best of each way of sharing")
    assert "does not count" in rows[-1][0] and float(rows[-1][1][:5]) == 0.01
    assert not [row for row in rows[:-1] if "does not count" in row[0]]
    assert [row["class"] for row in page.all("tr") if "uncounted" in row.get("class", "")] == [
        "baseline uncounted"
    ]


def test_every_client_has_a_row(small: Path, parsed: Page) -> None:
    clients = Tables(small.parent).clients
    table = parsed.table("Test MASE of each")
    column = {name: i for i, name in enumerate(table[0])}
    rows = table[1:]
    assert [row[column["Client"]] for row in rows] == clients["client"].tolist()
    means = [float(row[column["Mean load"]]) for row in rows]
    assert means == pytest.approx(clients["mean"].tolist(), rel=1e-3)
    scores = Tables(small.parent).records(
        ["mase"], client="il137", sharing="P3", client_opt="adam", server_opt="fedavg",
        split="test", model="local", round=4,
    )  # fmt: skip
    assert rows[4][column["Client"]] == "il137"
    use = contender_in_use(Variant("", {}, Tables(small.parent)), "IL")
    assert use is not None
    peak = 10 * use.by_client("mase")["il137"]  # as the fake results have it
    assert rows[4][column["In use"]] == f"{peak / 10:.3f}"
    told = rows[4][column["Daily peak off by"]].replace("\N{NO-BREAK SPACE}", " ")
    assert told == f"{peak:.1f} %, 1.5 h"
    assert rows[4][column["P3"]] == f"{scores['mase'].item():.3f}"
    client_rows = Tables(small.parent).baselines.query("client == 'il137' and split == 'test'")
    best = Tables(small.parent).best_baseline("IL")
    mase = client_rows.set_index("baseline")["mase"][best]
    assert rows[4][column["Best baseline"]] == f"{mase:.3f}"


def test_sample_data_are_called_so(parsed: Page, small: Path, six: Path) -> None:
    assert "small (sample data)" in parsed.text
    assert "Its numbers say nothing about real loads." in parsed.text
    figures = [*available(Tables(small.parent).study), "week", "convergence"]
    assert parsed.text.count("Sample data.") == 1 + len(figures)
    assert "sample data" not in Page(six.read_text(encoding="utf-8")).text.lower()


def test_noise_as_of_more_clients_is_called_an_extrapolation(parsed: Page, tmp_path: Path) -> None:
    block = {"clip": 1, "noise": 1, "noise_as_of": 1000}
    grid = {"sharing": ["P2"], "client_opt": ["adam"], "server_opt": ["fedavg"]}
    config = fake_results.TINY | {"grid": grid, "federation": {"rounds": 1, "privacy": block}}
    told = _page(_write(tmp_path, config), charts=False).text
    assert "only the noise of 1,000 clients is added" in told
    assert "Extrapolation" not in parsed.text


def test_the_page_says_which_data_are_simulated() -> None:
    assert "simulated (EnergyPlus), release 2023" in page.source_of(Study())


def test_it_is_one_file_that_asks_nothing_of_the_network(small: Path, parsed: Page) -> None:
    data = {"type": "application/json", "id": "chart-data"}
    assert parsed.all("script") == [data, {}, {}], "none with a source"
    text = small.read_text(encoding="utf-8").replace(page.library(), "")
    assert len(text) < 2_000_000 and not re.findall(r"url\((?!#)|@import|https?://cdn", text)
    assert [link["href"] for link in parsed.all("link")] == ["data:,"]
    assert all(image["src"].startswith("data:") for image in parsed.all("img"))


def test_the_configuration_can_be_taken_along(small: Path, parsed: Page) -> None:
    (link,) = (link for link in parsed.all("a") if "download" in link)
    kind, content = link["href"].split(",")
    assert (kind, link["download"]) == ("data:text/yaml;base64", "small.yaml")
    again = Study.parse(yaml.safe_load(base64.b64decode(content)), "the page")
    assert again == Tables(small.parent).study
    assert "plfl study small.yaml" in parsed.text


def test_links_lead_to_files_that_are_there_and_to_places_in_the_page(small, parsed):
    targets = [link["href"] for link in parsed.all("a")]
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets if target.startswith("#")} <= set(ids)
    files = {target for target in targets if not target.startswith(("#", "data:"))}
    assert files == {*page.STUDY_FILES} - {COMPARISONS_FILE}, "fake results lack it: it is computed"
    assert all((small.parent / file).is_file() for file in files)


def test_it_is_readable_without_eyes(parsed: Page, small: Path) -> None:
    assert parsed.all("html")[0]["lang"] == "en"
    names = [image["alt"].split(":")[0] for image in parsed.all("img")]
    figures = available(Tables(small.parent).study).values()
    assert sorted(names) == sorted(f"Figure {stem}" for stems in figures for stem in stems)
    tags = [tag for tag, _ in parsed.elements]
    assert tags.count("caption") == tags.count("table") == len(parsed.tables)
    scopes = {"col", "row", "colgroup", "rowgroup"}
    assert all(head["scope"] in scopes for head in parsed.all("th"))
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_names_cannot_write_html(tmp_path: Path) -> None:
    config = fake_results.TINY | {
        "data": {"source": "meters", "states": ["CA"], "clients": 2, "meters": {"folder": "<i>x"}}
    }
    out = _write(tmp_path, config)
    clients = pd.read_parquet(out.parent / "clients.parquet")
    evil = '<script>alert("&")</script>'
    for name in ("clients", "records", "errors", "forecasts", "baselines", "baseline_forecasts"):
        table = pd.read_parquet(out.parent / f"{name}.parquet")
        table["client"] = table["client"].replace(clients["client"][0], evil)
        table.to_parquet(out.parent / f"{name}.parquet")
    parsed = _page(out)
    assert len(parsed.all("script")) == 3 and not parsed.all("i")
    assert evil in parsed.text and "folder <i>x" in parsed.text


def test_the_same_results_give_the_same_bytes(small: Path) -> None:
    before = small.read_bytes()
    page.write(small.parent, small.parent.parent / "figures", small)
    assert small.read_bytes() == before


def test_a_study_of_which_everything_diverged_still_has_a_page(tmp_path: Path) -> None:
    lost = [f"CA-{split}-fedopt-adam-fedavg-10" for split in ("P1", "P2", "P3")]
    parsed = _page(_write(tmp_path, fake_results.TINY, *lost))
    assert [row[1] for row in parsed.table(BEST)].count("diverged") == 2 + 2 + 1


def test_a_missing_figure_leaves_no_page(tmp_path: Path) -> None:
    out = _write(tmp_path, fake_results.TINY)
    (tmp_path / "figures" / "fig2_bytes.svg").unlink()
    with naming(ResultsError, "fig2_bytes.svg"):
        page.write(out.parent, tmp_path / "figures", out)
    assert not out.exists()


def test_the_first_screen_has_the_errors_in_percent_of_the_load(six: Path) -> None:
    """The fake loads are ten times the error of persistence, so that WAPE is a tenth of MASE."""
    text = Page(six.read_text(encoding="utf-8")).text
    errors = re.search(r"mean error was ([\d.]+) \(.*? and ([\d.]+) \(", text)
    percents = re.search(r"\(WAPE\): ([\d.]+)\s% and ([\d.]+)\s%", text)
    assert errors and percents
    for percent, error in zip(percents.groups(), errors.groups(), strict=True):
        assert float(percent) == pytest.approx(10 * float(error), abs=0.1)
    assert "sum of absolute errors over the sum of loads" in text
    assert "it is not energy saved" in text


def test_series_of_less_than_half_of_the_months_are_named(tmp_path: Path) -> None:
    out = _write(tmp_path, fake_results.TINY)
    clients = pd.read_parquet(out.parent / "clients.parquet")
    assert "longest series" not in _page(out, charts=False).text
    clients.loc[0, "rows"] = clients["rows"][0] * 5 // 12
    clients.to_parquet(out.parent / "clients.parquet")
    text = _page(out, charts=False).text
    assert f"readings of 12.0 months, {clients['client'][0]} of 5.0: less than half" in text


def test_a_client_is_scored_by_its_mean_over_seeds(six: Path) -> None:
    tables, parsed = Tables(six.parent), Page(six.read_text(encoding="utf-8"))
    scores = tables.records(
        ["seed", "mase"], sharing="P1", client="all100", round=2, split="test", model="local"
    )
    assert scores["seed"].tolist() == [1, 2]
    table = parsed.table("Test MASE of each")
    column = table[0].index("P1")
    assert [table[1][0], table[1][column]] == ["all100", f"{scores['mase'].mean():.3f}"]


BEST = "The best of each way of sharing"


def test_the_best_cells_stand_among_the_baselines_by_validation(small: Path, parsed: Page) -> None:
    tables = Tables(small.parent)
    head, *rows = parsed.table(BEST)
    columns = ["Test MASE", "95 %", "Validation MASE", "WAPE, %", "MB sent"]
    assert head == ["State", "Forecaster", *columns]
    titles = [row["title"] for row in parsed.all("tr") if "title" in row]
    all_rows, rows = rows, [row for row in rows if not row[1].startswith("in use")]
    assert len(titles) == len(rows)
    shown = {
        title: row
        for title, row in zip(titles, rows, strict=True)
        if "the server's model" not in row[1]
    }
    for state in ("CA", "IL", "NY"):
        here = [row for row in rows if row[0] == state]
        assert len(here) == 2 + 2 + 1 + len(fake_results.BASELINES)
        # The four weeks that this one looks back do not fit before validation.
        assert (
            here[-1][1] == "Seasonal naive (mean of 4 weeks) naive_weeks" and here[-1][4] == "n/a"
        )
        order = [float(row[4]) for row in all_rows if row[0] == state and row[4] != "n/a"]
        assert order == sorted(order)
        in_use = [row for row in all_rows if row[0] == state and row[1].startswith("in use: ")]
        variant = Variant("", {}, tables)
        use = contender_in_use(variant, state)
        assert use is not None
        assert [row[2].split(" ")[0] for row in in_use] == [f"{use.by_client('mase').mean():.3f}"]
        for name, row in tables.baseline_scores.loc[state].drop("naive_weeks").iterrows():
            entries = shown[f"{state}-baseline-{name}"]
            assert entries[1] == f"{baseline_label(str(name))} {name}"
            shares = [f"{row[column]:.3f}" for column in ("mase_mean", "validation_mase")]
            assert [entries[2], entries[4]] == shares
            low, high = map(float, entries[3].split(" to "))
            assert low <= row["mase_mean"] + 0.001 and high >= row["mase_mean"] - 0.001
        for split in ("P1", "P2", "P3"):
            cell = tables.best("local", state=state, sharing=split)
            assert cell is not None
            entries = shown[str(cell).rpartition("-")[0]]
            wape = 10 * fake_results.scores_of(tables, cell).mean()  # as the fake results have it
            assert float(entries[5]) == pytest.approx(wape, abs=0.06)
    megabytes = {row[1]: row[6] for row in rows if row[0] == "CA"}
    sent = 3 * 4 * 482_208 / 1e6  # clients, rounds, bytes of a client and round
    assert {f"{sent:.3g}", "0"} <= set(megabytes.values())
    assert megabytes["LightGBM, pooled lightgbm_pooled"] == f"{3 * 126_144 / 1e6:.3g}"


def test_a_cell_is_best_by_the_mean_over_its_seeds_with_their_deviation(tmp_path: Path) -> None:
    grid = {"client_opt": ["sgd", "adam"], "server_opt": ["fedavgm", "fedyogi"], "seeds": [1, 2]}
    out = _write(tmp_path, fake_results.TINY | {"grid": grid})
    summary = pd.read_csv(out.parent / "summary.csv", keep_default_na=False, na_values=[""])
    here = summary["sharing"] == "P2"
    summary.loc[here, "validation_mase"] = 3.0
    # One lucky seed does not make a cell the best: its mean is 1.05, the other cell's 0.9.
    for optimiser, server, scores in (
        ("sgd", "fedyogi", (0.1, 2.0)), ("adam", "fedavgm", (0.8, 1.0))
    ):  # fmt: skip
        for seed, score in zip((1, 2), scores, strict=True):
            rows = here & (summary["client_opt"] == optimiser) & (summary["server_opt"] == server)
            summary.loc[rows & (summary["seed"] == seed), "validation_mase"] = score
    summary.to_csv(out.parent / "summary.csv", index=False)
    table = _page(out, charts=False).table(BEST)
    own, other = (row for row in table if row[0].startswith("FedAvgM with Adam, P2 (body shared)"))
    names = [row[0].partition(", the server")[0] for row in (own, other)]
    assert names[0] == names[1]
    records = pd.read_parquet(out.parent / "records.parquet").query(
        "sharing == 'P2' and client_opt == 'adam' and server_opt == 'fedavgm' and round == 2 "
        "and split == 'test'"
    )
    for row in (own, other):
        model = "global" if "server's" in row[0] else "local"
        means = records[records["model"] == model].groupby("seed")["mase"].mean()
        assert row[1] == f"{means.mean():.3f} ± {means.std():.3f}"
        assert row[3] == "0.900"


def test_intervals_have_columns_where_quantiles_were_forecast(tmp_path: Path) -> None:
    task = {"name": "quantiles", "levels": [0.05, 0.5, 0.95], "conformal": "personal"}
    out = _write(tmp_path, fake_results.TINY | {"task": task})
    assert "Coverage" not in _page(out, charts=False).text
    for name in ("records", "baselines"):
        table = pd.read_parquet(out.parent / f"{name}.parquet")
        first = table["client"] == table["client"].min()
        table["scaled_crps"] = table["mase"] / 2
        table["coverage_90"] = table["mase"].where(table["mase"].isna(), 0.9) - 0.12 * first
        table["width_90"] = 3 * table["mase"]
        table.to_parquet(out.parent / f"{name}.parquet")
    summary = pd.read_csv(out.parent / "summary.csv")
    means = {
        "scaled_crps_mean": summary["mase_mean"] / 2,
        "width_90_mean": 3 * summary["mase_mean"],
    }
    summary.assign(**means, coverage_90_mean=0.84).to_csv(out.parent / "summary.csv", index=False)
    parsed = _page(out, charts=False)
    head, *rows = parsed.table(BEST)
    column = {name: i for i, name in enumerate(head)}
    scored = [row for row in rows if row[1] != "n/a"]
    assert len(scored) > 10
    for row in scored:
        mase = float(row[1])
        assert float(row[column["CRPS"]]) == pytest.approx(mase / 2, abs=1e-3)
        assert float(row[column["Width, 90 %"]]) == pytest.approx(3 * mase, abs=2e-3)
        assert row[column["Coverage, 90 %"]] == "84.0"
        assert row[column["Least covered, 90 %"]] == "78.0"


def test_comparisons_without_claims_have_no_verdicts(parsed):
    assert "names no claims" in parsed.text
    assert "Verdict" not in parsed.table("Differences of test MASE")[0]


def test_one_table_has_all_comparisons_and_only_claims_have_verdicts(tmp_path):
    named = [{"better": "P2", "than": "P1"}, {"better": "P1-moon", "than": "P1"}]
    grid = fake_results.SMALL["grid"] | {"method": ["fedopt", "moon"], "client_opt": ["adam"]}
    out = _write(tmp_path, fake_results.SMALL | {"claims": named, "grid": grid})
    table = _page(out, charts=False).table("Differences of test MASE")
    assert table[0][3] == "Verdict"
    rows = [row for row in table[1:] if len(row) > 1]
    found = read(out.parent, Tables(out.parent).study)
    assert all(row[0].startswith(text) for row, text in zip(rows, found["text"], strict=True))
    assert rows[0][0].startswith(
        "P2 (body shared) has a lower error than P1 (everything shared) (c1)"
    )
    assert all(row[3].startswith("○ undecided") for row in rows[:2])
    assert not any(row[3].strip() for row in rows[2:])
    for row, v in zip(rows, found.itertuples(), strict=True):
        assert row[2] == f"{v.difference:+.3g} [{v.low:+.3g}, {v.high:+.3g}]"
    assert "Run at least 3 seeds (grid.seeds)." in rows[0][0]


def test_the_answer_says_lower_and_higher_in_words(six: Path) -> None:
    parsed = Page(six.read_text(encoding="utf-8"))
    (span,) = re.findall(r"\(95\s%\srange: (.*?)\)", parsed.text)
    end = r"[\d.]+\s%"
    assert re.fullmatch(rf"{end}( higher)? to {end} (lower|higher)", span)
    numbers = [cell for row in parsed.table("What each meter gains")[1:] for cell in row[1:4]]
    assert numbers and not any(re.match(r"-0(\.0*)?(\s|$)", number) for number in numbers)


def test_a_study_without_baselines_has_a_page(tmp_path: Path) -> None:
    """The data of a deployed study stay with its clients."""
    out = _write(tmp_path, fake_results.TINY)
    fake_results.without_baselines(out.parent)
    forecasts = pd.read_parquet(out.parent / "forecasts.parquet")
    forecasts[list(CELL)].head(0).to_parquet(out.parent / "forecasts.parquet")
    parsed = _page(out)
    rows = [row for row in parsed.table(BEST)[1:] if not row[0].startswith("in use")]
    assert len(rows) == 2 + 2 + 1
    assert "so there are no baselines" in parsed.text
    assert "Best baseline" not in parsed.table("Test MASE of each")[0]
    assert "baselines.parquet" not in {link["href"] for link in parsed.all("a")}


def test_a_baseline_that_failed_is_named(tmp_path: Path) -> None:
    out = _write(tmp_path, fake_results.TINY)
    path = out.parent / "baselines.parquet"
    table = pd.read_parquet(path)
    ridge = table["baseline"] == "ridge"
    table.loc[ridge, ["mae", "rmse", "mase"]] = np.nan
    table.assign(failed=np.where(ridge, "RuntimeError: <b>singular</b>", "")).to_parquet(path)
    parsed = _page(out, charts=False)
    assert "Ridge failed and has no score: RuntimeError: <b>singular</b>" in parsed.text


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser, without a window; where there is none, its tests are skipped."""
    driver = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("needs chromium on the PATH")
    with driver.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=program)
        yield opened
        opened.close()


@pytest.mark.parametrize(("width", "height", "colours"), [(1400, 900, "light"), (400, 800, "dark")])
def test_a_reader_of_six_meters_walks_the_page(six, browser, width, height, colours):
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=colours)
    tab, wrong = context.new_page(), []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda message: wrong.append(message.text))
    tab.goto(six.as_uri())

    def ends(place: str) -> tuple[float, float]:
        box = tab.locator(place).first.bounding_box()
        return box["x"] + box["width"], box["y"] + box["height"]

    assert ends("#answer strong")[1] < ends("#answer p")[1] < height, "the answer is in sight"
    assert ends("#answer p")[1] < ends(".gains tbody tr")[1] < height * (1 if width > 400 else 1.5)
    assert ends("#standings td.n")[0] < width, "the score is in sight"
    for number in tab.locator(".gains td.n").all():
        box = number.bounding_box()
        assert 0 < box["x"] < box["x"] + box["width"] <= width
    parts = tab.locator("main > section").evaluate_all("all => all.map((part) => part.id)")
    assert parts == ["answer", "weeks", "standings", "comparisons", "clients", "figures", "run"]
    for chart in ("convergence", "week"):
        tab.locator(f"#{chart} .live svg").first.wait_for()
    lines = tab.locator("#week .live svg .mark-line path")
    assert lines.count() == 4, "load, forecast, best baseline, persistence"
    filtered = tab.locator(".drawing img").first.evaluate("one => getComputedStyle(one).filter")
    assert (filtered != "none") == (colours == "dark")
    told = tab.locator("main").inner_text().partition("What was run")[0]
    assert not re.search(r"\b[Cc]lients?\b", told)
    assert tab.evaluate("document.querySelectorAll('*').length") <= 3000
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert not wrong
    context.close()


def test_a_reader_sorts_filters_and_chooses(six, browser):
    tab = browser.new_page()
    tab.goto(six.as_uri())
    scores = tab.locator("#clients tbody tr > :nth-child(4)")
    before = scores.all_inner_texts()
    tab.locator("#clients th").nth(3).get_by_role("button").click()
    assert scores.all_inner_texts() == sorted(before, key=float) != before
    week = tab.locator("#week .live svg .mark-line path").first
    week.wait_for()
    shape = week.get_attribute("d")
    tab.locator("#week").get_by_label("Meter").select_option("all137")
    assert week.get_attribute("d") != shape
    curves = tab.locator("#convergence .live svg .mark-line path")
    assert curves.count() == 2, "of one optimiser, two models"
    tab.locator("#convergence").get_by_label("Sharing scheme").select_option("P3")
    assert curves.count() == 1
    tab.emulate_media(media="print")
    assert not tab.locator("nav").is_visible()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.close()


def test_numbers_of_rounds_are_tried_within_one_training() -> None:
    raw: dict[str, Any] = {"name": "own", "grid": {"sharing": ["P2"]}}
    search: dict[str, list[float]] = {"server_opt.*.lr": [0.1, 1]}
    study = Study.parse(raw | {"tuning": {"search": search}}, "test")
    assert page.describe_tuning(study, 2).endswith("2 trials each, each trained for all rounds")
    assert page.describe_tuning(study, 1) == "as configured"
    search["federation.rounds"] = [10, 40, 20]
    study = Study.parse(raw | {"tuning": {"search": search}}, "test")
    text = page.describe_tuning(study, 6)
    assert "6 trials each: 2 choices, scored after 10, 20 and 40 rounds of one training" in text


def test_a_client_that_was_not_scored_at_the_end_has_a_row(tmp_path: Path) -> None:
    """It was not connected at the last evaluation of a deployment."""
    results, figures = tmp_path / "results" / "tiny", tmp_path / "figures" / "tiny"
    name = fake_results.write(results, fake_results.TINY).clients["client"].iloc[0]
    file = results / "records.parquet"
    records = read_table(file)
    is_last = (records["round"] == 2) & (records["split"] != "train")
    write_table(records[~(is_last & (records["client"] == name))], file)
    fake_results.pictures(figures)
    page.write(results, figures, results / "index.html")
    assert str(name) in (results / "index.html").read_text(encoding="utf-8")


def test_a_difference_that_is_rounded_keeps_its_sign() -> None:
    assert with_interval(-0.0002, -0.0101, 0.00996) == "-0.0002 [-0.010, +0.010]"
    assert with_interval(0.0041, -0.0003, 0.0088) == "+0.004 [-0.0003, +0.009]"
    assert with_interval(-0.00001, -0.0, 0.0) == "-0.000 [+0.000, +0.000]"
    assert (format_signed(-0.4, 0), format_signed(-0.04, 0), format_signed(12.4, 0)) == (
        "-0.4",
        "-0",
        "+12",
    )


def test_an_unknown_interval_of_new_clients_is_not_shown() -> None:
    row = {"about": "new", "better": "P2", "error": 0.5, "chosen_than": "naive"}
    row |= {"error_than": 0.75, "difference": -0.25, "low": np.nan, "high": np.nan}
    study = Study.parse({"name": "own"}, "test")
    (text,) = answer.explain_new_clients(study, pd.DataFrame([row]))
    assert text.endswith("0.750 (difference -0.250).")
    row |= {"low": -0.5, "high": 0.125}
    (text,) = answer.explain_new_clients(study, pd.DataFrame([row]))
    assert text.endswith("(difference -0.250 [-0.500, +0.125]).")


def test_a_sum_that_is_worse_than_a_day_before_is_warned_of(tmp_path: Path) -> None:
    data = {"source": "meters", "states": ["all"], "clients": 6, "meters": {"interval": 60}}
    out = _write(tmp_path, fake_results.TINY | {"data": data})
    write_sums(out.parent, state="all")
    text = " ".join(_page(out, charts=False).text.split())
    assert text.count("Do not add these forecasts: of the sum they were wrong by") == 2
    write_sums(out.parent, state="all", naive_day=2.0)
    assert "Do not add" not in _page(out, charts=False).text


def test_of_several_states_those_with_such_sums_are_named(tmp_path: Path) -> None:
    data = fake_results.TINY["data"] | {"states": ["CA", "NY"]}
    out = _write(tmp_path, fake_results.TINY | {"data": data})
    write_sums(out.parent, state="CA")
    text = " ".join(_page(out, charts=False).text.split())
    assert "Do not add the forecasts of CA: of their sums" in text
    assert "CA: Do not add these forecasts: of the sum they were wrong by" in text
