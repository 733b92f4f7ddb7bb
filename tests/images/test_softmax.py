"""Losses of logits, against numbers of an independent reference, to ten digits."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from plfl_images import softmax
from plfl_images.softmax import Value

Z = torch.tensor([2.0, 1.0, 0.0, -1.0], dtype=torch.float64)
TAUGHT = torch.tensor([0.5, 1.5, -0.5, 0.5], dtype=torch.float64)
Y = torch.tensor(0)
SHARES = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64)
RATIOS = SHARES / SHARES.max()


def plus(tau: float, factor: float, z: Tensor = Z, lam: float = 0.35) -> Value:
    """FedADC+'s loss, eq. 7."""
    p = softmax.corrected(TAUGHT, Y, RATIOS, tau)
    loss = softmax.Taught(1 - lam, lam * factor, tau)
    return loss.value(z, softmax.packed(Y, p))


def ntd(label: float, teacher: float, temperature: float = 1.0) -> Value:
    q = softmax.without_label(TAUGHT, Y, temperature)
    return softmax.NotTrue(label, teacher, temperature).value(Z, softmax.packed(Y, q))


def rs(*missing: int, alpha: float = 0.5) -> Value:
    scale = torch.ones(4, dtype=torch.float64)
    scale[list(missing)] = alpha
    return softmax.Restricted().value(Z, softmax.packed(Y, scale))


def gkd(lam: float = 0.1, temperature: float = 0.5) -> Value:
    p = torch.softmax(TAUGHT / temperature, -1)
    loss = softmax.Taught(1, lam * temperature**2, temperature)
    return loss.value(Z, softmax.packed(Y, p))


@pytest.mark.parametrize(
    ("found", "loss", "slope"),
    [
        (
            lambda: softmax.CrossEntropy().value(Z, Y),
            0.4401896986,
            (-0.3560857401, 0.2368828181, 0.0871443187, 0.0320586033),
        ),
        (
            lambda: plus(1, 1),
            0.3668014635,
            (-0.1810857401, 0.1433546551, 0.0744866583, -0.0367555734),
        ),
        (
            lambda: plus(4, 1),
            0.3260615565,
            (-0.2445866803, 0.1639931167, 0.0668287883, 0.0137647754),
        ),
        (
            lambda: plus(4, 16),
            0.9251353434,
            (-0.4415509188, 0.3142823905, 0.2196035047, -0.0923349764),
        ),
        (lambda: ntd(0, 1), 0.1546978979, None),
        (
            lambda: ntd(0.7, 0.3),
            0.3545421584,
            (-0.2492600181, 0.1658179727, 0.1074103925, -0.0239683471),
        ),
        (lambda: ntd(1, 1), 0.5948875964, None),
        (lambda: rs(3), 0.4607734892, (-0.3692044568, 0.2320567119, 0.0853688935, 0.0258894256)),
        (lambda: rs(1, 3), 0.3650252919, (-0.3058209065, 0.0774461462, 0.0939469242, 0.0284908450)),
        (gkd, 0.4815101004, (-0.3180876755, 0.2039455891, 0.0872259620, 0.0269161244)),
        (
            # Where calibration by self-distillation starts, the teacher is the model itself.
            lambda: softmax.Taught(0.65, 0.35 * 16, 4.0).value(
                Z, softmax.packed(Y, softmax.corrected(Z, Y, RATIOS, 4.0))
            ),
            1.0910144236,
            (-0.5707960013, 0.3447429575, 0.2052149517, 0.0208380921),
        ),
    ],
)
def test_oracles(found: Callable[[], Value], loss: float, slope: tuple[float, ...] | None) -> None:
    value = found()
    assert value.loss.item() == pytest.approx(loss, abs=5e-11)
    if slope is not None:
        assert value.slope.tolist() == pytest.approx(slope, abs=5e-11)


@pytest.mark.parametrize(
    ("tau", "p", "divergence"),
    [
        (1, (0.5, 0.2672233227, 0.0361647441, 0.1966119332), 0.2305090269),
        (4, (0.5, 0.1580212091, 0.0958447082, 0.2461340827), 0.1141092927),
    ],
)
def test_corrected_teacher(tau: float, p: tuple[float, ...], divergence: float) -> None:
    found = softmax.corrected(TAUGHT, Y, RATIOS, tau)
    assert found.tolist() == pytest.approx(p, abs=5e-11)
    assert softmax.divergence(Z, found, tau).loss.item() == pytest.approx(divergence, abs=5e-11)


