"""What tests of the command line share."""

from pathlib import Path

import pytest

from tests.helpers.projects import write_project


@pytest.fixture
def project(here: Path) -> Path:
    """A folder with the study `my.yaml` of three own meters, in which the test works."""
    write_project(here)
    return here
