"""Layers over columns equal PyTorch's own over rows."""

import pytest
import torch
from torch import Tensor, nn

from plfl.models.columns import mapped, normed


def columns(x: Tensor) -> Tensor:
    """The windows, which PyTorch has first, last."""
    return x.permute(2, 1, 0)


@pytest.mark.parametrize(
    ("ours", "layer"), [(mapped, nn.Linear(3, 4)), (normed, nn.LayerNorm(3))], ids=["map", "norm"]
)
def test_a_layer_is_that_of_pytorch(ours, layer) -> None:
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.double().parameters():
            parameter.uniform_(-1, 1, generator=random)
    x = torch.rand(5, 2, 3, generator=random, dtype=torch.float64)
    torch.testing.assert_close(ours(layer, columns(x)), columns(layer(x)), rtol=1e-12, atol=1e-14)
