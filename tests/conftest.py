"""What tests of several rooms share."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# How long an example takes is up to the machine, which others may keep busy.
settings.register_profile("plfl", deadline=None)
settings.load_profile("plfl")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser, without a window."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real files to prove the data rooms on, beside the checkout: they are not ours to ship."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the folder of real ComStock files is not beside this checkout")
    return folder
