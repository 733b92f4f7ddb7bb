"""Each built-in model, its attention and its passes equal an independent implementation."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from plfl.layout import WindowShape
from plfl.models.gru import Gru
from plfl.models.lstm import Lstm
from plfl.models.lstm_mlp_network import LstmMlpNetwork
from plfl.models.mlp import Mlp
from plfl.networks.network import ModuleNetwork
from plfl_reproductions.models import attention
from plfl_reproductions.models.attention import EPSILON
from plfl_reproductions.models.itransformer import Itransformer
from plfl_reproductions.models.linear import Linear
from plfl_reproductions.models.nhits import Nhits
from plfl_reproductions.models.patchtst import Patchtst
from plfl_reproductions.models.tcn import Tcn
from plfl_reproductions.models.tsmixer import Tsmixer
from tests.helpers.tasks import forecasts_of

SHAPE = WindowShape(inputs=3, look_back=7, covariates=2)
SEQUENCE = torch.rand(5, 7, 3, generator=torch.Generator().manual_seed(0)) - 0.5
COVARIATES = torch.rand(5, 2, generator=torch.Generator().manual_seed(1))


def built(model):
    torch.manual_seed(3)
    return model.build(SHAPE)


def silu(x):
    return x / (1 + np.exp(-x))


def test_mlp_is_matrix_products_by_hand():
    module = built(Mlp(hidden=(4, 6)))
    p = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    z = np.concatenate([SEQUENCE.numpy().reshape(5, -1), COVARIATES.numpy()], 1)
    for layer in (0, 2):
        z = silu(z @ p[f"body.{layer}.weight"].T + p[f"body.{layer}.bias"])
    expected = (z @ p["head.weight"].T + p["head.bias"])[:, 0]
    np.testing.assert_allclose(module(SEQUENCE, COVARIATES).detach().numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("shape", [SHAPE, WindowShape(1, 4, outputs=24)])
@pytest.mark.parametrize("hidden", [(), (4, 6)])
def test_the_layout_of_an_mlp_is_that_of_its_module(hidden, shape):
    model = Mlp(hidden=hidden)
    assert model.layout(shape) == ModuleNetwork.for_model(model, shape).layout


@pytest.mark.parametrize(("model", "layer"), [(Gru, nn.GRU), (Lstm, nn.LSTM)])
def test_recurrent_models_are_pytorchs_layer_and_the_head(model, layer):
    module = built(model(hidden=4, mlp=(5,)))
    oracle = layer(3, 4, batch_first=True)
    weights = {f"{name}_l0": p for name, p in module.body.named_parameters()}
    oracle.load_state_dict(weights)
    last = oracle(SEQUENCE)[0][:, -1]
    expected = module.head(torch.cat([last, COVARIATES], 1))[:, 0]
    torch.testing.assert_close(module(SEQUENCE, COVARIATES), expected)


def test_nlinear_as_its_authors_compute_it():
    """x − last → Linear → + last (LTSF-Linear, models/NLinear.py), for the load alone."""
    shape = WindowShape(1, 7, 0)
    module = Linear(kind="nlinear").build(shape)
    x = SEQUENCE[..., :1]
    last = x[:, -1:, :].detach()
    expected = nn.functional.linear((x - last).mT, module.weights.weight).mT + last
    torch.testing.assert_close(module(x, COVARIATES[:, :0]), expected[:, 0, 0])


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
    torch.testing.assert_close(module(x, COVARIATES[:, :0]), expected[:, 0, 0])


@pytest.mark.parametrize("kind", ["nlinear", "dlinear"])
def test_further_features_enter_the_linear_map(kind):
    module = built(Linear(kind=kind))
    before = module(SEQUENCE, COVARIATES)
    moved = SEQUENCE.clone()
    moved[:, 2, 1] += 1
    weights = (module.weights if kind == "nlinear" else module.remainder).weight[0]
    column = SHAPE.look_back + 2 * (SHAPE.inputs - 1)
    torch.testing.assert_close(module(moved, COVARIATES) - before, weights[column].expand(5))
    torch.testing.assert_close(
        module(SEQUENCE, COVARIATES + 1) - before, weights[-2:].sum().expand(5)
    )


@pytest.mark.parametrize(("levels", "kernel"), [(3, 2), (2, 3), (1, 2), (1, 3)])
@pytest.mark.parametrize("steps", [6, 7])
def test_tcn_is_causal_convolutions_of_pytorch(levels, kernel, steps):
    """All steps of all levels, of which the module computes those that the last one reads."""
    module = built(Tcn(channels=4, levels=levels, kernel=kernel, mlp=(5,))).double()
    sequence, covariates = SEQUENCE[:, -steps:].double(), COVARIATES.double()
    z = sequence.mT
    for level, block in enumerate(module.body):
        inner = z
        for own in (block.first, block.second):
            padded = nn.functional.pad(inner, ((kernel - 1) * 2**level, 0))
            inner = nn.functional.conv1d(padded, own.weight, own.bias, dilation=2**level).relu()
        if isinstance(block.skip, nn.Linear):
            z = nn.functional.conv1d(z, block.skip.weight[..., None], block.skip.bias)
        z = (inner + z).relu()
    expected = module.head(torch.cat([z[..., -1], covariates], 1))[:, 0]
    torch.testing.assert_close(module(sequence, covariates), expected, rtol=1e-12, atol=1e-14)


def numbers(module):
    return {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}


def linear(x, p, name):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def test_nhits_block_by_block_in_numpy():
    module = built(Nhits(pooling=(3, 1), hidden=(4, 5)))
    p, x = numbers(module), SEQUENCE.numpy()
    others = np.concatenate([x[:, :, 1:].reshape(5, -1), COVARIATES.numpy()], 1)
    forecast, left = x[:, -1, :1], x[:, :, 0] - x[:, -1, :1]
    for block, k in enumerate((3, 1)):
        pooled = [left[:, i : i + k].max(1, keepdims=True) for i in range(0, 7, k)]
        z = np.concatenate([*pooled, others], 1)
        for layer in (0, 2):
            z = np.maximum(linear(z, p, f"blocks.{block}.body.{layer}"), 0)
        forecast = forecast + linear(z, p, f"blocks.{block}.ahead")
        left = left - linear(z, p, f"blocks.{block}.back") if block == 0 else left
    found = module(SEQUENCE, COVARIATES).detach().numpy()
    np.testing.assert_allclose(found, forecast[:, 0], atol=1e-6)


def test_tsmixer_layer_by_layer_in_numpy():
    module = built(Tsmixer(layers=2, hidden=4))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-0.5, 0.5)
    p, z = numbers(module), SEQUENCE.numpy()

    def norm(x, name):
        centred = x - x.mean((1, 2), keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean((1, 2), keepdims=True) + 1e-5)
        return scaled * p[f"{name}.weight"] + p[f"{name}.bias"]

    for layer in ("body.0", "body.1"):
        over_time = norm(z, f"{layer}.time_norm").transpose(0, 2, 1)
        z = z + np.maximum(linear(over_time, p, f"{layer}.time"), 0).transpose(0, 2, 1)
        hidden = np.maximum(linear(norm(z, f"{layer}.feature_norm"), p, f"{layer}.first"), 0)
        z = z + linear(hidden, p, f"{layer}.second")
    expected = linear(np.concatenate([z[:, :, 0], COVARIATES.numpy()], 1), p, "head")[:, 0]
    found = module(SEQUENCE, COVARIATES).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def pytorchs_encoder(layers):
    """PyTorch's encoder with the weights of ours."""
    found = []
    for ours in layers:
        heads, (hidden, width) = ours.heads, ours.first.weight.shape
        theirs = nn.TransformerEncoderLayer(width, heads, hidden, 0, "gelu", batch_first=True)
        own = (ours.project, ours.out, ours.first, ours.second, ours.norm1, ours.norm2)
        weights = [parameter for part in own for parameter in part.parameters()]
        for parameter, weight in zip(theirs.parameters(), weights, strict=True):
            parameter.data = weight.data
        found.append(theirs)
    return nn.Sequential(*found)


