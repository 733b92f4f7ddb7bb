"""The terms in the loss: reference values, and the engines that compute them."""

import math

import pytest
import torch

from plfl.models.forecaster import Forecaster
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamams import AdamAMS
from plfl.optimizers.client.sgd import Sgd
from plfl.training import losses
from plfl.training.fused import Fused, unavailable_reason
from plfl.training.reference import Reference
from plfl.training.stacked import Stacked
from plfl.training.task import Contrast
from tests.helpers.tasks import changed
from tests.training.test_engines import CPU, SMALL, dataset, task


def test_contrastive_loss_of_the_specification():
    h, near, far = torch.tensor([[1.0, 2], [1, 0], [0, 1]]).double()
    assert losses.contrastive(h, near, far, 0.5).item() == pytest.approx(1.2371950825, abs=1e-10)
    assert losses.contrastive(h, h, h, 0.5).item() == pytest.approx(math.log(2))


def test_a_contrast_has_the_same_bits_in_any_stack():
    random = torch.Generator().manual_seed(0)
    h, near, far = torch.randn(3, 64, 7, 32, generator=random)
    whole = losses.contrastive(h, near, far, 0.5)
    for rows in (1, 2, 5, 10, 50):
        some = losses.contrastive(h[:rows], near[:rows], far[:rows], 0.5)
        assert torch.equal(some, whole[:rows])


def contrasted(
    optimiser, features="states", *, dtype=torch.float64, forecaster=SMALL, rows=5, steps=6
):
    """A round of rows that have trained before: each has a previous model of its own."""
    plain = task(forecaster, optimiser, rows, steps, dtype=dtype)
    noise = torch.randn(plain.rows.shape, generator=torch.Generator().manual_seed(2))
    return changed(
        plain, contrast=Contrast(1.5, 0.5, features), previous=plain.rows + 0.2 * noise.to(dtype)
    )


BARE = Forecaster(inputs=3, look_back=5, hidden=7, mlp=(), absolute=False)


@pytest.mark.parametrize(
    ("forecaster", "optimiser", "features"),
    [
        (SMALL, AdamAMS(), "states"),
        (SMALL, Sgd(lr=0.1), "penultimate"),
        (BARE, Adam(), "states"),
        (BARE, Adam(), "penultimate"),
    ],
)
def test_stacked_agrees_with_reference_on_the_contrastive_term(forecaster, optimiser, features):
    data = dataset(forecaster)
    ours, theirs, plain = (contrasted(optimiser, features, forecaster=forecaster) for _ in range(3))
    loss = Stacked(forecaster, data, CPU, torch.float64).train(ours)
    expected = Reference(forecaster, data, CPU, torch.float64).train(theirs)
    torch.testing.assert_close(ours.rows, theirs.rows, rtol=0, atol=1e-9)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-9)
    without = changed(plain, contrast=None)
    Stacked(forecaster, data, CPU, torch.float64).train(without)
    assert (ours.rows - without.rows).abs().max() > 1e-4


@pytest.mark.skipif(unavailable_reason() is not None, reason=str(unavailable_reason()))
@pytest.mark.parametrize("features", ["states", "penultimate"])
def test_the_fused_engine_and_a_contrast(instructions, features):
    data, optimiser = dataset(SMALL), Adam()
    ours, theirs, plain = (contrasted(optimiser, features, dtype=torch.float32) for _ in range(3))
    loss = Fused(SMALL, data, CPU, instructions=instructions).train(ours)
    expected = Stacked(SMALL, data, CPU).train(theirs)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(ours.rows, theirs.rows, rtol=0, atol=2e-6)
    Fused(SMALL, data, CPU, instructions=instructions).train(changed(plain, contrast=None))
    assert (ours.rows - plain.rows).abs().max() > 1e-3
