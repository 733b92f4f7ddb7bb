"""The engine `stacked` against PyTorch's own layers and optimisers, one model at a time."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch

from plfl.config.sections import Windows
from plfl.data.windows import build
from plfl.layout import WindowShape
from plfl.models.gru import Gru
from plfl.models.lstm_mlp import LstmMlp
from plfl.models.lstm_mlp_network import LstmMlpNetwork
from plfl.models.mlp import Mlp
from plfl.optimizers import client as clients
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamams import AdamAMS
from plfl.optimizers.client.adamw import AdamW
from plfl.optimizers.client.prox import Prox
from plfl.optimizers.client.proxadam import ProxAdam
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.tasks.losses import POINT
from plfl.training.stacked import Stacked
from plfl.training.task import Average, LocalTask, Minibatches
from plfl_reproductions.models.linear import Linear
from plfl_reproductions.models.tcn import Tcn
from tests.helpers.oracle import Reference
from tests.helpers.tasks import changed, copied, everything

PAPER = LstmMlpNetwork(inputs=8, look_back=12, hidden=25, mlp=(150, 75), absolute=True)
SMALL = LstmMlpNetwork(inputs=3, look_back=5, hidden=7, mlp=(6, 4), absolute=True)
CPU = torch.device("cpu")


@cache
def dataset(forecaster, clients=4, rows=300):
    random = np.random.default_rng(3)
    stamps = pd.date_range("2018-01-01 00:15", periods=rows, freq="15min")
    names = ["load", *(f"x{i}" for i in range(1, forecaster.inputs))]
    tables = {
        f"client {i}": pd.DataFrame(random.random((rows, len(names))), stamps, names)
        for i in range(clients)
    }
    return build(tables, Windows(look_back=forecaster.look_back))


def task(forecaster, optimiser, rows=5, steps=6, size=4, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    models = torch.stack([forecaster.initial(seed + s) for s in range(rows)]).to(dtype)
    slopes = [name for name in forecaster.layout.names if name.endswith("slope")]
    shared = torch.from_numpy(forecaster.layout.mask(["body", *slopes]))
    starts = torch.randint(0, 200, (rows, steps, size), generator=generator)
    return LocalTask.fresh(optimiser, models, Minibatches(starts), shared)


FEATURES = ["penultimate", "states"]
"""Features by which a further term in the loss has a gradient. Not all models have them."""


def drawn_terms(whole, seed=1):
    """Terms of a task, drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    rows, starts = whole.rows, whole.minibatches.starts
    S, K, _ = starts.shape

    def normal(shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(rows.dtype)

    return {
        "pull": normal(rows.shape[1:]).abs(),
        "constant": 0.1 * normal(rows.shape),
        "step_offset": 1e-3 * normal(rows.shape),
        "targets": normal(starts.shape).abs(),
        "scale": 1.7,
        "steps": torch.tensor([K - s % min(K, 3) for s in range(S)]),
        "gradients": normal(rows.shape),
        "frozen": torch.rand(rows.shape[1], generator=generator) < 0.3,
        "clip": 0.05,
        "average": Average(
            rows=normal(rows.shape),
            steps=torch.arange(0, 100 * S, 100, dtype=torch.float64)[:, None],
            decay=0.9,
        ),
    }


TERMS = [*drawn_terms(task(SMALL, Adam()))]


def with_terms(whole, names):
    """A task with terms of these names, or with a gradient by these features."""
    terms = drawn_terms(whole)
    found = {name: terms[name] for name in names if name not in FEATURES}
    for features in set(FEATURES).intersection(names):
        S, K, B = whole.minibatches.starts.shape
        width = {"penultimate": SMALL.mlp[-1], "states": SMALL.look_back * SMALL.hidden}[features]
        random = torch.Generator().manual_seed(2)
        by_feature = 0.02 * torch.randn(S, K, width, B, generator=random).to(whole.rows)
        found |= {"features": features, "by_feature": by_feature}
    return changed(whole, **found)


def test_initial_parameters_are_drawn_as_pytorch_draws_them():
    """Same bounds as `nn.LSTM`, `nn.Linear` and `nn.PReLU`, filled, and fixed by the seed."""
    torch.manual_seed(0)
    row, module = PAPER.initial(10), PAPER.module()
    assert torch.equal(row, PAPER.initial(10))
    assert not torch.equal(row, PAPER.initial(11))
    views = PAPER.layout.views(row[None])
    for ours, theirs in zip(views.values(), module.parameters(), strict=True):
        assert ours[0].shape == theirs.shape
        if (theirs == 0.25).all():
            assert torch.equal(ours[0], theirs)
        elif theirs.numel() > 1000:
            assert ours.abs().max() == pytest.approx(theirs.abs().max().item(), rel=0.02)
            assert ours.std() == pytest.approx(theirs.std().item(), rel=0.05)


OPTIMISERS = [cls() for cls in clients.available().values()] + [
    AdamAMS(variant="torch"),
    AdamAMS(variant="reddi"),
    SgdMomentum(nesterov=True),
    SgdMomentum(dampening=0.9),
    Prox(mu=0.5),
    ProxAdam(mu=0.5),
]


DECAYING = [cls(weight_decay=0.1) for cls in clients.available().values() if cls is not AdamW] + [
    SgdMomentum(nesterov=True, weight_decay=0.1),
    AdamAMS(variant="torch", weight_decay=0.1),
]


SOME = [SgdMomentum(nesterov=True), ProxAdam(mu=0.5)]
TERMS_AND_OPTIMISERS = [([term], opt) for term in [*TERMS, *FEATURES] for opt in SOME]
TERMS_AND_OPTIMISERS += [(TERMS, optimiser) for optimiser in OPTIMISERS]
"""Every term with some optimisers, and all terms at once with every optimiser."""
PLAIN = [([], optimiser) for optimiser in OPTIMISERS + DECAYING]


@pytest.mark.parametrize(("terms", "optimiser"), PLAIN + TERMS_AND_OPTIMISERS)
def test_stacked_agrees_with_reference(optimiser, terms):
    data = dataset(SMALL)
    fresh = task(SMALL, optimiser, rows=3, steps=4, seed=len(terms))
    ours, theirs = (with_terms(changed(fresh, rows=fresh.rows.clone()), terms) for _ in range(2))
    ours = changed(ours, state=optimiser.init(ours.rows))
    loss = Stacked(SMALL, data, CPU, torch.float64).train(ours)
    expected = Reference(SMALL, data, CPU, torch.float64).train(theirs)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-9)
    found = everything(ours)
    for name, values in everything(theirs).items():
        torch.testing.assert_close(found[name], values, rtol=0, atol=1e-9)


