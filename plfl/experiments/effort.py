"""The amount of work in a study, computed from its configuration alone, without data."""

from functools import cache

from plfl.config.study import Study
from plfl.layout import WindowShape
from plfl.models import Model, model_of
from plfl.training.batches import steps_of

YEAR = 365 * 24 * 60
"""Minutes of data per client that are assumed."""
SIZES = {"digits": (1200, 597), "cifar10": (50_000, 10_000), "cifar100": (50_000, 10_000)}
"""Of each source of images, how many there are to train on, and held out."""


def local_steps(study: Study) -> int:
    """Local steps of a client in a round.

    With `federation.local_epochs` they are those of a client with an average number of images, or
    with a year of data.
    """
    f, data = study.federation, study.data
    if f.local_steps is not None:
        return f.local_steps
    assert f.local_epochs is not None
    windows = int(study.windows.split[0] * YEAR / data.interval)
    if data.is_images:
        windows = SIZES[data.source][0] // data.clients
    return steps_of(f.local_epochs, windows, f.batch_size)


def cost_of_step(study: Study) -> float:
    """Cost of a local step, relative to one of the paper's model with its minibatches of 16.

    For images it is the ratio of the floating-point operations of a forward pass; models of loads
    count as 1.
    """
    if not study.data.is_images:
        return 1.0
    model = model_of(study)
    operations = study.federation.batch_size * _forward(model, study.window_shape)
    return max(1.0, operations / PAPER_STEP)


PAPER_STEP = 16 * 2 * (12 * 4 * 25 * (8 + 25) + 12 * 25 * 150 + 150 * 75 + 75)
"""Floating-point operations of a forward pass over 16 windows by the products of matrices of the
paper's model: the gates of the LSTM in 12 steps, then the MLP."""


@cache
def _forward(model: Model, shape: WindowShape) -> int:
    """Floating-point operations of a forward pass over one window, counted by PyTorch."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        sequence = torch.empty(1, shape.look_back, shape.inputs)
        model.build(shape)(sequence, torch.empty(1, shape.context))
    return int(counter.get_total_flops())
