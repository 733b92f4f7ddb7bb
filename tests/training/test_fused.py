"""The native kernel against PyTorch's layers and optimisers."""

import logging
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import combinations, product
from unittest.mock import patch

import numpy as np
import pytest
import torch

from plfl.layout import KernelForm, WindowShape
from plfl.models.gru import Gru
from plfl.models.lstm_mlp_network import LstmMlpNetwork
from plfl.models.mlp import Mlp
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamams import AdamAMS
from plfl.optimizers.client.adamw import AdamW
from plfl.optimizers.client.proxadam import ProxAdam
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.tasks.losses import POINT, ErrorLoss, Pinball
from plfl.training import fused
from plfl.training.fused import Fused, unavailable_reason
from plfl.training.native import compile
from plfl.training.stacked import Stacked
from tests.helpers.engine_cases import (
    CPU,
    DECAYING,
    FEATURES,
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
from tests.helpers.engine_cases import OPTIMISERS as ALL_OPTIMISERS
from tests.helpers.oracle import Reference
from tests.helpers.refusals import naming
from tests.helpers.tasks import changed, copied, everything, in_double

make_float_task = partial(make_task, rows=3, steps=5, size=16, dtype=torch.float32)
OPTIMISERS = [*ALL_OPTIMISERS, Adam(lr=0.01, beta1=0, beta2=0.999, eps=1e-3)]

pytestmark = pytest.mark.skipif(
    unavailable_reason() is not None, reason=f"no fused engine here: {unavailable_reason()}"
)


@cache
def sets():
    """The instruction sets that this processor has and the compiler knows."""
    found = []
    for name in compile.find_supported():
        with suppress(compile.CompileError):
            compile.load_kernel(name)
            found.append(name)
    return found


@pytest.fixture
def instructions(request):
    """An instruction set of the processor; a test is skipped if the compiler does not know it."""
    if request.param not in (None, *sets()):
        pytest.skip(f"the compiler does not know {request.param}")
    return request.param


def pairwise(*axes):
    """Few combinations of a value of each axis, so that every two values of two axes meet."""

    def pairs(chosen):
        return set(combinations(enumerate(chosen), 2))

    every = list(product(*(range(len(axis)) for axis in axes)))
    missing, found = set().union(*map(pairs, every)), []
    while missing:
        best = max(every, key=lambda chosen: len(pairs(chosen) & missing))
        missing -= pairs(best)
        found.append(tuple(axis[k] for axis, k in zip(axes, best, strict=True)))
    return found


def error(got, expected, start):
    """Distance of each row from where it should be, relative to the way it went; the median row.

    The median, as a row whose rounding lets one sample fall on the other side of a PReLU's kink
    goes another way from there, under PyTorch's own arithmetic as often as under the kernel's.
    """
    distance = torch.linalg.vector_norm(got.double() - expected.double(), dim=1)
    way = torch.linalg.vector_norm(expected.double() - start.double(), dim=1)
    return (distance / way).median().item()


def every_set_agrees(fresh, network, data, most=1e-5):
    """Train copies of a task by autograd and with each instruction set, and compare them.

    Returns each set with the copy that it trained, and the copy of autograd.
    """
    theirs, start, trained = copied(fresh), fresh.rows.clone(), []
    expected = Reference(network, data, CPU).train(theirs)
    starts = [torch.arange(3 * i, 4 * i + 20) for i in range(len(fresh.rows))]
    wanted = Stacked(network, data, CPU).predict(theirs.rows, starts)
    for name in sets():
        ours = copied(fresh)
        engine = Fused(network, data, CPU, instructions=name)
        # What the kernel left to the stacked engine would agree without any of it being tested.
        with patch.object(fused, "leave_to_stacked", None):
            found = engine.train(ours)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-9)
        assert error(ours.rows, theirs.rows, start) < most, name
        forecasts = engine.predict(theirs.rows, starts)
        for one, other in zip(forecasts, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
        trained.append((name, ours))
    return trained, theirs


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=repr)
def test_five_steps_agree_with_the_reference(optimiser):
    every_set_agrees(make_float_task(PAPER, optimiser), PAPER, make_dataset(PAPER))


def test_a_full_round_is_as_near_to_the_exact_one_as_the_reference_is():
    data = make_dataset(PAPER)
    single = make_float_task(PAPER, AdamAMS(), steps=125)
    start, exact, theirs = single.rows.clone(), in_double(single), copied(single)
    Stacked(PAPER, data, CPU, torch.float64).train(exact)
    Reference(PAPER, data, CPU).train(theirs)
    allowed = 2 * error(theirs.rows, exact.rows, start)
    for name in sets():
        ours = copied(single)
        ours.rows.copy_(start)
        Fused(PAPER, data, CPU, instructions=name).train(ours)
        assert error(ours.rows, exact.rows, start) < allowed


