"""MLflow's pages as a visitor sees them: they lean on forms that MLflow does not document."""

import pytest

from plfl.publish.tracking.server import ui_url
from tests.helpers.fake_results import BASELINES

SHOWN = ["Run Name", "Created", "val/mase_local", "test_last/mase_local"]
SHOWN += ["traffic/total_mb", "state", "sharing", "method", "client_opt", "server_opt"]
"""The first columns of a view, from left to right; MLflow adds some of its own."""


@pytest.fixture(scope="module")
def port(tracked, free_port, serving):
    """Port of a server of the tracked study."""
    with serving(tracked, free_port) as process:
        assert any(line.startswith("open") for line in iter(process.stdout.readline, ""))
        yield free_port


@pytest.fixture
def page(browser, port, tracked):
    """The page that `make ui` names, once its runs are there."""
    # Columns beyond the right edge are not in the page.
    context = browser.new_context(viewport={"width": 1920, "height": 1080})
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.requested = []
    page.on("request", lambda request: page.requested.append(request.url))
    page.goto(ui_url(tracked, port))
    page.get_by_role("link", name="CA-P2 adam+avg").wait_for()
    yield page
    context.close()


def column(page, name):
    """Texts of a column of the runs table, from top to bottom."""
    cells = page.locator(f'[role=row] [role=gridcell][col-id*="{name}"]').all()
    placed = [(cell.bounding_box()["y"], cell.inner_text().strip()) for cell in cells]
    return [text for _, text in sorted(placed)]


def headers(page):
    """Titles of the columns of the runs table, from left to right."""
    cells = page.locator("[role=columnheader][col-id]").all()
    placed = [(cell.bounding_box()["x"], cell.inner_text().strip()) for cell in cells]
    return [title for _, title in sorted(placed) if title not in ("", "Parameters", "Metrics")]


def test_the_study_opens_on_all_its_forecasters(page):
    assert page.get_by_role("button", name="All forecasters").is_visible()
    assert page.get_by_text("tiny (sample data)").first.is_visible()
    assert headers(page)[: len(SHOWN)] == SHOWN
    # One cell has diverged and has no test score. The overview is not among them.
    count = len(BASELINES)
    shown = sorted(column(page, "params.`sharing`"))
    assert shown == sorted([*count * ["baseline"], "P1", "P2", "P3"])
    validation = [float(text) for text in column(page, "val/mase_local") if text != "-"]
    assert validation == sorted(validation)
    assert column(page, "test_last/mase_local").count("-") == 1


def follow(page, link):
    """Click a link of the study's note; it opens a page of its own."""
    with page.context.expect_page() as opened:
        page.get_by_role("link", name=link).click()
    return opened.value


def test_links_lead_to_the_curves(page):
    curves = follow(page, "CA curves")
    curves.get_by_text("MASE by round").first.wait_for()
    for title in ("val/mase_local", "val/mase_global"):
        curves.get_by_text(title, exact=True).first.wait_for()


def test_a_run_shows_its_clients(page):
    page.get_by_role("link", name="CA-P2 adam+avg").click()
    page.get_by_role("tab", name="Artifacts").click()
    page.get_by_text("per_client.json", exact=True).click()
    page.get_by_text("ca137").wait_for()
    assert page.get_by_text("mase_global").first.is_visible()


def test_nothing_is_asked_of_other_machines(page, port):
    remote = [
        url
        for url in page.requested
        if url.startswith("http") and not url.startswith(f"http://127.0.0.1:{port}/")
    ]
    assert remote == []
