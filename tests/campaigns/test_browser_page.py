"""The page as a visitor sees it: opened from the disk, in a real browser; needs chromium."""

import re
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlparse

import pandas as pd
import pytest

from plfl.report import figures, page
from plfl.results.labels import client_label, server_label
from plfl.results.tables import Tables
from tests.helpers import fake_results

LOST = "CA-P1-fedopt-prox-fedavg-10"


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """The page of a study with figures as they are drawn."""
    folder = tmp_path_factory.mktemp("page")
    results = folder / "results"
    fake_results.write(results, fake_results.SMALL, diverged=(LOST,))
    for name in figures.available():
        fake_results.render(name, results, folder / "figures")
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


CHARTS = ("convergence", "fig3_mase", "pareto", "ranks", "week")


def test_it_fits_the_screen_with_every_figure(opened):
    drawings = opened.locator("figure > .drawing > img")
    # No method of this study forms clusters, and its windows have one target.
    absent = {"clusters", "horizons"}
    stems = [s for name, stems in figures.available().items() if name not in absent for s in stems]
    assert drawings.count() == len(stems)
    for name in CHARTS:
        assert chart(opened, name).bounding_box()["height"] > 80
        assert not opened.locator(f"#{name} > .drawing").first.is_visible()
    for drawing in drawings.all():
        if drawing.evaluate("e => e.closest('figure').classList.contains('drawn')"):
            continue
        box = drawing.bounding_box()
        assert box["width"] > 300 and box["height"] > 80
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for table in opened.locator("section > .wide").all():
        assert table.evaluate("e => e.scrollWidth <= e.clientWidth"), table.get_attribute(
            "aria-label"
        )


def cells(table, column):
    return table.locator(f"tbody tr > :nth-child({column})").all_inner_texts()


def whole_grid(opened):
    """The table of all cells of the first state, which is on demand."""
    opened.locator("#grid summary").first.click()
    return opened.get_by_role("table", name="CA: test MASE")


def test_a_click_on_a_heading_sorts(opened):
    table = whole_grid(opened)
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


def test_words_filter_the_rows(opened):
    part = opened.locator("details.client").first
    part.locator("summary").click()
    table, field = part.get_by_role("table"), part.get_by_role("searchbox")
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
    for drawing in opened.locator("figure:not(.drawn) > .drawing > img").all():
        assert drawing.bounding_box()["width"] == float(drawing.get_attribute("width"))
    assert not opened.get_by_role("link", name="Whole grid").is_visible()
    opened.get_by_text("Contents", exact=True).click()
    assert opened.get_by_role("link", name="Whole grid").is_visible()


def test_a_link_opens_its_client(opened):
    part = opened.locator("#client-IL-2")
    assert part.locator("table").count() == 0
    opened.get_by_role("link", name="il137").click()
    part.get_by_role("table").wait_for()
    assert part.evaluate("e => e.open")
    assert part.get_by_text("sample data").first.is_visible()


def test_a_week_is_that_of_the_chosen_client(opened, written):
    opened.locator("#week").get_by_label("Client").select_option(label="IL: il137")
    chart(opened, "week").focus()
    opened.keyboard.press("ArrowRight")
    text = told(opened, "week")
    tables = Tables(written.parent)
    cell = tables.shown_cell("IL")
    rows = tables.forecasts(["stamp", "truth", "local"], client="il137", **asdict(cell))
    at = re.match(r"il137, (.{16})", text)[1]
    row = rows[rows["stamp"] == pd.Timestamp(at)].iloc[0]
    for name, value in (("load", row["truth"]), ("federation", row["local"])):
        shown = float(re.search(rf"{name} ([\d.]+)", text)[1])
        assert shown == pytest.approx(value, rel=0.01)


def chart(tab, name):
    return tab.locator(f"#{name} .live svg[tabindex]").first


def settle(tab):
    """Wait until what was changed or scrolled is drawn."""
    tab.evaluate("() => new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)))")


def told(tab, name):
    settle(tab)  # charts of several panels answer in the next frame
    return tab.locator(f"#{name} .told").first.inner_text()


