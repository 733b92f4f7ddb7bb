"""What tests of several rooms share."""

from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes is up to the machine, which others may keep busy.
settings.register_profile("plfl", deadline=None)
settings.load_profile("plfl")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real files to prove the data rooms on, beside the checkout: they are not ours to ship."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the folder of real ComStock files is not beside this checkout")
    return folder
