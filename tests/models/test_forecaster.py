"""The passes written by hand are those of PyTorch's own layers and of automatic differentiation."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.models.forecaster import Forecaster
from tests.helpers.tasks import forecasts_of


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.tuples(*[st.integers(1, 5)] * 5),
    mlp=st.lists(st.integers(1, 6), max_size=3),
    absolute=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_forecasts_and_gradients(
    sizes: tuple[int, ...], mlp: list[int], absolute: bool, seed: int
) -> None:
    models, windows, inputs, look_back, hidden = sizes
    forecaster = Forecaster(inputs, look_back, hidden, tuple(mlp), absolute)
    random = torch.Generator().manual_seed(seed)
    shape = (models, forecaster.layout.width)
    rows = torch.randn(shape, generator=random, dtype=torch.float64).requires_grad_()
    x = torch.randn((models, windows, look_back, inputs), generator=random, dtype=torch.float64)
    weights = torch.randn((models, windows), generator=random, dtype=torch.float64)
    expected = forecasts_of(forecaster, rows, x)
    (gradient,) = torch.autograd.grad((weights * expected).sum(), rows)
    found = torch.empty_like(gradient)
    with torch.inference_mode():
        forecasts, kept = forecaster.forward_pass(rows, x)
        forecaster.backward_pass(rows, kept, weights, {}, found)
    torch.testing.assert_close(forecasts, expected.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found, gradient, rtol=1e-10, atol=1e-12)