def test_itransformer_has_pytorchs_encoder_over_features():
    module = built(Itransformer(width=8, heads=2, layers=2, hidden=6))
    load = SEQUENCE[:, :, 0]
    mean, deviation = load.mean(1), (load.var(1, correction=0) + EPSILON).sqrt()
    variance = SEQUENCE.var(1, keepdim=True, correction=0)
    z = (SEQUENCE - SEQUENCE.mean(1, keepdim=True)) / (variance + EPSILON).sqrt()
    tokens = pytorchs_encoder(module.body)(module.embed(z.transpose(1, 2)))
    expected = module.head(torch.cat([tokens[:, 0], COVARIATES], 1))[:, 0] * deviation + mean
    torch.testing.assert_close(module(SEQUENCE, COVARIATES), expected)


def test_patchtst_has_pytorchs_encoder_over_patches():
    module = built(Patchtst(patch=3, stride=2, width=8, heads=2, layers=2, hidden=6))
    load = SEQUENCE[:, :, 0]
    mean, deviation = load.mean(1), (load.var(1, correction=0) + EPSILON).sqrt()
    z = (load - mean[:, None]) / deviation[:, None]
    z = nn.ReplicationPad1d((0, 2))(z)
    patches = torch.stack([z[:, i : i + 3] for i in range(0, 7, 2)], 1)
    tokens = pytorchs_encoder(module.body)(module.embed(patches) + module.position)
    expected = module.head(torch.cat([tokens.flatten(1), COVARIATES], 1))[:, 0]
    torch.testing.assert_close(module(SEQUENCE, COVARIATES), expected * deviation + mean)


@pytest.mark.parametrize("few", [0, 5], ids=["matrix products", "products of pairs"])
def test_attention_is_that_of_pytorch(few, monkeypatch) -> None:
    monkeypatch.setattr(attention, "FEW_TOKENS", few)
    random = torch.Generator().manual_seed(0)
    parts = torch.rand(3, 2, 4, 5, 6, generator=random, dtype=torch.float64)
    query, key, value = parts.requires_grad_().unbind(0)
    found = attention.attend(query, key, value)
    heads = (x.permute(3, 0, 2, 1) for x in (query, key, value))
    expected = scaled_dot_product_attention(*heads).permute(1, 3, 2, 0)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    slope = torch.rand(found.shape, generator=random, dtype=torch.float64)
    ours, theirs = (torch.autograd.grad(x, parts, slope)[0] for x in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


@settings(max_examples=40)
@given(
    sizes=st.tuples(*[st.integers(1, 5)] * 5),
    mlp=st.lists(st.integers(1, 6), max_size=3),
    absolute=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_forecasts_and_gradients(sizes, mlp, absolute, seed):
    models, windows, inputs, look_back, hidden = sizes
    forecaster = LstmMlpNetwork(inputs, look_back, hidden, tuple(mlp), absolute)
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
