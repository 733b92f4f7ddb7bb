"""Which cells one job trains: so many that starting it costs little. The local steps of a cell and
their cost follow from the keys of a study alone, without data."""

from collections import Counter
from importlib.metadata import version
from pathlib import Path

from plfl.base.rounding import count_participants
from plfl.config.windows import Windows
from plfl.data import sources
from plfl.study import Study
from plfl.training.batches import steps_of

PAPER_STEP = 16 * 2 * (12 * 4 * 25 * (8 + 25) + 12 * 25 * 150 + 150 * 75 + 75)
"""Floating-point operations of the matrix products in a forward pass of the paper's model over 16
windows: the gates of the LSTM in 12 steps, then the MLP."""
FEW_STEPS = 60_000
"""Local steps of the paper's model that a core takes in about five seconds. Jobs with fewer steps
of all clients spend more time on starting than on training."""
DRIVER = Path("/dev/nvidiactl")
"""This file exists where processes have a GPU. Looking for it is faster than importing torch."""

COMMON_AXES: dict[str, tuple[str, ...]] = {
    "study": (),
    "state": ("state",),
    "sharing": ("state", "sharing"),
    "cell": ("state", "sharing", "method", "client_opt", "server_opt"),
}
"""The axes in which all cells of a training job are equal, by `compute.stack`."""


def local_steps(study: Study, sharing: str = "") -> int:
    """Local steps of a client in a round of a sharing scheme. With `federation.local_epochs`, those
    of a client with the number of windows that its source assumes."""
    settings = study.federation
    if study.model.grows_trees:
        return 1  # a tree
    if settings.local_epochs is None:
        return settings.local_steps
    is_for_late = study.plan.schemes.joins(sharing) == "unseen"
    windows = all_history(study.windows) if is_for_late else study.windows
    count = sources.source_of(study.data).counts(study.data, windows).train
    return steps_of(settings.local_epochs, count, settings.batch_size)


def all_history(windows: Windows) -> Windows:
    """The windows of clients that train for others, who join late: of all that they know."""
    return windows.model_copy(update={"history": None})


def cost_of_step(study: Study) -> float:
    """Cost of a local step, relative to one of the paper's model with its minibatches of 16: the
    ratio of the operations of a forward pass, at least 1."""
    operations = study.model.operations(study.plan.window_shape)
    return max(1.0, study.federation.batch_size * (operations or 0) / PAPER_STEP)


def stack_of(study: Study) -> str:
    """Which cells one training job of a study, or of each variant, trains: `Compute.stack`."""
    compute, first_variant = study.compute, next(iter(study.variants.values()))
    if compute.stack != "auto":
        return compute.stack
    has_gpu = DRIVER.exists() and not version("torch").endswith("+cpu")
    if not first_variant.model.grows_trees and (
        compute.device == "cuda" or (compute.device == "auto" and has_gpu)
    ):
        return "study"
    state_trials = Counter[str]()
    for cell in first_variant.cells:
        client_count = first_variant.data.clients_of(cell.state)
        state_trials[cell.state] += first_variant.plan.count_trials(cell) * client_count
    steps = (
        max(state_trials.values())
        * first_variant.federation.rounds
        * local_steps(first_variant)
        * cost_of_step(first_variant)
    )
    return "state" if steps <= FEW_STEPS else "sharing"


def side_by_side(study: Study) -> int:
    """How many models with the same ClientOpt a training job of a study trains together."""
    common_axes = {"client_opt", *COMMON_AXES[stack_of(study)]}
    models = Counter[tuple[str, ...]]()
    for cell in study.cells:
        clients = count_participants(
            study.data.clients_of(cell.state), study.federation.participation
        )
        models[tuple(getattr(cell, axis) for axis in common_axes)] += (
            study.plan.count_trials(cell) * clients
        )
    return max(models.values())
