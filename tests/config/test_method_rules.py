"""Which settings an algorithm refuses."""

from typing import Any

import pytest

from plfl.base.errors import ConfigError
from tests.helpers import tiny

GRID = {"method": ["fedopt"], "client_opt": ["sgd"], "server_opt": ["fedavg"], "refused": "error"}


@pytest.mark.parametrize(
    "rates", [{"decay": 0.9}, {"schedule": "cosine"}, {"warm_up": 0.1}], ids=str
)
@pytest.mark.parametrize(
    "algorithm",
    [{"server_opt": ["slowmo"]}, {"method": ["fedadc"]}, {"method": ["fafed"]}],
    ids=str,
)
def test_equations_with_a_rate_need_a_constant_one(
    algorithm: dict[str, Any], rates: dict[str, Any]
) -> None:
    assert tiny.study(grid=GRID | algorithm).cells
    with pytest.raises(ConfigError) as error:
        tiny.study(grid=GRID | algorithm, federation=rates)
    assert any("decay" in problem for problem in error.value.problems)


def test_fafed_has_no_weight_decay() -> None:
    decays = {"client_opt": {"sgd": {"weight_decay": 1e-4}}}
    with pytest.raises(ConfigError, match="weight decay"):
        tiny.study(grid=GRID | {"method": ["fafed"]}, hyperparameters=decays)
