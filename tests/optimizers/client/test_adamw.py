"""Weight decay beside the moments."""

import pytest
import torch

from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamw import AdamW

DECAYED = AdamW(lr=0.1, beta1=0.8, beta2=0.95, weight_decay=0.3)


def test_same_steps_as_torch_optim():
    y = torch.tensor([[2.0, -1.0]], dtype=torch.float64)
    parameter = torch.nn.Parameter(y[0].clone())
    theirs = torch.optim.AdamW([parameter], 0.1, (0.8, 0.95), 1e-8, 0.3)
    state = DECAYED.init(y)
    for k in range(1, 8):
        parameter.grad = 4 * (parameter.detach() - 1)
        theirs.step()
        DECAYED.step(y, 4 * (y - 1), state, k)
        torch.testing.assert_close(y[0], parameter.detach())


def test_without_decay_it_is_adam():
    plain, same = Adam(beta1=0.9, beta2=0.999), AdamW(weight_decay=0)
    rows = [torch.tensor([[2.0, -1.0]]) for _ in range(2)]
    for optimiser, y in zip((plain, same), rows, strict=True):
        state = optimiser.init(y)
        for k in range(1, 4):
            optimiser.step(y, y - 1, state, k)
    assert torch.equal(*rows)


def test_decay_does_not_depend_on_the_gradient():
    """Without a gradient, a step of η shrinks the parameters by the factor 1 − η λ."""
    y = torch.tensor([[2.0, -4.0]])
    DECAYED.step(y, torch.zeros_like(y), DECAYED.init(y), 1)
    assert y.flatten().tolist() == pytest.approx([2 * 0.97, -4 * 0.97])