def test_not_true_distillation_with_a_temperature() -> None:
    z = torch.tensor([0.3, 2, -1, 0.7, 0], dtype=torch.float64)
    taught = torch.tensor([1, 0.2, -0.4, 1.6, -2], dtype=torch.float64)
    y = torch.tensor(1)
    q = softmax.without_label(taught, y, 3.0)
    value = softmax.NotTrue(0, 9.0, 3.0).value(z, softmax.packed(y, q))
    assert value.loss.item() == pytest.approx(0.4934217394, abs=5e-11)
    slope = (-0.1209986626, 0, -0.0586234231, -0.2117296109, 0.3913516966)
    assert value.slope.tolist() == pytest.approx(slope, abs=5e-11)
    assert value.slope[1] == 0


def test_a_batch_of_two() -> None:
    z = torch.stack([Z, torch.tensor([0, 0.5, 1, 0], dtype=torch.float64)])
    taught = torch.stack([TAUGHT, torch.tensor([1, 1, 2, -1], dtype=torch.float64)])
    y = torch.tensor([0, 2])
    p = softmax.corrected(taught, y, RATIOS.expand(2, -1), 4.0)
    assert softmax.cross_entropy(z, y).loss.mean().item() == pytest.approx(0.6456592932, abs=5e-11)
    # `batchmean` in PyTorch's terms; its `mean` would also divide by the four classes.
    soft = softmax.divergence(z, p, 4.0).loss.mean().item()
    assert soft == pytest.approx(0.3058764976, abs=5e-11)
    whole = softmax.Taught(0.65, 0.35 * 16, 4.0).mean(z, softmax.packed(y, p))
    assert whole.item() == pytest.approx(2.1325869270, abs=5e-11)


@pytest.mark.parametrize(
    ("tau", "factor", "loss"),
    [(1, 1, 0.4401896986), (4, 1, 0.6536290455), (4, 16, 6.1662151668)],
)
def test_only_tau_1_leaves_the_loss_of_equal_shares_alone(
    tau: float, factor: float, loss: float
) -> None:
    """The paper says that with ρ = 1 the loss is almost the cross entropy; at τ = 1 it is."""
    p = softmax.corrected(TAUGHT, Y, torch.ones(4, dtype=torch.float64), tau)
    assert p.tolist() == pytest.approx([1, 0, 0, 0])
    value = softmax.Taught(0.65, 0.35 * factor, tau).value(Z, softmax.packed(Y, p))
    assert value.loss.item() == pytest.approx(loss, abs=5e-11)


def test_the_corrected_teacher_is_never_negative_in_single_precision() -> None:
    random = torch.Generator().manual_seed(0)
    taught = 8 * torch.randn(5000, 10, generator=random)
    ratios = torch.rand(5000, 10, generator=random)
    y = torch.randint(10, (5000,), generator=random)
    p = softmax.corrected(taught, y, ratios, 1.0)
    assert p.min() >= 0
    assert torch.allclose(p.sum(-1), torch.ones(5000), atol=1e-6)


@pytest.mark.parametrize("loss", [softmax.Taught(0.6, 2.0, 3.0), softmax.NotTrue(0.6, 2.0, 3.0)])
def test_slopes_are_derivatives(loss: softmax.Taught | softmax.NotTrue) -> None:
    random = torch.Generator().manual_seed(1)
    z = torch.randn(3, 4, 10, generator=random, dtype=torch.float64)
    taught = torch.randn(3, 4, 10, generator=random, dtype=torch.float64)
    y = torch.randint(10, (3, 4), generator=random)
    if isinstance(loss, softmax.Taught):
        p = torch.softmax(taught, -1)
    else:
        p = softmax.without_label(taught, y, 2.0)
    targets = softmax.packed(y, p)
    leaf = z.clone().requires_grad_()
    (by_leaf,) = torch.autograd.grad(loss.of(leaf, targets).sum(), leaf)
    assert torch.allclose(loss.slope(z, targets), by_leaf, atol=1e-12)
    ours, torchs = loss.of(z, targets), torch.nn.functional.cross_entropy
    assert ours.shape == (3, 4)
    hard = torchs(z.flatten(0, 1), y.flatten(), reduction="none").view(3, 4)
    assert torch.allclose(softmax.CrossEntropy().of(z, y), hard)


def test_a_client_with_all_classes_is_not_restricted() -> None:
    assert torch.equal(rs().slope, softmax.cross_entropy(Z, Y).slope)
