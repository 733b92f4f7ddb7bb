"""What tests of the engines share."""

import pytest

from plfl.training.native import compile
from tests.helpers.kernels import instruction_sets


@pytest.fixture(params=compile.INSTRUCTIONS)
def instructions(request: pytest.FixtureRequest) -> str:
    """Each instruction set that this processor has."""
    name: str = request.param
    if name not in instruction_sets():
        pytest.skip(f"there is no kernel for {name} here")
    return name
