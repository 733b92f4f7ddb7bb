"""How much work a study is, as far as its configuration says; this needs neither data nor torch."""

from plfl.config.study import Study
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