@pytest.mark.parametrize(
    ("optimiser", "strengths", "constant"),
    pairwise(
        [Sgd(lr=0.1), Adam(), ProxAdam(mu=0.5)],
        [1, 2, 4, 5],
        ["nowhere", "where something pulls", "everywhere"],
    ),
    ids=repr,
)
def test_a_pull_of_few_strengths_agrees_with_the_reference(optimiser, strengths, constant):
    """Those of at most four are kept in another form, as is a constant that comes with a pull."""
    data = make_dataset(SMALL)
    start = make_float_task(SMALL, optimiser).rows
    pull = torch.arange(start.shape[1]) % (strengths + 1) / 2
    terms = {"pull": pull}
    if constant != "nowhere":
        where = pull > 0 if constant == "where something pulls" else 1
        terms["constant"] = (
            0.1 * where * torch.randn(start.shape, generator=torch.Generator().manual_seed(1))
        )
    every_set_agrees(changed(make_float_task(SMALL, optimiser), **terms), SMALL, data)


@pytest.mark.parametrize("size", [1, 5, 16, 19, 40])
@pytest.mark.parametrize(
    "forecaster",
    [
        SMALL,
        LstmMlpNetwork(inputs=1, look_back=1, hidden=1, mlp=(), absolute=False),
        LstmMlpNetwork(inputs=5, look_back=3, hidden=17, mlp=(33, 20, 5), absolute=False),
        LstmMlpNetwork(inputs=2, look_back=4, hidden=40, mlp=(16,), absolute=True),
    ],
    ids=str,
)
def test_any_size_of_model_and_batch(forecaster, size):
    data, fresh = make_dataset(forecaster), make_float_task(forecaster, Adam(), rows=5, size=size)
    every_set_agrees(fresh, forecaster, data)
    none, some = Fused(forecaster, data, CPU).predict(
        fresh.rows[:2], [torch.arange(0), torch.arange(size)]
    )
    assert (len(none), len(some)) == (0, size)


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=repr)
@pytest.mark.parametrize("kept", ["everything", "the personal part"])
def test_kept_state_goes_on_where_it_was(optimiser, kept):
    """Two rounds of three steps on moments that are kept, against the same in double precision."""
    data = make_dataset(SMALL)
    ours = make_float_task(SMALL, optimiser, rows=5, steps=3)
    start, exact = ours.rows.clone(), in_double(ours)
    engine, oracle = Fused(SMALL, data, CPU), Stacked(SMALL, data, CPU, torch.float64)
    engine.train(ours)
    oracle.train(exact)
    taken = torch.full((5, 1), 3.0, dtype=torch.float64)
    if kept == "the personal part":
        taken = torch.where(ours.shared_mask, 0, taken)
        for x in [*ours.moments.state.values(), *exact.moments.state.values()]:
            x[:, ours.shared_mask] = 0
    ours, exact = changed(ours, behind=taken), changed(exact, behind=taken)
    engine.train(ours)
    oracle.train(exact)
    assert error(ours.rows, exact.rows, start) < (2e-5 if "m" in ours.moments.state else 1e-3)
    for name, x in exact.moments.state.items():
        assert error(ours.moments.state[name], x, torch.zeros_like(x)) < 1e-4


@pytest.mark.parametrize(("terms", "optimiser"), TERMS_AND_OPTIMISERS)
def test_five_steps_with_terms_agree_with_the_reference(optimiser, terms):
    data = make_dataset(SMALL)
    ours = with_changes(make_float_task(SMALL, optimiser), terms)
    begun, theirs = everything(copied(ours)), copied(ours)
    loss = Fused(SMALL, data, CPU).train(ours)
    expected = Reference(SMALL, data, CPU).train(theirs)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)
    found = everything(ours)
    for name, values in everything(theirs).items():
        origin = torch.zeros_like(values) if name == "gradients" else begun[name]
        assert error(found[name], values, origin) < 1e-5, name
    if ours.changes.frozen is not None:
        frozen = ours.changes.frozen
        assert torch.equal(ours.rows[:, frozen], begun["rows"][:, frozen])


