"""What clients keep between rounds besides their models."""

from typing import Literal

import torch
from torch import Tensor

from plfl.optimizers.client import ClientOpt
from plfl.training.task import Moments

OptState = Literal["reset", "keep", "keep_personal"]
"""What happens to a local optimiser's state at the end of a round: `federation.opt_state`."""


class KeptMoments:
    """The state of the clients' local optimisers between rounds. It is kept for all parameters, for
    the personal ones, or not at all; a method may change that `mode` before round 1."""

    def __init__(self, mode: OptState, optimiser: ClientOpt, models: Tensor):
        self.mode = mode
        self.rows = {} if mode == "reset" else optimiser.init(models)
        """The optimiser's state, (N, P) each."""
        self.steps = torch.zeros(len(models), 1, device=models.device).double()
        """Local steps (N, 1) taken with this state so far."""

    def of(self, clients: Tensor, shared: Tensor) -> Moments:
        """A copy of the state of `clients` (n,) for a round.

        With `reset` it is empty, because every round begins afresh. With `keep_personal` it is 0
        for the `shared` parameters (P,).
        """
        steps = self.steps[clients]
        if self.mode == "reset":
            return Moments({}, steps)
        state = {name: rows[clients] for name, rows in self.rows.items()}
        if self.mode == "keep_personal":
            for rows in state.values():
                rows[:, shared] = 0
            steps = torch.where(shared, 0, steps)
        return Moments(state, steps)

    def keep(self, clients: Tensor, state: dict[str, Tensor], steps: Tensor) -> None:
        """Keep the `state` of `clients` (n,) after `steps` (n,) further steps."""
        if self.mode != "reset":
            self.steps[clients] += steps[:, None]
            for name, rows in self.rows.items():
                rows[clients] = state[name]


class Best:
    """Each client's model with the least validation error so far; at first `models` (N, P)."""

    def __init__(self, models: Tensor):
        self.rows = models.clone()
        """The models (N, P); the latest one as long as a client has had no finite error."""
        self.least = torch.full((len(models),), torch.inf, dtype=torch.float64).to(models.device)
        """Their validation errors (N,)."""

    def keep(self, models: Tensor, errors: Tensor) -> None:
        """Keep those of `models` (N, P) whose validation `errors` (N,) are the least so far."""
        errors = errors.to(self.least).nan_to_num(nan=torch.inf)
        better = (errors < self.least) | self.least.isinf()
        self.rows[better] = models[better]
        self.least[better] = errors[better]
