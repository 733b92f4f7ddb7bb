"""What campaigns need that is not on every machine. Where it is missing, a campaign fails."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.publish.tracking.conftest import free_port, serving, tracked

__all__ = ["free_port", "serving", "tracked"]

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser, without a window."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.fail("needs chromium on the PATH")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """Published files that plfl does not ship: NREL's, the authors', and measured meters."""
    folder = Path(os.environ.get("PLFL_REFERENCE_DATA", BESIDE))
    if not folder.is_dir():
        pytest.fail(f"no reference data in {folder}; PLFL_REFERENCE_DATA names another folder")
    return folder