@pytest.mark.parametrize("size", [5, 40])
@pytest.mark.parametrize("which", FEATURES)
def test_features_and_gradients_by_them_agree_with_the_reference(which, size):
    """Also where a minibatch does not fill the lanes of its last group."""
    fresh = with_changes(make_float_task(SMALL, SgdMomentum(lr=0.1), size=size), [which])
    every_set_agrees(fresh, SMALL, make_dataset(SMALL))
    theirs = Reference(SMALL, make_dataset(SMALL), CPU)
    for engine in (
        Fused(SMALL, make_dataset(SMALL), CPU),
        Stacked(SMALL, make_dataset(SMALL), CPU),
    ):
        found, expected = (
            one.hidden_features(fresh.rows, fresh.minibatches, which) for one in (engine, theirs)
        )
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("instructions", compile.find_supported(), indirect=True)
@pytest.mark.parametrize(("optimiser", "terms"), [(Adam(), []), (ProxAdam(mu=0.5), TERMS)])
def test_a_row_trains_to_the_same_bits_in_any_stack(optimiser, terms, instructions):
    """Seven rows train and forecast as they do alone, on any number of threads."""
    fresh, data = (
        with_changes(make_float_task(PAPER, optimiser, rows=7, size=20), terms),
        make_dataset(PAPER),
    )
    whole = copied(fresh)
    loss = Fused(PAPER, data, CPU, threads=1, instructions=instructions).train(whole)
    starts = [torch.arange(10 * i, 10 * i + 33) for i in range(7)]
    forecasts = Fused(PAPER, data, CPU, threads=1).predict(whole.rows, starts)
    for threads in (1, 2, 5):
        engine = Fused(PAPER, data, CPU, threads=threads, instructions=instructions)
        for rows in ([0], [3, 4], [6, 2, 0, 5, 1], list(range(7))):
            some = copied(fresh, rows)
            assert torch.equal(engine.train(some), loss[rows])
            found = everything(whole)
            for name, values in everything(some).items():
                assert torch.equal(values, found[name][rows]), name
            for name, x in some.moments.state.items():
                assert torch.equal(x, whole.moments.state[name][rows])
        engine = Fused(PAPER, data, CPU, threads=threads)
        again = engine.predict(whole.rows[[5, 2]], [starts[5][7:], starts[2]])
        assert torch.equal(again[0], forecasts[5][7:])
        assert torch.equal(again[1], forecasts[2])


class Begun(Adam):
    """Adam with squares that do not begin at zero."""

    def init(self, y):
        return {"m": y.new_zeros(y.shape), "v": y.new_full(y.shape, 0.01)}


@pytest.mark.parametrize("engine", [Fused, Stacked, Reference])
@pytest.mark.parametrize("optimiser", [Sgd(), AdamAMS(), Adam(), Begun()], ids=repr)
def test_a_task_without_state_begins_with_a_fresh_one(engine, optimiser):
    begun, empty = make_float_task(SMALL, optimiser), make_float_task(SMALL, optimiser)
    empty = changed(empty, state={})
    engine = engine(SMALL, make_dataset(SMALL), CPU)
    assert torch.equal(engine.train(begun), engine.train(empty))
    assert torch.equal(begun.rows, empty.rows)


def test_windows_outside_of_the_table_are_refused():
    data = make_dataset(SMALL)
    engine, whole = Fused(SMALL, data, CPU), make_float_task(SMALL, Adam())
    last = len(data.features) - data.look_back - data.look_ahead
    engine.predict(whole.rows[:1], [torch.tensor([0, last])])
    for start in (-1, last + 1):
        with naming(IndexError, last):
            engine.predict(whole.rows[:1], [torch.tensor([start])])
        with pytest.raises(IndexError):
            engine.train(changed(whole, starts=torch.full((3, 5, 16), start)))


class SignSgd(Sgd):
    """An optimiser of a user's own."""

    name = "signsgd"

    def step(self, y, g, state, k):
        y.add_(g.sign(), alpha=-self.lr)


def test_what_the_kernel_does_not_know_is_left_to_stacked(caplog):
    data = make_dataset(SMALL)
    uneven = torch.arange(SMALL.layout.width, dtype=torch.float64).expand(3, -1)
    quartic = ErrorLoss("quartic", lambda errors: errors**4, lambda errors: 4 * errors**3)
    unknown = [
        make_float_task(SMALL, SignSgd()),
        changed(make_float_task(SMALL, Adam()), behind=uneven),
        changed(make_float_task(SMALL, Adam()), loss=quartic),
    ]
    for fresh in unknown:
        ours, theirs = copied(fresh), copied(fresh)
        with caplog.at_level(logging.WARNING):
            loss = Fused(SMALL, data, CPU).train(ours)
        assert torch.equal(loss, Stacked(SMALL, data, CPU).train(theirs))
        assert torch.equal(ours.rows, theirs.rows)
    assert "signsgd" in caplog.text


def test_arrays_of_another_size_are_refused():
    engine, whole = Fused(SMALL, make_dataset(SMALL), CPU), make_float_task(SMALL, Adam())
    read = with_changes(whole, ["states"])
    for wrong in (
        changed(whole, rows=whole.rows[:, 1:]),
        changed(whole, starts=whole.minibatches.starts.repeat(2, 1, 1)),
        changed(whole, state={name: x[:1] for name, x in whole.moments.state.items()}),
        changed(whole, constant=whole.rows[:1]),
        changed(whole, pull=whole.rows),
        changed(whole, targets=whole.rows),
        changed(whole, frozen=whole.shared_mask[1:]),
        changed(whole, shared_mask=whole.shared_mask[1:]),
        changed(whole, steps=torch.tensor([1, 6, 1])),
        changed(read, by_feature=read.changes.by_feature[:, 1:]),
    ):
        with pytest.raises(ValueError, match="are needed, not"):
            engine.train(wrong)
    with pytest.raises(ValueError, match="are needed, not"):
        engine.predict(whole.rows, [torch.arange(5)] * 4)


