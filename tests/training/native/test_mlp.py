"""The kernel's MLP, losses, weight decay and windows against autograd and PyTorch's optimisers."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from plfl.layout import KernelForm, WindowShape
from plfl.models.forecaster import Forecaster
from plfl.models.gru import Gru
from plfl.models.mlp import Mlp
from plfl.optimizers.client.adamw import AdamW
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.tasks.losses import POINT, Pinball
from plfl.training import fused
from plfl.training.fused import Fused, unavailable_reason
from plfl.training.reference import Reference
from plfl.training.stacked import Stacked
from tests.helpers.kernels import instruction_sets
from tests.helpers.pairwise import pairwise
from tests.helpers.refusals import naming
from tests.helpers.tasks import changed, copied
from tests.training.test_engines import DECAYING, dataset, with_keys, with_terms
from tests.training.test_engines import task as task_of
from tests.training.test_fused import error

pytestmark = pytest.mark.skipif(
    unavailable_reason() is not None, reason=f"no fused engine here: {unavailable_reason()}"
)

CPU = torch.device("cpu")
SHAPE = WindowShape(inputs=3, look_back=5, context=4)
MODEL = Mlp(hidden=(7, 5)).network(SHAPE)
RECIPE = WindowShape(inputs=1, look_back=12, context=96)
LOSSES = ["mse", "mae", "huber"]


@pytest.fixture(autouse=True)
def nothing_left_to_stacked(monkeypatch):
    """What the kernel left to the stacked engine would agree without any of it being tested."""

    def fail(what):
        raise AssertionError(f"left to the stacked engine: {what}")

    monkeypatch.setattr(fused, "_leave_to_stacked", fail)


def windows(shape, relative=True):
    """Windows of some shape, with targets on either side of the forecasts and of Huber's bound."""
    papers = Forecaster(shape.inputs, shape.look_back, hidden=1, mlp=(), absolute=False)
    data, random = dataset(papers), np.random.default_rng(5)
    context = random.random((len(data.load), shape.context)).astype(np.float32)
    targets = 2 * random.standard_normal(len(data.load)).astype(np.float32)
    return replace(data, context=context, targets=targets, relative=relative)


def task(network, optimiser=AdamW(weight_decay=0.1), size=16, steps=5, loss="mae", rows=5):  # noqa: B008
    fresh = task_of(network, optimiser, rows, steps, size, torch.float32)
    return changed(fresh, loss=POINT[loss])


