"""Recorded steps: a replay of recorded operations trains as plain steps do.

Operations on the CPU are recorded and replayed as a GPU does with a CUDA graph: Python does not run
again, and what makes Python wait for a value cannot be recorded.
"""

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from plfl.models.mlp import Mlp
from plfl.tasks.losses import POINT, Pinball
from plfl.training.gpu import repeat
from plfl.training.stacked import Stacked
from tests.helpers.elsewhere import WAITING
from tests.helpers.engine_cases import (
    CPU,
    DECAYING,
    FEATURES,
    OPTIMISERS,
    OTHER_MODELS,
    SHAPE,
    SMALL,
    TERMS,
    make_dataset,
    make_task,
    with_changes,
    with_covariates,
)
from tests.helpers.tasks import changed, copied, everything

ALSO_WAITING = {"item", "is_nonzero"}
"""What inference mode does not take apart into operations of `WAITING`."""


class Recording(TorchDispatchMode):
    """The operations inside of `with`, which run once there."""

    def __init__(self):
        super().__init__()
        self.done = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name, kwargs = func._schema.name.removeprefix("aten::"), kwargs or {}
        masks = name.startswith("index") and any(
            isinstance(leaf, Tensor) and leaf.dtype == torch.bool for leaf in tree_leaves(args[1:2])
        )
        sent = name == "lift_fresh" and args[0].dim()  # `torch.tensor` of a list
        if masks or sent or name in WAITING | ALSO_WAITING:
            raise RuntimeError(f"{func} cannot be recorded")
        out = func(*args, **kwargs)
        self.done.append((func, args, kwargs, tree_leaves(out)))
        return out

    def replay(self):
        """Do everything again, in the same memory."""
        for func, args, kwargs, written in self.done:
            for old, new in zip(written, tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def recorded(step):
    """A recording of `step`. Because recording takes the step, its first replay does nothing."""
    recording = Recording()
    with recording:
        step()
    replays = iter([lambda: None])
    return lambda: next(replays, recording.replay)()


class Replayed:
    """Repeats steps by recordings, and counts them."""

    def __init__(self):
        self.times, self.refused = [], 0

    def _record(self, step):
        try:
            return recorded(step)
        except RuntimeError:
            self.refused += 1
            raise

    def __call__(self, step, times):
        self.times.append(times)
        repeat(step, times, self._record)


def replayed(network, whole):
    """Train a task with plain steps and with recorded ones, and compare them."""
    data = make_dataset(SMALL) if network is SMALL else with_covariates()
    one, other = copied(whole), copied(whole)
    plain = Stacked(network, data, CPU, torch.float64)
    engine = Stacked(network, data, CPU, torch.float64)
    engine.repeat = Replayed()
    torch.testing.assert_close(engine.train(other), plain.train(one), rtol=0, atol=1e-12)
    expected = everything(one)
    for name, values in everything(other).items():
        torch.testing.assert_close(values, expected[name], rtol=0, atol=1e-12)
    assert engine.repeat.times and not engine.repeat.refused


@pytest.mark.parametrize("terms", [*([term] for term in (*TERMS, *FEATURES)), TERMS], ids=str)
def test_recorded_steps_with_every_term_are_the_plain_ones(terms):
    replayed(SMALL, with_changes(make_task(SMALL, OPTIMISERS[0]), terms))


@pytest.mark.parametrize("optimiser", OPTIMISERS + DECAYING, ids=str)
def test_recorded_steps_of_every_optimiser_are_the_plain_ones(optimiser):
    replayed(SMALL, make_task(SMALL, optimiser))


@pytest.mark.parametrize("model", OTHER_MODELS, ids=lambda model: model.name)
def test_recorded_steps_of_every_model_are_the_plain_ones(model):
    network = model.network(SHAPE)
    replayed(network, make_task(network, OPTIMISERS[0]))


@pytest.mark.parametrize("loss", [*POINT.values(), Pinball((0.1, 0.5, 0.9))], ids=lambda x: x.name)
def test_recorded_steps_of_every_loss_are_the_plain_ones(loss):
    outputs = 3 if isinstance(loss, Pinball) else 1
    network = Mlp(hidden=(6,)).network(SHAPE._replace(outputs=outputs))
    replayed(network, changed(make_task(network, OPTIMISERS[0]), loss=loss))


def test_a_step_that_waits_for_a_value_is_taken_as_it_is(caplog):
    total, repeats = torch.ones(()), Replayed()

    def step():
        total.mul_(2.0 if total.item() < 8 else 3.0)

    with caplog.at_level("INFO", "plfl.training.gpu"):
        repeats(step, 5)
    assert total == 8 * 9
    assert repeats.refused == 1
    assert "cannot be recorded" in caplog.text
