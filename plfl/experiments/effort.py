"""The amount of work in a study, computed from its configuration alone, without data."""

from plfl.config.study import Study
from plfl.data import sources
from plfl.training.batches import steps_of

PAPER_STEP = 16 * 2 * (12 * 4 * 25 * (8 + 25) + 12 * 25 * 150 + 150 * 75 + 75)
"""Floating-point operations of a forward pass over 16 windows by the products of matrices of the
paper's model: the gates of the LSTM in 12 steps, then the MLP."""


def local_steps(study: Study) -> int:
    """Local steps of a client in a round.

    With `federation.local_epochs` they are those of a client with as many windows as its source
    assumes.
    """
    f = study.federation
    if f.local_steps is not None:
        return f.local_steps
    assert f.local_epochs is not None
    windows = sources.of(study.data).counts(study.data, study.windows).train
    return steps_of(f.local_epochs, windows, f.batch_size)


def cost_of_step(study: Study) -> float:
    """Cost of a local step, relative to one of the paper's model with its minibatches of 16: the
    ratio of the operations of a forward pass, at least 1."""
    operations = study.model.operations(study.window_shape)
    return max(1.0, study.federation.batch_size * (operations or 0) / PAPER_STEP)
