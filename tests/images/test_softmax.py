"""Losses of logits, against numbers of an independent reference, to ten digits."""

import pytest
import torch

from plfl.interfaces.terms import (
    CorrectedDistillation,
    Distillation,
    NotTrueDistillation,
    Restriction,
    Term,
)
from plfl_images import softmax
from plfl_images.classify import Classify

Z = torch.tensor([2.0, 1.0, 0.0, -1.0], dtype=torch.float64)
TAUGHT = torch.tensor([0.5, 1.5, -0.5, 0.5], dtype=torch.float64)
SHARES = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64)
RATIOS = SHARES / SHARES.max()


NONE = torch.empty(0)
TABLE = torch.stack([torch.zeros(4).double(), RATIOS])
"""ρ of two clients."""


def without(*labels: int) -> Restriction:
    """FedRS's term of a client that lacks these labels; another lacks them all."""
    return Restriction(0.5, torch.tensor([[False] * 4, [i not in labels for i in range(4)]]))


@pytest.mark.parametrize(
    ("term", "loss", "slope"),
    [
        (None, 0.4401896986, (-0.3560857401, 0.2368828181, 0.0871443187, 0.0320586033)),
        (
            CorrectedDistillation(0.35, NONE, TABLE),
            0.3668014635,
            (-0.1810857401, 0.1433546551, 0.0744866583, -0.0367555734),
        ),
        (
            CorrectedDistillation(0.35, NONE, TABLE, 4.0),
            0.9251353434,
            (-0.4415509188, 0.3142823905, 0.2196035047, -0.0923349764),
        ),
        (NotTrueDistillation(0, 1, 1.0), 0.1546978979, None),
        (
            NotTrueDistillation(0.7, 0.3, 1.0),
            0.3545421584,
            (-0.2492600181, 0.1658179727, 0.1074103925, -0.0239683471),
        ),
        (NotTrueDistillation(1, 1, 1.0), 0.5948875964, None),
        (without(), 0.4401896986, (-0.3560857401, 0.2368828181, 0.0871443187, 0.0320586033)),
        (without(3), 0.4607734892, (-0.3692044568, 0.2320567119, 0.0853688935, 0.0258894256)),
        (without(1, 3), 0.3650252919, (-0.3058209065, 0.0774461462, 0.0939469242, 0.0284908450)),
        (
            Distillation(0.1, 0.5),
            0.4815101004,
            (-0.3180876755, 0.2039455891, 0.0872259620, 0.0269161244),
        ),
    ],
)
def test_terms_of_methods(term: Term | None, loss: float, slope: tuple[float, ...] | None) -> None:
    """What the task makes of them for a window of the second client."""
    task, labels = Classify(), torch.zeros(1, 1, 1).double()
    taught = TAUGHT[None, None, None]
    targets = labels if term is None else task.mix_teacher(term, taught, labels, torch.tensor([1]))
    objective = task.objective("mse", term)
    assert objective.scale == 1
    z, study = Z[None, None, None], objective.loss
    assert study.evaluate(z, targets).item() == pytest.approx(loss, abs=5e-11)
    if slope is not None:
        assert study.slope(z, targets).flatten().tolist() == pytest.approx(slope, abs=5e-11)


def test_not_true_distillation_with_a_temperature() -> None:
    z = torch.tensor([0.3, 2, -1, 0.7, 0], dtype=torch.float64)
    taught = torch.tensor([1, 0.2, -0.4, 1.6, -2], dtype=torch.float64)
    term, label = NotTrueDistillation(0, 1.0, 3.0), torch.tensor([[[1.0]]]).double()
    targets = Classify().mix_teacher(term, taught[None, None, None], label, torch.tensor([0]))
    loss = Classify().objective("mse", term).loss
    assert loss.evaluate(z, targets).item() == pytest.approx(0.4934217394, abs=5e-11)
    found = loss.slope(z[None, None, None], targets).flatten()
    slope = (-0.1209986626, 0, -0.0586234231, -0.2117296109, 0.3913516966)
    assert found.tolist() == pytest.approx(slope, abs=5e-11)
    assert found[1] == 0


def test_a_batch_of_two() -> None:
    z = torch.stack([Z, torch.tensor([0, 0.5, 1, 0], dtype=torch.float64)])
    taught = torch.stack([TAUGHT, torch.tensor([1, 1, 2, -1], dtype=torch.float64)])
    y = torch.tensor([0, 2])
    p = softmax.correct_teacher(taught, y, RATIOS.expand(2, -1), 4.0)
    assert softmax.cross_entropy(z, y).loss.mean().item() == pytest.approx(0.6456592932, abs=5e-11)
    # `batchmean` in PyTorch's terms; its `mean` would also divide by the four classes.
    soft = softmax.divergence(z, p, 4.0).loss.mean().item()
    assert soft == pytest.approx(0.3058764976, abs=5e-11)
    whole = softmax.Taught(0.65, 0.35 * 16, 4.0).mean(z, softmax.pack_targets(y, p))
    assert whole.item() == pytest.approx(2.1325869270, abs=5e-11)


def test_the_corrected_teacher_is_never_negative_in_single_precision() -> None:
    random = torch.Generator().manual_seed(0)
    taught = 8 * torch.randn(5000, 10, generator=random)
    ratios = torch.rand(5000, 10, generator=random)
    y = torch.randint(10, (5000,), generator=random)
    p = softmax.correct_teacher(taught, y, ratios, 1.0)
    assert p.min() >= 0
    assert torch.allclose(p.sum(-1), torch.ones(5000), atol=1e-6)


@pytest.mark.parametrize("without_label", [False, True])
def test_slopes_are_derivatives(without_label: bool) -> None:
    loss = softmax.Taught(0.6, 2.0, 3.0, without_label)
    random = torch.Generator().manual_seed(1)
    z = torch.randn(3, 4, 10, generator=random, dtype=torch.float64)
    taught = torch.randn(3, 4, 10, generator=random, dtype=torch.float64)
    y = torch.randint(10, (3, 4), generator=random)
    p = softmax.without_label(taught, y, 2.0) if without_label else torch.softmax(taught, -1)
    targets = softmax.pack_targets(y, p)
    leaf = z.clone().requires_grad_()
    (by_leaf,) = torch.autograd.grad(loss.evaluate(leaf, targets).sum(), leaf)
    assert torch.allclose(loss.slope(z, targets), by_leaf, atol=1e-12)
    ours, torchs = loss.evaluate(z, targets), torch.nn.functional.cross_entropy
    assert ours.shape == (3, 4)
    hard = torchs(z.flatten(0, 1), y.flatten(), reduction="none").view(3, 4)
    assert torch.allclose(softmax.CrossEntropy().evaluate(z, y), hard)
