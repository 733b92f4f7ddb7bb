"""The page as a visitor sees it: opened from the disk, in a real browser, without a network."""

import re
from dataclasses import asdict
from pathlib import Path
from urllib.parse import unquote, urlparse

import pandas as pd
import pytest

from plfl.report import figures, page
from plfl.results.tables import Tables
from tests.helpers import fake_results

LOST = "CA-P1-fedopt-prox-fedavg-10"


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """The page of a study with figures as they are drawn."""
    folder = tmp_path_factory.mktemp("page")
    results = folder / "results"
    fake_results.write(results, fake_results.SMALL, (LOST,))
    for name in figures.available():
        figures.render(name, results, folder / "figures")
    page.write(results, folder / "figures", results / "index.html")
    return results / "index.html"


@pytest.fixture
def opened(browser, written):
    """The page on a laptop's screen; whatever goes wrong meanwhile fails the test."""
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    tab = context.new_page()
    wrong = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("requestfailed", lambda request: wrong.append(request.url))
    asked = []
    tab.on("request", lambda request: asked.append(urlparse(request.url)))
    tab.goto(written.as_uri())
    yield tab
    assert not wrong
    # The page itself, with or without a place in it, and pictures that are part of it.
    here = written.as_uri()
    assert all(url.scheme == "data" or url._replace(fragment="").geturl() == here for url in asked)
    context.close()


def test_it_fits_the_screen_with_every_figure(opened):
    drawings = opened.locator("figure > .drawing > svg")
    # No method of this study forms clusters.
    stems = [s for name, stems in figures.available().items() if name != "clusters" for s in stems]
    assert drawings.count() == len(stems)
    for drawing in drawings.all():
        box = drawing.bounding_box()
        assert box["width"] > 300 and box["height"] > 80
        assert drawing.locator("path").count() > 5
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for table in opened.locator("section > .wide").all():
        assert table.evaluate("e => e.scrollWidth <= e.clientWidth"), table.get_attribute(
            "aria-label"
        )


def test_what_drawings_refer_to_is_in_them(opened):
    """A clip path or letter that is taken from another drawing shows something else."""
    foreign = opened.evaluate(
        """() => [...document.querySelectorAll("svg *")].filter((element) => {
            const link = element.getAttribute("xlink:href") ?? "";
            const name = link.startsWith("#") ? link.slice(1)
                : element.getAttribute("clip-path")?.slice(5, -1);
            return name && !element.closest("svg").contains(document.getElementById(name));
        }).length"""
    )
    assert foreign == 0


def test_every_link_leads_somewhere(opened, written):
    links = opened.locator("a").evaluate_all("links => links.map((link) => link.href)")
    here = written.as_uri()
    for link in map(urlparse, links):
        if link.scheme == "data":
            continue
        assert link.scheme == "file"
        assert Path(unquote(link.path)).is_file()
        if link._replace(fragment="").geturl() == here:
            assert opened.locator(f'[id="{unquote(link.fragment)}"]').count() == 1
    assert len(links) > 20


def cells(table, column):
    return table.locator(f"tbody tr > :nth-child({column})").all_inner_texts()


def test_a_click_on_a_heading_sorts(opened):
    table = opened.get_by_role("table", name="CA: test MASE")
    head = table.get_by_role("columnheader", name="Local, last round")
    before = cells(table, 4)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    *numbers, last = cells(table, 4)
    assert last == "diverged"
    assert numbers == sorted(numbers, key=float) != before[:-1]
    assert sorted([*numbers, last]) == sorted(before)
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert cells(table, 4) == [*reversed(numbers), "diverged"]
    names = table.get_by_role("columnheader", name="ServerOpt")
    names.get_by_role("button").click()
    assert head.get_attribute("aria-sort") is None
    assert cells(table, 3) == sorted(cells(table, 3))


def test_words_filter_the_rows(opened):
    table = opened.get_by_role("table", name="CA: test MASE")
    field = opened.get_by_role("searchbox", name="Filter rows: CA: test MASE")
    every = table.locator("tbody tr").count()
    field.fill("p2 FedAvg ")
    shown = table.locator("tbody tr:visible")
    assert 0 < shown.count() < every
    for row in shown.all():
        assert row.locator("td").first.inner_text() == "P2"
        assert "FedAvg" in row.inner_text()
    assert opened.get_by_text(f"{shown.count()} of {every} rows").is_visible()
    field.fill("")
    assert shown.count() == every


def colours(tab):
    return tab.evaluate(
        "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle(document.body))"
    )


