"""The learning rate of the local optimisers over all local steps of a training.

The rate of a step is that of the ClientOpt times a factor. The factor depends only on the round and
the number of the step, so an interrupted training continues with the same rates, and all clients
have the same rates.
"""

import math

from plfl.config.sections import FederationSettings


def factors(
    settings: FederationSettings, t: int, skip: int, steps: int
) -> tuple[float, ...] | None:
    """Factors of the rate in `steps` local steps of round `t`, after the first `skip` of them.

    None where all rates of a training are the same.
    """
    if settings.has_constant_rate:
        return None
    decayed = settings.decay ** (t - 1)
    if settings.local_steps is None:  # refused if the schedule counts steps
        return (decayed,) * steps
    first = (t - 1) * settings.local_steps + skip
    return tuple(decayed * _factor(settings, first + k) for k in range(steps))


def _factor(settings: FederationSettings, step: int) -> float:
    """Factor of the rate in a step of the training, counted from 0."""
    assert settings.local_steps is not None
    total = settings.rounds * settings.local_steps
    warm = round(settings.warm_up * total)
    if step < warm:
        return (step + 1) / warm
    if settings.schedule == "constant":
        return 1.0
    # A method may take more steps in the last round than the schedule has; they use the last rate.
    part = (min(step, total - 1) - warm) / (total - warm)
    return (1 + math.cos(math.pi * part)) / 2
