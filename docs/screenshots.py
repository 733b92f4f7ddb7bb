"""Takes the pictures of docs/images from finished studies: `make screenshots`.

It opens the report in a headless Chromium, which must be there. The figure of several optimisers is
that of docs/grid.yaml, because the demo has one of each.
The numbers in the pictures are those of the study. With `--mlflow http://127.0.0.1:5077`, it takes
that of the experiment of the same name in MLflow instead, which `plfl ui` must have started.
"""

import argparse
import shutil
import sys
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
FIGURE = Path("figures/grid/fig3_mase_local.png")
SIZE = {"width": 1200, "height": 750}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=Path("results/demo"))
    parser.add_argument("--mlflow", metavar="ADDRESS")
    options = parser.parse_args()
    results = options.results
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None or not (results / "index.html").is_file():
        sys.exit(f"this needs chromium and a finished study in {results}; run `make demo` first")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium)
        if options.mlflow:
            charts(browser, options.mlflow, results.name)
        else:
            if not FIGURE.is_file():
                sys.exit(f"this needs {FIGURE}; run `plfl study docs/grid.yaml` first")
            shutil.copyfile(FIGURE, IMAGES / FIGURE.name)
            report(browser, results / "index.html")
        browser.close()


def report(browser: Browser, file: Path) -> None:
    """What the study found, the forecasters, and a chart."""
    page = browser.new_page(viewport=SIZE)
    page.goto(file.resolve().as_uri())
    take(page, "report-found")
    for place, name in (("standings", "report-forecasters"), ("convergence", "report-charts")):
        page.locator(f"#{place}").evaluate("element => element.scrollIntoView()")
        take(page, name)


def charts(browser: Browser, address: str, study: str) -> None:
    """The charts of the runs with Adam and FedAvg in P1, P2 and P3."""
    page = browser.new_page(viewport={"width": 1500, "height": 800})
    page.set_default_timeout(120_000)
    of_cells = "params.client_opt = 'adam' and params.server_opt != 'fedadam'"
    page.goto(f"{address}/#/experiments")
    href = page.get_by_role("link", name=study, exact=True).first.get_attribute("href")
    experiment = str(href).split("experiments/")[1].split("/")[0]
    search = f"compareRunsMode=CHART&searchFilter={quote(of_cells)}"
    page.goto(f"{address}/#/experiments/{experiment}/runs?{search}")
    page.get_by_text("bytes/per_round_and_client").first.wait_for()
    assistant = page.get_by_role("button", name="Close")
    if assistant.count():
        assistant.last.click()
    page.wait_for_timeout(10_000)
    take(page, "mlflow")


def take(page: Page, name: str) -> None:
    page.wait_for_timeout(2000)  # charts settle after they have appeared
    page.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
