"""Takes the pictures of docs/images from a finished study: `make screenshots`.

It opens the report and MLflow's pages in a headless Chromium, which must be there.
The numbers in the pictures are those of the study.
"""

import argparse
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from plfl.publish.tracking.server import ui_url

IMAGES = Path(__file__).parent / "images"
FIGURE = "fig3_mase_local.png"
SIZE = {"width": 1200, "height": 750}
CLOSED = "localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')"
"""MLflow opens a pane by itself on the first visit."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=Path("results/demo"))
    results = parser.parse_args().results
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None or not (results / "index.html").is_file():
        sys.exit(f"this needs chromium and a finished study in {results}; run `make demo` first")
    shutil.copyfile(Path("figures") / results.name / "fig3_mase_local.png", IMAGES / FIGURE)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium)
        report(browser, results / "index.html")
        with served(results) as port:
            tracked(browser, ui_url(results, port))
        browser.close()


def report(browser: Browser, file: Path) -> None:
    """What the study found, a chart, a comparison, and a client."""
    page = browser.new_page(viewport=SIZE)
    page.goto(file.resolve().as_uri())
    take(page, "report-found")
    square = page.locator("#fig3_mase [aria-label=cell] rect").nth(7)
    square.evaluate("element => element.scrollIntoView({block: 'center'})")
    square.hover(force=True)
    take(page, "report-charts")
    page.locator("#compare").evaluate("element => element.scrollIntoView()")
    page.mouse.move(0, 0)
    take(page, "report-compare")
    first = page.locator("details.client").first
    page.goto(f"{file.resolve().as_uri()}#{first.get_attribute('id')}")
    first.scroll_into_view_if_needed()
    first.evaluate("element => element.scrollIntoView()")
    take(page, "report-client")


def tracked(browser: Browser, url: str) -> None:
    """The best cells, and the curves of the first state."""
    context = browser.new_context(viewport={"width": 1440, "height": 810})
    context.set_default_timeout(120_000)
    context.add_init_script(CLOSED)
    page = context.new_page()
    page.goto(url)
    page.get_by_role("link", name="adam").first.wait_for()
    take(page, "mlflow-best")
    with context.expect_page() as opened:
        page.get_by_role("link", name="curves").first.click()
    opened.value.get_by_text("val/mase_global", exact=True).first.wait_for()
    opened.value.locator(".main-svg").first.wait_for()
    take(opened.value, "mlflow-curves")


def take(page: Page, name: str) -> None:
    page.wait_for_timeout(2000)  # MLflow's tables and charts settle after they have appeared
    page.screenshot(path=IMAGES / f"{name}.png")


@contextmanager
def served(results: Path) -> Iterator[int]:
    """MLflow's server on a free port, until the pictures are taken."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [Path(sys.executable).with_name("plfl"), "ui", results, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        next(line for line in process.stdout if line.startswith("open"))
        yield port
    finally:
        process.terminate()
        process.communicate()


if __name__ == "__main__":
    main()
