"""Dampening of SGD with momentum."""

import pytest
import torch
from pydantic import ValidationError

from plfl.experiments.trainer import network_of
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.training.fused import Fused, unavailable_reason
from plfl.training.reference import Reference
from plfl.training.reference import optimiser as torch_optimiser
from plfl.training.stacked import Stacked
from plfl.training.task import LocalTask, Minibatches
from tests.helpers import tiny

DAMPED = SgdMomentum(lr=0.1, momentum=0.9, dampening=0.3)


def test_same_steps_as_torch_optim():
    y = torch.tensor([[2.0, -1.0]], dtype=torch.float64)
    parameter = torch.nn.Parameter(y[0].clone())
    theirs = torch_optimiser(DAMPED, [parameter])
    state = DAMPED.init(y)
    for k in range(1, 6):
        parameter.grad = 4 * (parameter.detach() - 1)
        theirs.step()
        DAMPED.step(y, 4 * (y - 1), state, k)
        torch.testing.assert_close(y[0], parameter.detach())


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


@pytest.mark.parametrize("engine", ["fused", "stacked"])
def test_the_engines_agree_with_torch_optim(engine):
    if engine == "fused" and (reason := unavailable_reason()):
        pytest.skip(reason)
    data = tiny.dataset()
    forecaster = network_of(tiny.study(), data.shape)
    rows = torch.stack([forecaster.initial(seed) for seed in range(3)])
    trained = {}
    for cls in ({"fused": Fused, "stacked": Stacked}[engine], Reference):
        task = LocalTask.fresh(
            DAMPED,
            rows.clone(),
            Minibatches(torch.randint(300, (3, 5, 8), generator=torch.Generator().manual_seed(0))),
            torch.ones(rows.shape[1], dtype=torch.bool),
        )
        cls(forecaster, data, torch.device("cpu")).train(task)
        trained[cls] = task.rows
    ours, theirs = trained.values()
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(ours, rows, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("options", [{"nesterov": True}, {"momentum": 0}])
def test_dampening_needs_a_plain_momentum(options):
    with pytest.raises(ValidationError, match="dampening needs a momentum above 0"):
        SgdMomentum(dampening=0.1, **options)