def every_set_agrees(fresh, network, data):
    """Train copies of a task by autograd and with each instruction set, and compare them.

    Returns each set with the copy that it trained, and the copy of autograd.
    """
    theirs, start, trained = copied(fresh, slice(None)), fresh.rows.clone(), []
    expected = Reference(network, data, CPU).train(theirs)
    starts = [torch.arange(3 * i, 4 * i + 20) for i in range(len(fresh.rows))]
    wanted = Stacked(network, data, CPU).predict(theirs.rows, starts)
    for name in instruction_sets():
        ours = copied(fresh, slice(None))
        engine = Fused(network, data, CPU, instructions=name)
        found = engine.train(ours)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
        assert error(ours.rows, theirs.rows, start) < 2e-5, name
        forecasts = engine.predict(theirs.rows, starts)
        for one, other in zip(forecasts, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
        trained.append((name, ours))
    return trained, theirs


@pytest.mark.parametrize(
    ("hidden", "shape", "relative", "loss"),
    pairwise(
        [(), (6,), (7, 5), (20, 33, 4)],
        [SHAPE, WindowShape(2, 8), WindowShape(1, 1, 40)],
        [False, True],
        LOSSES,
    ),
    ids=str,
)
def test_any_depth_and_window_agrees_with_autograd(hidden, shape, relative, loss):
    network, data = Mlp(hidden=hidden).network(shape), windows(shape, relative)
    every_set_agrees(task(network, loss=loss), network, data)


@pytest.mark.parametrize("optimiser", DECAYING, ids=repr)
def test_a_coupled_weight_decay_agrees_with_autograd(optimiser):
    """Also of the model in a mixture."""
    fresh = with_terms(task(MODEL, optimiser, loss="mse"), ["mixture", "pull", "frozen"])
    trained, theirs = every_set_agrees(fresh, MODEL, windows(SHAPE))
    for name, ours in trained:
        second, third, begun = (t.terms.mixture.rows for t in (ours, theirs, fresh))
        assert error(second, third, begun) < 2e-5, name


@pytest.mark.parametrize(
    ("terms", "size", "activation"),
    pairwise(
        [[], ["lookahead", "mixture", "storm", "steps", "clip"]],
        [5, 40],
        ["silu", "relu", "prelu"],
    ),
)
def test_dropout_agrees_with_autograd(terms, size, activation):
    network = Mlp(hidden=(7, 20), activation=activation, dropout=0.3).network(SHAPE)
    data, fresh = windows(SHAPE), task(network, SgdMomentum(), size=size, loss="mse")
    fresh = with_keys(with_terms(fresh, terms))
    for name, ours in every_set_agrees(fresh, network, data)[0]:
        engine, plain = Fused(network, data, CPU, instructions=name), copied(fresh, slice(None))
        engine.train(changed(plain, keys=None))
        assert error(ours.rows, plain.rows, fresh.rows) > 1e-3, name
        fewer = copied(fresh, slice(2, 4))
        engine.train(fewer)
        assert torch.equal(fewer.rows, ours.rows[2:4]), name


@pytest.mark.parametrize(
    ("network", "horizons", "loss"),
    pairwise(["mlp", "lstm_mlp"], [1, 3, 17], [*POINT.values(), Pinball((0.1, 0.5, 0.9))]),
    ids=lambda x: getattr(x, "name", x),
)
def test_several_outputs_agree_with_autograd(network, horizons, loss):
    shape = SHAPE._replace(outputs=horizons * len(getattr(loss, "levels", [0])))
    random, data = np.random.default_rng(6), windows(shape)
    if horizons > 1:
        targets = random.standard_normal((len(data.load), horizons)).astype(np.float32)
        data = replace(data, targets=targets, horizons=horizons)
    if network == "mlp":
        model = Mlp(hidden=(7, 5)).network(shape)
    else:
        sizes = {"hidden": 7, "mlp": (6, 4), "absolute": True, "outputs": shape.outputs}
        model = Forecaster(shape.inputs, shape.look_back, **sizes)
    # Adam would turn a gradient that cancels, but for rounding, into a whole step.
    optimiser = SgdMomentum(lr=0.1)
    fresh = changed(task(model, optimiser, size=20), loss=loss)
    every_set_agrees(fresh, model, data)


@pytest.mark.parametrize("size", [1, 19, 64])
def test_any_batch_agrees_with_autograd(size):
    network = Mlp().network(RECIPE)
    every_set_agrees(task(network, size=size), network, windows(RECIPE))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_diverged_row_shows_and_leaves_the_others_alone(loss, instructions):
    fresh = task(MODEL, loss=loss)
    engine = Fused(MODEL, windows(SHAPE), CPU, threads=1, instructions=instructions)
    healthy, sick = copied(fresh, slice(None)), copied(fresh, slice(None))
    sick.rows[1, 0] = torch.nan
    sick.rows[3] = 1e30
    expected, losses = engine.train(healthy), engine.train(sick)
    assert losses[1].isnan()
    assert sick.rows[1].isnan().all()
    assert not losses[3] < 1e20
    others = [0, 2, 4]
    assert torch.equal(losses[others], expected[others])
    assert torch.equal(sick.rows[others], healthy.rows[others])
    assert engine.predict(sick.rows, [torch.arange(20)] * 5)[1].isnan().all()


class Claims:
    """A model with another form than its own."""

    def __init__(self, network, form):
        self.layout, self.kernel_form = network.layout, form
        self.dropout = network.dropout


def test_a_model_that_the_kernel_does_not_know_is_refused():
    with pytest.raises(ValueError, match="does not know the model"):
        Fused(Gru(hidden=4).network(SHAPE), windows(SHAPE), CPU)
    for form in (KernelForm(0, (7, 6), "silu"), KernelForm(0, (7, 5), "prelu")):
        with naming(ValueError, MODEL.layout.width):
            Fused(Claims(MODEL, form), windows(SHAPE), CPU)
