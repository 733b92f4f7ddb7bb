"""FedRep lets clients learn a shared representation of their data. In each round a client first
fits its personal part (the head) to the representation that it received, and then improves the
representation while its personal part stays as it is.

Source: Liam Collins, Hamed Hassani, Aryan Mokhtari and Sanjay Shakkottai, "Exploiting Shared
Representations for Personalized Federated Learning", ICML 2021, https://arxiv.org/abs/2102.07078;
authors' code: https://github.com/lgcollins/FedRep.

down: x;  client: t_h steps of its ClientOpt on p_i with x frozen, then t_b steps on y with p_i
frozen;  up: D = y − x;  server: x ← ServerOpt(x, D̄)

The minibatches of the second phase follow those of the first.

Deviations: the moments of the ClientOpt start afresh in each phase (ours). The authors' code has
one optimiser with momentum and weight decay for both phases, and ends with a further round in which
all clients train their heads; here every round is like the others, and `local` is [y; p_i] after
the steps.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from plfl.base import Tensor
from plfl.federated.instructions import Routine, RoutineResult, TrainInstructions
from plfl.interfaces.annotations import Federation, Session
from plfl.interfaces.method import Sizes
from plfl.layout import ParameterLayout
from plfl.methods.fedopt import FedOpt


class FedRep(FedOpt):
    """First the personal part, then the shared one."""

    name = "fedrep"
    sends = Sizes()
    uses_updates_only = True
    takes_own_steps = True

    head_steps: int | None = Field(None, ge=0)
    """Steps t_h of the personal part (authors: 10 epochs); null: the rest of
    `federation.local_steps`."""
    body_steps: int | None = Field(None, ge=0)
    """Steps t_b of the shared part (authors: 1 or 5 epochs); null: a fifth of
    `federation.local_steps`, rounded up."""

    def reasons_against_sharing(
        self, shared_mask: NDArray[np.bool_], layout: ParameterLayout
    ) -> Iterator[str]:
        if layout.is_whole(shared_mask):
            yield "no parameter is personal, so that the first phase would train nothing"

    def broadcast(self, f: Federation, state: Any, t: int, clients: Tensor) -> TrainInstructions:
        instructions = super().broadcast(f, state, t, clients)
        K = f.settings.local_steps
        body = -(-K // 5) if self.body_steps is None else self.body_steps
        head = max(0, K - body) if self.head_steps is None else self.head_steps

        def run(session: Session) -> RoutineResult:
            rows = session.train(session.start, 0, head, frozen=f.shared_mask)
            return RoutineResult(session.train(rows, head, body, frozen=~f.shared_mask))

        instructions.routine = Routine(run, minibatches=head + body)
        return instructions
