"""What campaigns need that is not on every machine. Where it is missing, its tests are skipped."""

import os
from pathlib import Path

import pytest

from tests.report.test_page import browser

__all__ = ["browser"]

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """Published files that plfl does not ship: NREL's, the authors', and measured meters."""
    folder = Path(os.environ.get("PLFL_REFERENCE_DATA", BESIDE))
    if not folder.is_dir():
        pytest.skip(f"no reference data in {folder}; PLFL_REFERENCE_DATA names another folder")
    return folder
