"""Dampening of SGD with momentum."""

import pytest
import torch
from pydantic import ValidationError

from plfl.optimizers.client.sgdm import SgdMomentum

DAMPED = SgdMomentum(lr=0.1, momentum=0.9, dampening=0.3)


def test_the_first_gradient_counts_in_full_in_each_row():
    """Rows that are at different steps, as when moments are kept."""
    y = torch.zeros(2, 1, dtype=torch.float64)
    k = torch.tensor([[1.0], [5.0]], dtype=torch.float64)
    DAMPED.step(y, torch.ones_like(y), DAMPED.init(y), k)
    assert y.flatten().tolist() == pytest.approx([-0.1, -0.07])


def test_with_dampening_as_large_as_the_momentum_it_is_a_moving_average():
    y = torch.zeros(1, 1, dtype=torch.float64)
    average = SgdMomentum(lr=1, momentum=0.5, dampening=0.5)
    state = average.init(y)
    for k, g in enumerate([8.0, 4.0, 2.0], 1):
        average.step(y, torch.full_like(y, g), state, k)
    assert state["b"].item() == (8 / 2 + 4 / 2) / 2 + 2 / 2


@pytest.mark.parametrize("options", [{"nesterov": True}, {"momentum": 0}])
def test_dampening_needs_a_plain_momentum(options):
    with pytest.raises(ValidationError, match="dampening needs a momentum above 0"):
        SgdMomentum(dampening=0.1, **options)