def test_colours_are_the_systems_until_the_button_says_otherwise(opened):
    light = colours(opened)
    opened.emulate_media(color_scheme="dark")
    dark = colours(opened)
    assert set(light).isdisjoint(dark)
    opened.get_by_role("button", name="Use light colours").press("Enter")
    assert colours(opened) == light
    opened.reload()
    assert colours(opened) == light, "it is remembered"
    opened.get_by_role("button", name="Use dark colours").click()
    assert colours(opened) == dark
    opened.emulate_media(media="print")
    assert colours(opened) == light


def test_it_is_legible_on_a_phone(opened):
    opened.set_viewport_size({"width": 400, "height": 800})
    opened.reload()
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for plot in opened.locator(".forest").all():
        assert plot.evaluate("e => e.scrollWidth <= e.parentElement.clientWidth")
    sizes = opened.evaluate(
        """() => [...document.querySelectorAll("main :is(p, td, th, li, caption, figcaption)")]
            .filter((e) => e.offsetParent).map((e) => parseFloat(getComputedStyle(e).fontSize))"""
    )
    assert min(sizes) >= 12
    # Drawings are scrolled instead of shrunk.
    for drawing in opened.locator("figure > .drawing > svg").all():
        assert drawing.bounding_box()["width"] == float(drawing.get_attribute("width"))
    assert not opened.get_by_role("link", name="Whole grid").is_visible()
    opened.get_by_text("Contents", exact=True).click()
    assert opened.get_by_role("link", name="Whole grid").is_visible()


def test_the_first_screen_has_the_findings(opened):
    for text in ("The best forecaster on validation", "the best federation is", "This rests on"):
        box = opened.locator("#found p", has_text=text).first.bounding_box()
        assert box["y"] + box["height"] < 768
    dots = opened.locator("#found .forest .dot")
    assert dots.count() == 5 * 3
    assert dots.first.bounding_box()["y"] < 768
    zero = opened.locator("#found .forest .zero").first.bounding_box()["x"]
    for row in opened.locator("#found .forest tbody tr").all():
        dot = row.locator(".dot").bounding_box()
        right = dot["x"] + dot["width"] / 2 > zero
        assert row.locator("td.n").first.inner_text().startswith("+" if right else "-")


def test_loads_are_sorted_as_numbers(opened):
    table = opened.get_by_role("table", name="Load in kWh")
    table.get_by_role("button", name="Mean load").click()
    loads = cells(table, 5)
    assert loads == sorted(loads, key=float)


def test_a_link_opens_its_client(opened):
    part = opened.locator("#client-IL-2")
    week = part.locator("svg.week")
    assert not week.is_visible()
    opened.get_by_role("link", name="il137").click()
    assert part.evaluate("e => e.open")
    box = week.bounding_box()
    assert box["width"] > 600 and box["height"] > 100
    for line in part.locator("svg.week path").all():
        assert line.bounding_box()["width"] > 600
    assert part.get_by_role("table").is_visible()
    assert part.get_by_text("sample data").first.is_visible()


def test_a_week_tells_its_loads(opened, written):
    opened.goto(f"{written.as_uri()}#client-IL-2")
    part = opened.locator("#client-IL-2")
    week, told = part.locator("svg.week"), part.locator("figure output")
    tables = Tables(written.parent)
    cell = tables.shown_cell("IL")
    rows = tables.forecasts(
        ["stamp", "truth", "local", "persistence"], client="il137", **asdict(cell)
    )
    box = week.bounding_box()
    opened.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    half = told.inner_text()
    at = rows.index[rows["stamp"] == pd.Timestamp(half[:16])]
    assert abs(len(rows) / 2 - rows.index.get_loc(at[0])) < 25
    week.press("ArrowRight")
    assert told.inner_text() != half
    row = rows.iloc[rows.index.get_loc(at[0]) + 1]
    text = told.inner_text()
    assert text.startswith(f"{row['stamp']:%Y-%m-%d %H:%M}: load ")
    top = float(week.get_attribute("data-high")) - float(week.get_attribute("data-low"))
    for name, value in (("load", row["truth"]), ("local model", row["local"])):
        shown = float(re.search(rf"{name} (-?[\d.]+)", text)[1])
        assert abs(shown - value) <= top / 200, "as exact as the drawing"


def test_it_can_be_printed(opened):
    opened.emulate_media(media="print")
    assert not opened.locator("nav").is_visible()
    opened.set_viewport_size({"width": 700, "height": 1000})  # A4 within its margins
    for drawing in opened.locator("figure > .drawing > svg").all():
        assert 100 < drawing.bounding_box()["width"] <= 700
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    paper = opened.pdf(format="A4")
    assert paper.startswith(b"%PDF")
