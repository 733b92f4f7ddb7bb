"""pFedMe separates the personal model of a client from the shared one. The personal model minimises
the client's loss near the client's copy of the shared model, and that copy moves towards the
personal model. The server thereby minimises the mean of the clients' Moreau envelopes.

Source: Canh T. Dinh, Nguyen H. Tran and Tuan Dung Nguyen, "Personalized Federated Learning with
Moreau Envelopes", NeurIPS 2020, https://arxiv.org/abs/2006.08848; authors' code:
https://github.com/CharlieDinh/pFedMe.

down: x;  client: θ = w = x, then R times, each with one minibatch:
    K steps of its ClientOpt along g(θ) + λ (θ − w);  w ← w − η λ (w − θ)
up: D = w − x;  server: x ← ServerOpt(x, D̄); β is the rate of `fedavg`

`local` is θ. The rate of the ClientOpt is η_p; SGD needs η_p (a + λ) < 2 where a is the curvature.
Personal parameters are only in θ, and the term does not apply to them. θ continues from one
minibatch to the next, as in the authors' code.

Deviations: the moments of the ClientOpt start afresh for each minibatch (ours). The authors' code
has a weight decay of 0.001 that the paper lacks, and lets all clients train before it draws those
that take part.
"""

from typing import Any

from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.federated.instructions import Routine, RoutineResult, TrainInstructions
from plfl.interfaces.annotations import Federation, Session
from plfl.interfaces.method import Sizes
from plfl.methods.fedopt import FedOpt


class PFedMe(FedOpt):
    """Personal models near a shared one, by Moreau envelopes."""

    name = "pfedme"
    label = "pFedMe"
    sends = Sizes()
    uses_updates_only = True
    takes_own_steps = True
    no_proximal = "it pulls the personal models towards w itself"

    lam: float = Field(15.0, ge=0)
    """λ of the term that pulls the personal model θ towards w, which is averaged (authors: 15)."""
    eta: float = Field(0.005, gt=0)
    """Learning rate η of w (authors: 0.005)."""
    inner_steps: int = Field(5, ge=1)
    """Steps K of θ on one minibatch (authors: 5)."""
    minibatches: int | None = Field(None, ge=0)
    """Minibatches R of a round (authors: 20); null: `federation.local_steps`. A round computes R
    times K gradients."""

    def broadcast(self, f: Federation, state: Any, t: int, clients: Tensor) -> TrainInstructions:
        instructions = super().broadcast(f, state, t, clients)
        R = f.settings.local_steps if self.minibatches is None else self.minibatches

        def run(session: Session) -> RoutineResult:
            w = theta = session.start
            lam, K = f.full(self.lam), self.inner_steps
            for r in range(R):
                # λ (θ − w) is the sum of a pull towards the start of θ and a constant.
                near = {"pull": lam, "constant": lam * (theta - w)}
                theta = session.train(theta, r, 1, repeats=K, **near)
                w = torch.lerp(w, theta, self.eta * self.lam)
            return RoutineResult(theta, shared_values=w[:, f.columns])

        instructions.routine = Routine(run, minibatches=R)
        return instructions