MODEL = Mlp(hidden=(7, 5)).network(SHAPE)
LOSSES = ["mse", "mae", "huber"]


def mlp_task(network, optimiser=AdamW(weight_decay=0.1), size=16, loss="mae"):  # noqa: B008
    return changed(make_float_task(network, optimiser, rows=5, size=size), loss=POINT[loss])


@pytest.mark.parametrize(
    ("hidden", "shape", "relative", "loss", "size"),
    pairwise(
        [(), (6,), (7, 5), (20, 33, 4)],
        [SHAPE, WindowShape(2, 8), WindowShape(1, 1, 40)],
        [False, True],
        LOSSES,
        [1, 16, 19, 64],
    ),
    ids=str,
)
def test_any_depth_window_and_batch_agrees_with_autograd(hidden, shape, relative, loss, size):
    network, data = Mlp(hidden=hidden).network(shape), with_covariates(shape, relative)
    every_set_agrees(mlp_task(network, loss=loss, size=size), network, data, 2e-5)


@pytest.mark.parametrize("optimiser", DECAYING, ids=repr)
def test_a_coupled_weight_decay_agrees_with_autograd(optimiser):
    fresh = with_changes(mlp_task(MODEL, optimiser, loss="mse"), ["pull", "frozen"])
    every_set_agrees(fresh, MODEL, with_covariates(), 2e-5)


@pytest.mark.parametrize(
    ("network", "horizons", "loss"),
    pairwise(["mlp", "lstm_mlp"], [1, 3, 17], [*POINT.values(), Pinball((0.1, 0.5, 0.9))]),
    ids=lambda x: getattr(x, "name", x),
)
def test_several_outputs_agree_with_autograd(network, horizons, loss):
    shape = SHAPE._replace(outputs=horizons * len(getattr(loss, "levels", [0])))
    random, data = np.random.default_rng(6), with_covariates(shape)
    if horizons > 1:
        targets = random.standard_normal((len(data.load), horizons)).astype(np.float32)
        data = replace(data, targets=targets, horizons=horizons)
    if network == "mlp":
        model = Mlp(hidden=(7, 5)).network(shape)
    else:
        sizes = {"hidden": 7, "mlp": (6, 4), "absolute": True, "outputs": shape.outputs}
        model = LstmMlpNetwork(shape.inputs, shape.look_back, **sizes)
    # Adam would turn a gradient that cancels, but for rounding, into a whole step.
    optimiser = SgdMomentum(lr=0.1)
    fresh = changed(mlp_task(model, optimiser, size=20), loss=loss)
    every_set_agrees(fresh, model, data, 2e-5)


@pytest.mark.parametrize("instructions", [None, *compile.find_supported()], indirect=True)
def test_a_diverged_row_shows_and_leaves_the_others_alone(instructions):
    """In each set of the kernel, and without one in the stacked engine."""
    engine = Stacked(SMALL, with_covariates(), CPU)
    if instructions:
        engine = Fused(MODEL, with_covariates(), CPU, threads=1, instructions=instructions)
    fresh = mlp_task(MODEL if instructions else SMALL)
    healthy, sick = copied(fresh), copied(fresh)
    sick.rows[1, 0] = torch.nan
    sick.rows[3] = 1e30
    expected, losses = engine.train(healthy), engine.train(sick)
    assert losses[1].isnan()
    assert sick.rows[1, :-1].isnan().all()
    assert not losses[3] < 1e20
    others = [0, 2, 4]
    assert torch.equal(losses[others], expected[others])
    assert torch.equal(sick.rows[others], healthy.rows[others])
    assert engine.predict(sick.rows, [torch.arange(20)] * 5)[1].isnan().all()


class Claims:
    """A model with another form than its own."""

    def __init__(self, network, form):
        self.layout, self.kernel_form = network.layout, form


def test_a_model_that_the_kernel_does_not_know_is_refused():
    with pytest.raises(ValueError, match="does not know the model"):
        Fused(Gru(hidden=4).network(SHAPE), with_covariates(), CPU)
    for form in (KernelForm(0, (7, 6), "silu"), KernelForm(0, (7, 5), "prelu")):
        with naming(ValueError, MODEL.layout.width):
            Fused(Claims(MODEL, form), with_covariates(), CPU)
