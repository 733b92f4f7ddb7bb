"""The losses of trees against those of the engines."""

import numpy as np
import pytest
import torch

from plfl.federated.tree_losses import TREE_LOSSES, QuantileLoss, TreeLoss
from plfl.tasks.losses import POINT, Loss, Pinball

LEVELS = (0.025, 0.5, 0.9)
PAIRS: list[tuple[TreeLoss, Loss]] = [
    *((TREE_LOSSES[name], loss) for name, loss in POINT.items()),
    *((QuantileLoss(level), Pinball((level,))) for level in LEVELS),
]


@pytest.mark.parametrize(("loss", "known"), PAIRS)
def test_slopes_are_a_multiple_of_those_of_the_engines(loss: TreeLoss, known: Loss) -> None:
    scores = np.array([0.0, 0.3, -4.0, 2.0, 0.1])
    targets = np.array([0.2, -0.1, 3.0, -5.0, 0.7])
    slopes = loss.compute_slopes(scores, targets)
    assert slopes.dtype == np.float32 and np.abs(slopes).max() <= loss.largest_slope
    ratios = slopes / known.slope(torch.tensor(scores), torch.tensor(targets)).numpy()
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_slopes_of_quantiles_are_the_smallest_whole_numbers(level: float) -> None:
    loss = QuantileLoss(level)
    slopes = loss.compute_slopes(np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0, 2.0]))
    above, below, _ = loss.whole_slopes
    assert slopes.tolist() == [above, -below, 0] and np.gcd(above, below) == 1
    assert loss.level == level == pytest.approx(below / (above + below))


def test_other_slopes_are_no_whole_numbers() -> None:
    assert [name for name, loss in TREE_LOSSES.items() if loss.whole_slopes is None] == [
        "mse",
        "huber",
    ]
    assert TREE_LOSSES["mse"].level is None and np.isinf(TREE_LOSSES["mse"].largest_slope)
