"""ClientOpt against reference values, torch.optim and each other."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamams import AdamAMS
from plfl.optimizers.client.prox import Prox
from plfl.optimizers.client.proxadam import ProxAdam
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.client.sgdm import SgdMomentum


def descend(opt, *, start=2.0, steps=3, stream=None):
    """Iterates on f = 4/2 (y − 1)² from `start`, anchored there, or along a gradient stream."""
    y = torch.tensor([[start]], dtype=torch.float64)
    anchor, state, path = y.clone(), opt.init(y), []
    for k in range(1, steps + 1):
        g = 4 * (y - 1) if stream is None else torch.full_like(y, stream[k - 1])
        g = g + opt.proximal * (y - anchor)
        opt.step(y, g, state, k)
        path.append(y.item())
    return path


PLAIN = {"lr": 0.1, "beta1": 0.9, "beta2": 0.999}
HALF = {"lr": 0.1, "beta1": 0.5, "beta2": 0.9}


@pytest.mark.parametrize(
    ("opt", "expected"),
    [
        (Sgd(lr=0.1), [1.6, 1.36, 1.216]),
        (SgdMomentum(lr=0.1, momentum=0.9), [1.6, 1.0, 0.46]),
        (Adam(**PLAIN), [1.9000000002, 1.8004122282, 1.7015862722]),
        (AdamAMS(**PLAIN), [1.9000000002, 1.8052631584, 1.7157700531]),
        (AdamAMS(**PLAIN, variant="torch"), [1.9000000002, 1.8004122282, 1.7015862722]),
        (AdamAMS(**PLAIN, variant="reddi"), [1.683772259, 1.2702060182, 0.8378585889]),
        (Adam(**HALF), [1.9000000002, 1.8016180289, 1.7059824796]),
        (AdamAMS(**HALF), [1.9000000002, 1.8066666671, 1.7205714292]),
        (Prox(lr=0.1, mu=1), [1.6, 1.4, 1.3]),
        (ProxAdam(**PLAIN, mu=1), [1.9000000002, 1.8005682834, 1.7022200664]),
    ],
    ids=str,
)
def test_expected_numbers(opt, expected):
    assert descend(opt) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("opt", "expected"),
    [
        (Adam(lr=0.1, beta1=0.9, beta2=0.9), -0.2877995574),
        (AdamAMS(lr=0.1, beta1=0.9, beta2=0.9), -0.2085329545),
        (AdamAMS(lr=0.1, beta1=0.9, beta2=0.9, variant="torch"), -0.2705125693),
        (AdamAMS(lr=0.1, beta1=0.9, beta2=0.9, variant="reddi"), -0.1176209157),
    ],
    ids=str,
)
def test_a_shrinking_gradient_tells_the_second_moments_apart(opt, expected):
    path = descend(opt, start=0.0, steps=4, stream=[2, 0.1, 0.1, 0.1])
    assert path[-1] == pytest.approx(expected, abs=1e-9)


class SignSgd(Sgd):
    """An optimiser of a user's own."""

    def step(self, y, g, state, k):
        y.add_(g.sign(), alpha=-self.lr)


@pytest.mark.parametrize(
    "opt",
    [
        Sgd(lr=0.1),
        Sgd(lr=0.1, weight_decay=0.1),
        SgdMomentum(lr=0.1),
        Adam(lr=0.1),
        Prox(lr=0.1),
        SignSgd(lr=0.1),
    ],
    ids=str,
)
def test_who_adds_up_says_so(opt):
    start = torch.tensor([[2.0]], dtype=torch.float64)
    y, state = start.clone(), opt.init(start)
    for k, gradient in enumerate([4.0, 0.5, 2.5], start=1):
        g = opt.decay_weights(y, torch.full_like(y, gradient))
        opt.step(y, g + opt.proximal * (y - start), state, k)
    assert opt.adds_up == (y.item() == pytest.approx(2 - 0.1 * 7))


gradients = st.lists(st.floats(-1e3, 1e3, allow_nan=False), min_size=1, max_size=8)


@given(gradients)
def test_without_pull_prox_is_its_base(stream):
    """Prox μ=0 is sgd, proxadam μ=0 is adam."""
    run = {"stream": stream, "steps": len(stream)}
    assert descend(Prox(mu=0), **run) == descend(Sgd(), **run)
    assert descend(ProxAdam(mu=0), **run) == descend(Adam(), **run)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=8).map(sorted))
def test_adamams_is_adam_while_the_moment_grows(stream):
    """For gradients that never shrink."""
    run = {"stream": stream, "steps": len(stream)}
    assert descend(AdamAMS(), **run) == pytest.approx(descend(Adam(), **run), rel=1e-9)


def test_dampening_counts_the_first_gradient_of_each_row_in_full():
    """Rows that are at different steps, as when moments are kept."""
    damped, y = SgdMomentum(lr=0.1, momentum=0.9, dampening=0.3), torch.zeros(2, 1).double()
    damped.step(y, torch.ones_like(y), damped.init(y), torch.tensor([[1.0], [5.0]]).double())
    assert y.flatten().tolist() == pytest.approx([-0.1, -0.07])
