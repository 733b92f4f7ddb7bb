"""Takes the pictures of docs/images from a finished study: `make screenshots`.

It opens the report in a headless Chromium, which must be there.
The numbers in the pictures are those of the study.
"""

import argparse
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
FIGURE = "fig3_mase_local.png"
SIZE = {"width": 1200, "height": 750}


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
        browser.close()


def report(browser: Browser, file: Path) -> None:
    """What the study found, the forecasters, and a chart."""
    page = browser.new_page(viewport=SIZE)
    page.goto(file.resolve().as_uri())
    take(page, "report-found")
    for place, name in (("standings", "report-forecasters"), ("pareto", "report-charts")):
        page.locator(f"#{place}").evaluate("element => element.scrollIntoView()")
        take(page, name)


def take(page: Page, name: str) -> None:
    page.wait_for_timeout(2000)  # charts settle after they have appeared
    page.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
