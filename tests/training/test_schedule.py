"""The rates of the local steps over a whole training, against the schedulers of PyTorch."""

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR

from plfl.config.sections import FederationSettings
from plfl.training import schedule


def torch_schedule(optimiser, settings):
    """PyTorch's schedulers of the same rates."""
    total = settings.rounds * settings.local_steps
    warm = round(settings.warm_up * total)
    after = ConstantLR(optimiser, 1.0)
    if settings.schedule == "cosine":
        after = CosineAnnealingLR(optimiser, total - warm)
    if not warm:
        return after
    rising = LinearLR(optimiser, 1 / warm, total_iters=max(1, warm - 1))
    return SequentialLR(optimiser, [rising, after], [warm])


@pytest.mark.parametrize("warm_up", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("name", ["constant", "cosine"])
@pytest.mark.filterwarnings("ignore:.*lr_scheduler:UserWarning")
def test_rates_are_those_of_pytorch(name, warm_up):
    settings = FederationSettings(rounds=10, local_steps=20, schedule=name, warm_up=warm_up)
    ours = [
        factor
        for t in range(1, 11)
        for factor in schedule.factors(settings, t, 0, 20) or [1.0] * 20
    ]
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], 1.0)
    rates, theirs = torch_schedule(optimiser, settings), []
    for _ in ours:
        theirs.append(optimiser.param_groups[0]["lr"])
        rates.step()
    assert ours == pytest.approx(theirs, abs=1e-12)
    assert max(ours) == 1
    assert min(ours) > 0


def test_a_decay_acts_from_round_to_round():
    cosine = FederationSettings(rounds=4, local_steps=3, schedule="cosine")
    both = cosine.model_copy(update={"decay": 0.9})
    constant = FederationSettings(local_steps=3, decay=0.9)
    assert not constant.has_constant_rate
    assert schedule.factors(constant, 3, 0, 3) == pytest.approx([0.81] * 3)
    for t in range(1, 5):
        expected = [0.9 ** (t - 1) * factor for factor in schedule.factors(cosine, t, 0, 3)]
        assert schedule.factors(both, t, 0, 3) == pytest.approx(expected)


def test_the_rate_depends_on_the_number_of_the_step_only():
    settings = FederationSettings(rounds=4, local_steps=6, schedule="cosine", warm_up=0.2)
    whole = [schedule.factors(settings, t, 0, 6) for t in range(1, 5)]
    assert schedule.factors(settings, 2, 1, 5) == whole[1][1:]
    # More steps than planned run into the next round's rates, and end with the last one.
    assert schedule.factors(settings, 2, 0, 8) == whole[1] + whole[2][:2]
    assert schedule.factors(settings, 4, 0, 8) == whole[3] + 2 * whole[3][-1:]
    assert schedule.factors(FederationSettings(), 1, 0, 5) is None
