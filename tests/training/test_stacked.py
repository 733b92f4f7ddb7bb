"""Many rows in one stack: none has an effect on another."""

import pytest
import torch

from plfl.optimizers.client.adam import Adam
from plfl.training.stacked import Stacked
from tests.helpers.tasks import copied, everything
from tests.training.test_engines import CPU, PAPER, SMALL, dataset, task, with_terms


@pytest.mark.parametrize(
    "terms",
    [
        [],
        ["storm", "steps"],
        ["rates", "average", "clip", "steps"],
        ["lookahead", "mixture", "anchor", "pull", "steps"],
    ],
    ids=["plain", "storm", "pace", "points"],
)
def test_a_row_trains_to_the_same_bits_in_any_stack(terms):
    data = dataset(PAPER)
    fresh = with_terms(task(PAPER, Adam(), rows=15, steps=4, size=16, dtype=torch.float32), terms)
    whole = copied(fresh, slice(None))
    Stacked(PAPER, data, CPU).train(whole)
    for columns in (slice(0, 1), slice(7, 9), slice(3, 14)):
        fewer = copied(fresh, columns)
        Stacked(PAPER, data, CPU).train(fewer)
        found = everything(whole)
        for name, values in everything(fewer).items():
            assert torch.equal(values, found[name][columns]), name


def test_a_diverging_row_leaves_the_others_alone():
    data = dataset(SMALL)
    healthy, sick = task(SMALL, Adam()), task(SMALL, Adam())
    sick.rows[2] = float("nan")
    engine = Stacked(SMALL, data, CPU, torch.float64)
    loss = engine.train(sick)
    engine.train(healthy)
    assert loss[2].isnan()
    others = [0, 1, 3, 4]
    assert torch.equal(sick.rows[others], healthy.rows[others])
