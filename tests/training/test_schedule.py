"""Rates, clipping and averages over whole trainings, against `torch.optim` in a plain loop."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR, StepLR
from torch.optim.swa_utils import AveragedModel

from plfl.config.sections import Federation as Settings
from plfl.models.layers import Module
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamw import AdamW
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.training import reference, schedule
from plfl.training.stacked import Stacked
from plfl.training.task import Average
from tests.helpers.tasks import changed
from tests.training.test_engines import CPU, SMALL, dataset, task


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
    settings = Settings(rounds=10, local_steps=20, schedule=name, warm_up=warm_up)
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


@pytest.mark.filterwarnings("ignore:.*lr_scheduler:UserWarning")
def test_a_decay_acts_from_round_to_round():
    settings = Settings(rounds=4, local_steps=3, decay=0.9)
    assert not settings.has_constant_rate
    ours = [factor for t in range(1, 5) for factor in schedule.factors(settings, t, 0, 3)]
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], 1.0)
    rates, theirs = StepLR(optimiser, 3, 0.9), []
    for _ in ours:
        theirs.append(optimiser.param_groups[0]["lr"])
        rates.step()
    assert ours == pytest.approx(theirs, abs=1e-12)
    both = settings.model_copy(update={"schedule": "cosine"})
    cosine = both.model_copy(update={"decay": 1.0})
    for t in range(1, 5):
        pairs = zip(schedule.factors(both, t, 0, 3), schedule.factors(cosine, t, 0, 3), strict=True)
        assert all(a == pytest.approx(0.9 ** (t - 1) * b) for a, b in pairs)


def test_the_rate_depends_on_the_number_of_the_step_only():
    settings = Settings(rounds=4, local_steps=6, schedule="cosine", warm_up=0.2)
    whole = [schedule.factors(settings, t, 0, 6) for t in range(1, 5)]
    assert schedule.factors(settings, 2, 1, 5) == whole[1][1:]
    # More steps than planned run into the next round's rates, and end with the last one.
    assert schedule.factors(settings, 2, 0, 8) == whole[1] + whole[2][:2]
    assert schedule.factors(settings, 4, 0, 8) == whole[3] + 2 * whole[3][-1:]
    assert schedule.factors(Settings(), 1, 0, 5) is None


@pytest.mark.parametrize(
    "optimiser", [Sgd(lr=0.1), SgdMomentum(), Adam(), AdamW(weight_decay=0.5)], ids=str
)
@pytest.mark.parametrize("engine", [Stacked, reference.Reference])
@pytest.mark.filterwarnings("ignore:.*lr_scheduler:UserWarning")
def test_two_rounds_are_a_plain_loop_of_pytorch(optimiser, engine):
    """A cosine with warm-up, clipping, and an average whose decay soon reaches its limit."""
    data, steps, limit = dataset(SMALL), 12, 0.6
    settings = Settings(rounds=2, local_steps=steps, schedule="cosine", warm_up=0.1)
    fresh = task(SMALL, optimiser, rows=1, steps=2 * steps)
    start, count = fresh.rows.clone(), torch.zeros(1, 1, dtype=torch.float64)
    average = Average(start.clone(), count, limit)
    trainer = engine(SMALL, data, CPU, torch.float64)
    for t in (1, 2):
        part = changed(
            fresh,
            starts=fresh.minibatches.starts[:, (t - 1) * steps : t * steps],
            rates=schedule.factors(settings, t, 0, steps),
            clip=0.1,
            average=replace(average, steps=count + (t - 1) * steps),
        )
        if t == 2:  # `reference` has fresh moments in every round
            for values in part.moments.state.values():
                values.zero_()
        trainer.train(part)

    module = Module(SMALL).double()
    nn.utils.vector_to_parameters(start[0].clone(), module.parameters())

    def mean(old, new, n):
        decay = min(limit, (1 + int(n)) / (10 + int(n)))
        return decay * old + (1 - decay) * new

    averaged = AveragedModel(module, avg_fn=mean)
    averaged.update_parameters(module)  # the first one is a copy
    for t in (1, 2):
        theirs = reference.optimiser(optimiser, list(module.parameters()))
        rates = torch_schedule(theirs, settings)
        for _ in range((t - 1) * steps):
            rates.step()
        for windows in fresh.minibatches.starts[0, (t - 1) * steps : t * steps]:
            theirs.zero_grad()
            x = torch.stack([trainer.features[i : i + data.look_back] for i in windows.tolist()])
            target = trainer.targets[windows + data.look_back - 1]
            nn.functional.mse_loss(module(x), target).backward()
            nn.utils.clip_grad_norm_(module.parameters(), 0.1)
            theirs.step()
            rates.step()
            averaged.update_parameters(module)
    for ours, expected in ((fresh.rows, module), (average.rows, averaged.module)):
        row = nn.utils.parameters_to_vector(expected.parameters()).detach()
        torch.testing.assert_close(ours[0], row, rtol=0, atol=1e-9)
    assert not torch.allclose(average.rows, fresh.rows, atol=1e-5)
