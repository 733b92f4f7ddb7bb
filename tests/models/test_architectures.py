"""Each built-in model equals an independent implementation with the same weights."""

import numpy as np
import pytest
import torch
from torch import nn

from plfl.layout import WindowShape
from plfl.models.gru import Gru
from plfl.models.linear import Linear
from plfl.models.lstm import Lstm
from plfl.models.mlp import Mlp
from plfl.models.tcn import Tcn

SHAPE = WindowShape(inputs=3, look_back=7, context=2)
SEQUENCE = torch.rand(5, 7, 3, generator=torch.Generator().manual_seed(0)) - 0.5
CONTEXT = torch.rand(5, 2, generator=torch.Generator().manual_seed(1))


def built(model):
    torch.manual_seed(3)
    return model.build(SHAPE)


def silu(x):
    return x / (1 + np.exp(-x))


def test_mlp_is_matrix_products_by_hand():
    module = built(Mlp(hidden=(4, 6)))
    p = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    z = np.concatenate([SEQUENCE.numpy().reshape(5, -1), CONTEXT.numpy()], 1)
    for layer in (0, 2):
        z = silu(z @ p[f"body.{layer}.weight"].T + p[f"body.{layer}.bias"])
    expected = (z @ p["head.weight"].T + p["head.bias"])[:, 0]
    np.testing.assert_allclose(module(SEQUENCE, CONTEXT).detach().numpy(), expected, atol=1e-6)


def test_the_head_starts_small():
    module = built(Mlp())
    assert module.head.weight.abs().max() <= 0.1 / 8
    assert module.body[2].weight.abs().max() > 0.1


def test_the_recipe_has_its_number_of_parameters():
    """12 lags and 96 numbers of context, widths 64 and 64: 11,201."""
    assert Mlp().network(WindowShape(1, 12, 96)).layout.width == 11_201


@pytest.mark.parametrize(("model", "layer"), [(Gru, nn.GRU), (Lstm, nn.LSTM)])
def test_recurrent_models_are_pytorchs_layer_and_the_head(model, layer):
    module = built(model(hidden=4, mlp=(5,)))
    oracle = layer(3, 4, batch_first=True)
    weights = {f"{name}_l0": p for name, p in module.body.named_parameters()}
    oracle.load_state_dict(weights)
    last = oracle(SEQUENCE)[0][:, -1]
    expected = module.head(torch.cat([last, CONTEXT], 1))[:, 0]
    torch.testing.assert_close(module(SEQUENCE, CONTEXT), expected)


def test_nlinear_as_its_authors_compute_it():
    """x − last → Linear → + last (LTSF-Linear, models/NLinear.py), for the load alone."""
    shape = WindowShape(1, 7, 0)
    module = Linear(kind="nlinear").build(shape)
    x = SEQUENCE[..., :1]
    last = x[:, -1:, :].detach()
    expected = nn.functional.linear((x - last).mT, module.weights.weight).mT + last
    torch.testing.assert_close(module(x, CONTEXT[:, :0]), expected[:, 0, 0])


def test_dlinear_as_its_authors_compute_it():
    """Moving average with repeated ends, two linear layers (LTSF-Linear, models/DLinear.py)."""
    shape, kernel = WindowShape(1, 7, 0), 5
    module = Linear(kind="dlinear", average=kernel).build(shape)
    x = SEQUENCE[..., :1]
    front = x[:, :1, :].repeat(1, (kernel - 1) // 2, 1)
    end = x[:, -1:, :].repeat(1, (kernel - 1) // 2, 1)
    pooled = nn.AvgPool1d(kernel_size=kernel, stride=1)(torch.cat([front, x, end], 1).mT).mT
    rest = nn.functional.linear((x - pooled).mT, module.remainder.weight)
    expected = rest + nn.functional.linear(pooled.mT, module.trend.weight)
    torch.testing.assert_close(module(x, CONTEXT[:, :0]), expected[:, 0, 0])


@pytest.mark.parametrize("kind", ["nlinear", "dlinear"])
def test_further_features_enter_the_linear_map(kind):
    module = built(Linear(kind=kind))
    before = module(SEQUENCE, CONTEXT)
    moved = SEQUENCE.clone()
    moved[:, 2, 1] += 1
    weights = (module.weights if kind == "nlinear" else module.remainder).weight[0]
    column = SHAPE.look_back + 2 * (SHAPE.inputs - 1)
    torch.testing.assert_close(module(moved, CONTEXT) - before, weights[column].expand(5))
    torch.testing.assert_close(module(SEQUENCE, CONTEXT + 1) - before, weights[-2:].sum().expand(5))


def test_tcn_is_causal_convolutions_of_pytorch():
    module = built(Tcn(channels=4, levels=3, kernel=2, mlp=(5,)))
    z = SEQUENCE.mT
    for level, block in enumerate(module.body):
        inner = z
        for own in (block.first, block.second):
            padded = nn.functional.pad(inner, (2**level, 0))
            inner = nn.functional.conv1d(padded, own.weight, own.bias, dilation=2**level).relu()
        if isinstance(block.skip, nn.Linear):
            z = nn.functional.conv1d(z, block.skip.weight[..., None], block.skip.bias)
        z = (inner + z).relu()
    expected = module.head(torch.cat([z[..., -1], CONTEXT], 1))[:, 0]
    torch.testing.assert_close(module(SEQUENCE, CONTEXT), expected)
