"""Attention over columns equals PyTorch's own over rows, however it is computed."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from plfl.models import attention


@pytest.mark.parametrize("few", [0, 5], ids=["matrix products", "products of pairs"])
def test_attention_is_that_of_pytorch(few, monkeypatch) -> None:
    monkeypatch.setattr(attention, "FEW", few)
    random = torch.Generator().manual_seed(0)
    parts = torch.rand(3, 2, 4, 5, 6, generator=random, dtype=torch.float64)
    query, key, value = parts.requires_grad_().unbind(0)
    found = attention.attended(query, key, value)
    heads = (x.permute(3, 0, 2, 1) for x in (query, key, value))
    expected = scaled_dot_product_attention(*heads).permute(1, 3, 2, 0)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    slope = torch.rand(found.shape, generator=random, dtype=torch.float64)
    ours, theirs = (torch.autograd.grad(x, parts, slope)[0] for x in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
