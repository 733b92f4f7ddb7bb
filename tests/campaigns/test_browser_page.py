"""The page as a visitor sees it: opened from the disk, in a real browser; needs chromium."""

from pathlib import Path
from urllib.parse import urlparse

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
    fake_results.write(results, fake_results.SMALL, diverged=(LOST,))
    for name in figures.available(Tables(results).study):
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


CHARTS = ("convergence", "week")


def test_it_fits_the_screen_with_every_figure(opened, written):
    drawings = opened.locator("figure > .drawing > img")
    study = Tables(written.parent).study
    stems = [s for stems in figures.available(study).values() for s in stems]
    assert drawings.count() == len(stems)
    for name in CHARTS:
        assert chart(opened, name).bounding_box()["height"] > 80
    for drawing in drawings.all():
        box = drawing.bounding_box()
        assert box["width"] > 300 and box["height"] > 80
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for table in opened.locator("section > .wide").all():
        assert table.evaluate("e => e.scrollWidth <= e.clientWidth")


def cells(table, column):
    return table.locator(f"tbody tr > :nth-child({column})").all_inner_texts()


def test_a_click_on_a_heading_sorts(opened):
    table = opened.locator("#clients table")
    head = table.get_by_role("columnheader", name="local training")
    before = cells(table, 5)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert cells(table, 5) == sorted(before, key=float) != before
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert cells(table, 5) == sorted(before, key=float, reverse=True)


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
    assert not opened.get_by_role("link", name="How sure is this?").is_visible()
    opened.get_by_text("Contents", exact=True).click()
    assert opened.get_by_role("link", name="How sure is this?").is_visible()


def chart(tab, name):
    found = tab.locator(f"#{name} .live svg").first
    found.wait_for()
    return found


def test_a_week_is_that_of_the_chosen_client(opened):
    lines = chart(opened, "week").locator(".mark-line path")
    before = lines.first.get_attribute("d")
    opened.locator("#week").get_by_label("Client").select_option("IL: il137")
    assert lines.count() == 4
    assert lines.first.get_attribute("d") != before


def test_filters_apply_to_the_chart(opened):
    curves = chart(opened, "convergence").locator(".mark-line path")
    assert curves.count() == 2 * 2, "two optimisers, two models"
    opened.locator("#convergence").get_by_label("Sharing scheme").select_option("P3")
    assert curves.count() == 2


def test_without_scripts_the_drawings_are_there(browser, written):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(written.as_uri())
    for drawing in tab.locator("figure > .drawing").all():
        assert drawing.is_visible()
    assert "drawn by JavaScript" in tab.locator("#week").inner_text()
    context.close()


def test_it_can_be_printed(opened):
    opened.emulate_media(media="print")
    assert not opened.locator("nav").is_visible()
    opened.set_viewport_size({"width": 700, "height": 1000})  # A4 within its margins
    for drawing in opened.locator("figure > .drawing > img").all():
        assert 100 < drawing.bounding_box()["width"] <= 700
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    paper = opened.pdf(format="A4")
    assert paper.startswith(b"%PDF")
