"""What a local step of a model costs."""

import pytest

from plfl.config.study import Study
from plfl.experiments.effort import PAPER_STEP, cost_of_step, local_steps
from tests.helpers import tiny


@pytest.mark.parametrize(("model", "operations"), [("cnn44", 0.0511e9), ("resnet18_gn", 1.1109e9)])
def test_models_of_images_cost_their_operations(model: str, operations: float) -> None:
    """Operations per image from an independent count."""
    of = Study.parse(
        {
            "data": {"source": "cifar100" if model == "resnet18_gn" else "cifar10", "states": ["c"]}
            | {"clients": 100},
            "task": {"name": "classify"},
            "model": {"name": model},
            "sharing": {"all": ["*"]},
            "grid": {"sharing": ["all"]},
            "federation": {"local_epochs": 2, "batch_size": 50},
        },
        "test",
    )
    assert cost_of_step(of) == pytest.approx(50 * operations / PAPER_STEP, rel=2e-3)
    assert local_steps(of) == 20


def test_loads_cost_what_the_paper_s_model_costs() -> None:
    assert cost_of_step(tiny.study()) == 1
