"""The engine `stacked` against PyTorch's own layers and optimisers, one model at a time."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch

from plfl.models.lstm_mlp import LstmMlp
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamw import AdamW
from plfl.tasks.losses import POINT
from plfl.training.stacked import Stacked
from plfl_reproductions.models.linear import Linear
from tests.helpers.engine_cases import (
    CPU,
    DECAYING,
    OPTIMISERS,
    OTHER_MODELS,
    PAPER,
    SHAPE,
    SMALL,
    TERMS,
    TERMS_AND_OPTIMISERS,
    make_dataset,
    make_task,
    with_changes,
    with_covariates,
)
from tests.helpers.oracle import Reference
from tests.helpers.tasks import changed, copied, everything


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


PLAIN = [([], optimiser) for optimiser in OPTIMISERS + DECAYING]


@pytest.mark.parametrize(("terms", "optimiser"), PLAIN + TERMS_AND_OPTIMISERS)
def test_stacked_agrees_with_reference(optimiser, terms):
    data = make_dataset(SMALL)
    fresh = make_task(SMALL, optimiser, rows=3, steps=4, seed=len(terms))
    ours, theirs = (with_changes(changed(fresh, rows=fresh.rows.clone()), terms) for _ in range(2))
    ours = changed(ours, state=optimiser.init(ours.rows))
    loss = Stacked(SMALL, data, CPU, torch.float64).train(ours)
    expected = Reference(SMALL, data, CPU, torch.float64).train(theirs)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-9)
    found = everything(ours)
    for name, values in everything(theirs).items():
        torch.testing.assert_close(found[name], values, rtol=0, atol=1e-9)


@pytest.mark.parametrize("network", [SMALL, *(model.network(SHAPE) for model in OTHER_MODELS)])
def test_forecasts_agree(network):
    data = make_dataset(SMALL) if network is SMALL else with_covariates()
    rows = make_task(network, Adam()).rows
    starts = [torch.arange(3 * i, 3 * i + 20 + i) for i in range(len(rows))]
    starts[0] = starts[0][:1]
    ours = Stacked(network, data, CPU, torch.float64).predict(rows, starts)
    theirs = Reference(network, data, CPU, torch.float64).predict(rows, starts)
    assert [len(f) for f in ours] == [len(s) for s in starts]
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


class Weighted(NamedTuple):
    """A loss of three outputs and one target, which no engine knows by name."""

    name: str = "weighted"

    def evaluate(self, outputs, targets):
        return (outputs - targets[..., None]).square() * torch.tensor([1.0, 2, 3]).to(outputs)

    def slope(self, outputs, targets):
        return (outputs - targets[..., None]) * torch.tensor([2.0, 4, 6]).to(outputs)


MLP, GRU, LINEAR, TCN = OTHER_MODELS
CASES = [
    *((LINEAR, 1, loss) for loss in POINT.values()),
    *((model, 3, Weighted()) for model in (MLP, GRU, TCN, LstmMlp(hidden=3, mlp=[4]))),
]


@pytest.mark.parametrize(("model", "outputs", "loss"), CASES, ids=lambda x: getattr(x, "name", x))
def test_other_models_and_losses_agree_with_autograd(model, outputs, loss):
    """With all terms; and a row has the same bits beside fewer rows."""
    network = model.network(
        SHAPE._replace(outputs=outputs, covariates=4 if model in OTHER_MODELS else 0)
    )
    data = with_covariates()
    fresh = with_changes(make_task(network, AdamW()), TERMS)
    # Errors on either side of Huber's bound.
    fresh = changed(fresh, loss=loss, targets=4 * fresh.minibatches.targets)
    ours, theirs = copied(fresh), copied(fresh)
    expected = Reference(network, data, CPU, torch.float64).train(theirs)
    engine = Stacked(network, data, CPU, torch.float64)
    torch.testing.assert_close(engine.train(ours), expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(ours.rows, theirs.rows, rtol=0, atol=1e-9)
    got, expected = (t.tracked_rows.gradients for t in (ours, theirs))
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
    rows = make_task(network, Adam()).rows
    starts = [torch.arange(9)] * len(rows)
    for engine in (Stacked, Reference):
        one, two, other = (
            engine(network, d, CPU, torch.float64).predict(rows, starts)
            for d in (data, shifted, with_covariates(relative=False))
        )
        torch.testing.assert_close(one[0], two[0], rtol=0, atol=1e-6)
        assert not torch.allclose(one[0], other[0], atol=1e-3)
