"""What a method tells its clients to do in a round, and what they return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from plfl.base import Tensor
from plfl.interfaces.terms import Term

FORWARD = 1 / 3
"""Work of a forward pass over a minibatch, in local steps: a backward pass costs twice as much."""


@dataclass(frozen=True)
class Routine:
    """Local steps that a method arranges itself, see `plfl.federated.session`."""

    run: Callable[..., RoutineResult]
    """What the clients do, a function of a `Session`. It may be called for a few clients at a time,
    and for clients that later drop out. Therefore it changes nothing but what its `Session` counts
    and what is sent through that."""
    minibatches: int
    """Minibatches of the round that a client uses."""
    work: float = 1.0
    """Work of each minibatch gradient, in local steps."""
    trains_together: bool = False
    """Whether it is called once for all clients, who communicate while it runs."""
    watch: Callable[[Tensor], None] | None = None
    """What the server of a deployment does meanwhile, for clients (n,) that communicate."""


@dataclass
class RoutineResult:
    """What n clients have after a routine."""

    rows: Tensor
    """Their models (n, P), which become `federation.local`."""
    shared_values: Tensor | None = None
    """Shared parameters (n, d_s) whose change they upload; None: those of `rows`."""
    kept: dict[str, Tensor] = field(default_factory=dict)
    """New rows (n, ...) of these clients in the method's state, by the name of the field."""


@dataclass
class TrainInstructions:
    """What a method tells n clients to do in a round; everything except `start` is optional.

    In each local step the ClientOpt gets *gradient + pull · (y − start) + constant*; then
    `step_offset` is added. These terms act on the d_s shared parameters. A pull towards another
    anchor is a pull towards `start` plus the constant pull · (start − anchor).
    """

    start: Tensor
    """Shared parameters (n, d_s) that the clients start from, as received."""
    pull: float | Tensor = 0.0
    """a, or a (d_s,), of the term a · (y − start)."""
    constant: Tensor | None = None
    """(n, d_s), added to every gradient."""
    step_offset: Tensor | None = None
    """(n, d_s), added to the parameters after every step."""
    offset_first: bool = False
    """Add `step_offset` before the step instead, so that the gradient is taken at the shifted
    point; `pull` and a proximal term of the ClientOpt still refer to `start`."""
    steps: Tensor | int | None = None
    """Local steps, (n,) or the same for all, instead of those of `ClientData.steps`."""
    skip: int = 0
    """First minibatches of the round that are skipped, because the method has used them."""
    teacher: Tensor | None = None
    """Shared parameters (n, d_s) of a teacher. It forecasts with the client's personal parameters
    at the start of the round; `term` says what its forecasts are for."""
    term: Term | None = None
    """How the teacher's outputs enter the loss; the task knows what that means."""
    gradients: Literal["none", "steps", "start"] = "none"
    """Which `TrainResult.gradients` are returned: of the local steps, or of the same minibatches at
    `start`."""
    frozen: Tensor | None = None
    """Mask (P,) of parameters, shared and personal ones, that stay as they are."""
    routine: Routine | None = None
    """What the clients do instead of the local steps; of the terms above, only `start` counts."""
    before: float | Tensor = 0.0
    """Work of each client (n,) before its first step, in local steps; the clock charges it."""

    @property
    def pulls(self) -> bool:
        """Whether a `pull` acts on some parameter."""
        return not isinstance(self.pull, int | float) or self.pull != 0

    @property
    def work_per_step(self) -> float:
        """Work of a local step, including passes of a teacher and gradients at the start."""
        if self.routine is not None:
            return self.routine.work
        work = 1.0
        if self.teacher is not None:
            work += FORWARD
        if self.gradients == "start":
            work += 1
        return work


@dataclass
class TrainResult:
    """What n clients did in a round; their models are in `federation.local`."""

    instructions: TrainInstructions
    """The method's instructions."""
    steps: Tensor
    """Local steps (n,) taken; for a routine, the number of minibatch gradients computed."""
    update: Tensor
    """D = y − x (n, d_s): shared parameters after the steps minus those at the start."""
    gradients: Tensor | None
    """Minibatch gradients (n, d_s), averaged over the steps and without terms of the method.
    `TrainInstructions.gradients` says at which models."""