def test_charts_tell_their_values(opened, written):
    tables, texts = Tables(written.parent), {}
    for name, mark in (
        ("convergence", "[aria-label=dot] path"),
        ("fig3_mase", "[aria-label=cell] rect"),
        ("pareto", "[aria-label=dot] path"),
        ("ranks", "[aria-label=dot] circle"),
    ):
        second = chart(opened, name).locator(mark).nth(1)
        second.evaluate("e => e.scrollIntoView({block: 'center'})")
        second.hover(force=True)
        texts[name] = told(opened, name)
        assert re.search(r"(MASE|rank) \d", texts[name]), name
        assert chart(opened, name).locator("[aria-label=tip] text").count() == 1
    names = r"(\w+): (\w+), (.+) \+ (.+), local model, test MASE ([\d.]+)"
    found = re.match(names, texts["fig3_mase"])
    state, scheme, client_opt, server_opt, mase = found.groups()
    scores = tables.scores("local", "last").reset_index()
    here = scores[(scores["state"] == state) & (scores["sharing"] == scheme)]
    labels = here["client_opt"].map(client_label), here["server_opt"].map(server_label)
    row = here[(labels[0] == client_opt) & (labels[1] == server_opt)]
    assert float(mase) == pytest.approx(row["mase_mean"].item(), rel=1e-3)


def test_charts_answer_to_the_arrow_keys(opened):
    for name in CHARTS:
        chart(opened, name).focus()
        opened.keyboard.press("ArrowRight")
        first = told(opened, name)
        assert first, name
        for _ in range(3):
            opened.keyboard.press("ArrowRight")
        assert told(opened, name) not in ("", first), name


def test_filters_apply_to_the_charts(opened):
    squares = chart(opened, "fig3_mase").locator("[aria-label=cell]").first.locator("rect")
    every = squares.count()
    assert every == 3 * (4 + 4 + 2)
    controls = opened.locator("#controls")
    controls.get_by_label("State").select_option("IL")
    assert squares.count() == every / 3
    controls.get_by_label("Sharing scheme").select_option("P3")
    assert squares.count() == 2
    controls.get_by_label("Client", exact=True).select_option("il137")
    assert squares.count() == 2
    chart(opened, "fig3_mase").focus()
    opened.keyboard.press("ArrowRight")
    assert told(opened, "fig3_mase").endswith("client il137")
    controls.get_by_label("Score").select_option("rmse")
    opened.keyboard.press("Tab")
    chart(opened, "pareto").focus()
    opened.keyboard.press("ArrowRight")
    assert "RMSE" in told(opened, "pareto")


def test_two_cells_are_compared(opened, written):
    box = opened.locator("#compare")
    a, b = (box.get_by_label(side, exact=True) for side in "AB")
    names = {
        name: a.locator("option", has_text=f"IL: {name}").first
        for name in ("P2, Adam + FedAvg", "P2, Prox + FedAvg")
    }
    ids = [option.get_attribute("value") for option in names.values()]
    a.select_option(ids[0])
    b.select_option(ids[1])
    text = box.get_by_text("Test MASE, B − A").inner_text()
    scores = Tables(written.parent).scores("local", "last")["mase_mean"]
    effect = (
        scores["IL", "P2", "fedopt", "prox", "fedavg"]
        - scores["IL", "P2", "fedopt", "adam", "fedavg"]
    )
    shown = float(re.search(r"clients: ([+−][\d.]+)", text)[1].replace("−", "-"))
    assert shown == pytest.approx(effect, rel=0.01, abs=1e-3)
    assert box.locator(".sides > div svg[tabindex]").count() == 2
    chart(opened, "fig3_mase").locator("[aria-label=cell] rect").first.click(force=True)
    assert told(opened, "fig3_mase").startswith("A of the comparison: CA")
    assert a.locator("option:checked").inner_text().startswith("CA: P1")
    assert b.locator("option:checked").inner_text().startswith("CA: ")
    chart(opened, "pareto").focus()
    settle(opened)
    opened.keyboard.press("ArrowRight")
    settle(opened)
    opened.keyboard.press("Enter")
    assert told(opened, "pareto").startswith("B of the comparison: CA")


def test_without_scripts_the_drawings_are_there(browser, written):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(written.as_uri())
    for drawing in tab.locator("figure > .drawing").all():
        assert drawing.is_visible()
    assert not tab.locator("#compare").is_visible()
    context.close()


def test_it_can_be_printed(opened):
    opened.emulate_media(media="print")
    assert not opened.locator(".live").first.is_visible()
    assert not opened.locator("nav").is_visible()
    opened.set_viewport_size({"width": 700, "height": 1000})  # A4 within its margins
    for drawing in opened.locator("figure > .drawing > img").all():
        assert 100 < drawing.bounding_box()["width"] <= 700
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    paper = opened.pdf(format="A4")
    assert paper.startswith(b"%PDF")