SHAPE = WindowShape(inputs=3, look_back=5, covariates=4)
OTHERS = [Mlp(hidden=(6,)), Gru(hidden=4, mlp=(5,)), Linear(), Tcn(channels=4, levels=2, mlp=())]


@pytest.mark.parametrize("network", [SMALL, *(model.network(SHAPE) for model in OTHERS)])
def test_forecasts_agree(network):
    data = dataset(SMALL) if network is SMALL else with_covariates()
    rows = task(network, Adam()).rows
    starts = [torch.arange(3 * i, 3 * i + 20 + i) for i in range(len(rows))]
    starts[0] = starts[0][:1]
    ours = Stacked(network, data, CPU, torch.float64).predict(rows, starts)
    theirs = Reference(network, data, CPU, torch.float64).predict(rows, starts)
    assert [len(f) for f in ours] == [len(s) for s in starts]
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def with_covariates(shape=SHAPE, relative=True):
    """Windows of some shape, with targets on either side of the forecasts and of Huber's bound."""
    data, random = dataset(shape), np.random.default_rng(5)
    covariates = random.random((len(data.load), shape.covariates)).astype(np.float32)
    targets = 2 * random.standard_normal(len(data.load)).astype(np.float32)
    return replace(data, covariates=covariates, targets=targets, relative=relative)


class Weighted(NamedTuple):
    """A loss of three outputs and one target, which no engine knows by name."""

    name: str = "weighted"

    def of(self, outputs, targets):
        return (outputs - targets[..., None]).square() * torch.tensor([1.0, 2, 3]).to(outputs)

    def slope(self, outputs, targets):
        return (outputs - targets[..., None]) * torch.tensor([2.0, 4, 6]).to(outputs)


MLP, GRU, LINEAR, TCN = OTHERS
CASES = [
    *((LINEAR, 1, loss) for loss in POINT.values()),
    *((model, 3, Weighted()) for model in (MLP, GRU, TCN, LstmMlp(hidden=3, mlp=[4]))),
]


@pytest.mark.parametrize(("model", "outputs", "loss"), CASES, ids=lambda x: getattr(x, "name", x))
def test_other_models_and_losses_agree_with_autograd(model, outputs, loss):
    """With all terms; and a row has the same bits beside fewer rows."""
    network = model.network(SHAPE._replace(outputs=outputs, covariates=4 if model in OTHERS else 0))
    data = with_covariates()
    fresh = with_terms(task(network, AdamW()), TERMS)
    # Errors on either side of Huber's bound.
    fresh = changed(fresh, loss=loss, targets=4 * fresh.minibatches.targets)
    ours, theirs = copied(fresh), copied(fresh)
    expected = Reference(network, data, CPU, torch.float64).train(theirs)
    engine = Stacked(network, data, CPU, torch.float64)
    torch.testing.assert_close(engine.train(ours), expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(ours.rows, theirs.rows, rtol=0, atol=1e-9)
    got, expected = (t.tracked.gradients for t in (ours, theirs))
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-9)
    for some in (slice(0, 1), slice(2, 4)):
        engine.train(part := copied(fresh, some))
        found = everything(ours)
        for name, values in everything(part).items():
            assert torch.equal(values, found[name][some]), name
    (found, *_) = engine.predict(ours.rows, [torch.arange(7)] * len(ours.rows))
    assert found.shape == ((7,) if outputs == 1 else (7, outputs))


def test_a_relative_window_starts_from_its_last_load():
    network, data = Linear().network(SHAPE), with_covariates()
    shifted = replace(data, features=data.features + np.array([0.5, 0, 0], np.float32))
    rows = task(network, Adam()).rows
    starts = [torch.arange(9)] * len(rows)
    for engine in (Stacked, Reference):
        one, two, other = (
            engine(network, d, CPU, torch.float64).predict(rows, starts)
            for d in (data, shifted, with_covariates(relative=False))
        )
        torch.testing.assert_close(one[0], two[0], rtol=0, atol=1e-6)
        assert not torch.allclose(one[0], other[0], atol=1e-3)
