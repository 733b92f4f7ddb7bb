"""Forecasts of a load: what terms of methods mean, and the first week."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plfl.interfaces.terms import CorrectedDistillation, Distillation
from plfl.tasks.forecast import Forecast
from plfl.tasks.loads import bin_ratios, quantile_edges

TASK = Forecast()
ONE = torch.zeros(1, dtype=torch.int64)
number = st.floats(-2, 2)


def one(value: float) -> torch.Tensor:
    """A single client's single window."""
    return torch.tensor([[[value]]], dtype=torch.float64)


def corrected(weight: float, edges: list[float], ratios: list[float]):
    numbers = torch.tensor(edges).double(), torch.tensor([ratios]).double()
    return CorrectedDistillation(weight, *numbers)


def test_corrected_target_of_the_specification():
    """y = .5, ŷ_T = .8, ρ = .25, ŷ = .55, λ = .35: y* = .725, L = .01234375."""
    edges, ratios = [0.6], [1.0, 0.25]
    whole = TASK.mix_teacher(corrected(1, edges, ratios), one(0.8), one(0.5), ONE)
    assert whole.item() == pytest.approx(0.725)
    target = TASK.mix_teacher(corrected(0.35, edges, ratios), one(0.8), one(0.5), ONE).item()
    # It is the second client, whose ratios these are.
    two = CorrectedDistillation(
        0.35, torch.tensor(edges).double(), torch.tensor([[1.0, 1.0], ratios]).double()
    )
    assert TASK.mix_teacher(two, one(0.8), one(0.5), ONE + 1).item() == target
    constant = 0.35 * 0.65 * (0.725 - 0.5) ** 2
    assert (0.55 - target) ** 2 + constant == pytest.approx(0.01234375)


@given(number, number)
def test_limits_of_the_correction(y, heard):
    """ρ = 1 everywhere: the targets stay; ρ = 0 in the teacher's bin: it is followed."""
    edges = [-1.0, 0.0, 1.0]
    kept = TASK.mix_teacher(corrected(0.35, edges, [1.0] * 4), one(heard), one(y), ONE).item()
    assert kept == y
    followed = TASK.mix_teacher(corrected(1, edges, [0.0] * 4), one(heard), one(y), ONE).item()
    in_one_bin = np.searchsorted(edges, y) == np.searchsorted(edges, heard)
    assert followed == pytest.approx(y if in_one_bin else heard)


@given(number, number, number, st.floats(0, 5))
def test_distillation_is_a_loss_on_other_targets(y, heard, forecast, weight):
    """Their difference is the same for any forecast, and so is the gradient."""
    term = Distillation(weight)
    _, scale = TASK.objective("mse", term)
    target = TASK.mix_teacher(term, one(heard), one(y), ONE).item()

    def gap(yhat):
        asked = (yhat - y) ** 2 + weight * (yhat - heard) ** 2
        return asked - scale * (yhat - target) ** 2

    assert gap(forecast) == pytest.approx(gap(0.0), abs=1e-9)


def test_bins():
    targets = torch.arange(100.0)
    edges = quantile_edges(targets, 4)
    assert edges.tolist() == [24.75, 49.5, 74.25]
    assert bin_ratios(targets, edges).tolist() == [1, 1, 1, 1]
    own = torch.tensor([0.0, 1, 2, 3, 80, 90])
    assert bin_ratios(own, edges).tolist() == [1, 0, 0, 0.5]
