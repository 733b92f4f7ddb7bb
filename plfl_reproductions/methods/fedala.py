"""FedALA lets each client take from the server's model only what helps it. Before a client trains,
it learns, for every parameter, a point between its own last model and the server's, and starts
there.

Source: Jianqing Zhang, Yang Hua, Hao Wang, Tao Song, Zhengui Xue, Ruhui Ma and Haibing Guan,
"FedALA: Adaptive Local Aggregation for Personalized Federated Learning", AAAI 2023,
https://arxiv.org/abs/2212.01197; authors' code: https://github.com/TsingZ0/FedALA.

Client i keeps its last model y_i and weights W_i, all 1 at first, for a subset of the shared
parameters (paper: the last layers).

down: x;  client: gap = x − y_i on the subset;  s = y_i + gap W_i there, elsewhere x
    for each minibatch of a pass over a part of its windows, s formed anew each time:
        W_i ← clip(W_i − η_W g(s) gap, 0, 1)
    K steps of its ClientOpt from s
up: D = y − x;  server: x ← ServerOpt(x, D̄)

In the first round in which a client takes part, s = x; in the second there are `first` passes, and
one in every later round.

Deviations: the authors' second round goes on until the standard deviation of the last ten losses is
below 0.1, which is absolute; for the loss of scaled loads that is always after the eleventh pass.
Here the number of passes is given. `most_steps` limits a pass (ours): a pass over a year of data
costs many times the local steps of a round.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.federated.instructions import Routine, RoutineResult, TrainInstructions
from plfl.interfaces.annotations import Federation, Session
from plfl.interfaces.method import MethodState, Sizes
from plfl.layout import ParameterLayout, head_mask
from plfl.methods.fedopt import FedOpt


@dataclass
class FedALAState(MethodState):
    W: Tensor
    """Weights W_i (N, d) of each client, for the parameters of the subset."""
    rounds: Tensor
    """Rounds (N,) in which each client has taken part."""


class FedALA(FedOpt):
    """Local steps from a learned point between the client's own model and the server's."""

    name = "fedala"
    sends = Sizes()
    uses_updates_only = True
    takes_own_steps = True
    no_proximal = "its anchor would be the start of the steps, which is not x"

    subset: Literal["shared", "mlp", "last"] = "last"
    """Parameters whose start is learned: all that are `shared`, the head of the model (`mlp`), or
    its last layer (`last`)."""
    eta_w: float = Field(1.0, ge=0)
    """Learning rate η_W of the weights (authors: 1)."""
    first: int = Field(10, ge=0)
    """Passes in the second round in which a client takes part."""
    sample: float = Field(0.8, gt=0, le=1)
    """Fraction of the training windows that a pass goes over (authors: 0.8)."""
    most_steps: int | None = Field(None, ge=1)
    """Minibatches after which a pass ends; null: no limit."""
    steps: int | None = Field(None, ge=0)
    """Local steps K of a round; null: `federation.local_steps`."""

    def reasons_against_sharing(
        self, shared_mask: NDArray[np.bool_], layout: ParameterLayout
    ) -> Iterator[str]:
        if (self._subset(shared_mask, layout) & ~shared_mask).any():
            yield (
                f"the parameters of subset {self.subset!r} have to be shared; set "
                "hyperparameters.method.fedala.subset to shared"
            )

    def _subset(self, shared_mask: NDArray[np.bool_], layout: ParameterLayout) -> NDArray[np.bool_]:
        return shared_mask if self.subset == "shared" else head_mask(layout, self.subset)

    def init(self, f: Federation) -> FedALAState:
        width = int(self._subset(f.shared_mask.cpu().numpy(), f.layout).sum())
        return FedALAState(
            W=f.local.new_ones(len(f.local), width), rounds=torch.zeros_like(f.everyone)
        )

    def broadcast(
        self, f: Federation, state: FedALAState, t: int, clients: Tensor
    ) -> TrainInstructions:
        instructions = super().broadcast(f, state, t, clients)
        K = f.settings.local_steps if self.steps is None else self.steps
        mask = self._subset(f.shared_mask.cpu().numpy(), f.layout)
        subset = torch.from_numpy(mask).to(f.local.device)

        def run(session: Session) -> RoutineResult:
            clients = session.clients
            W, rounds, local = state.W[clients], state.rounds[clients], f.local[clients]
            # Clients that take part for the first time start at x.
            local = torch.where((rounds > 0)[:, None], local, session.start)
            s, gap = session.start.clone(), (session.start - local)[:, subset]

            def mix(W: Tensor) -> None:
                s[:, subset] = local[:, subset] + gap * W

            passes = torch.where(rounds == 1, self.first, (rounds > 1).long())
            minibatches, steps = session.passes("fedala", self.sample, self.most_steps)
            for n in range(int(passes.max())):
                for b in range(minibatches.starts.shape[1]):
                    mix(W)
                    is_learning = (passes > n) & (steps > b)
                    step = minibatches.select_steps(b, 1)
                    slope = session.gradient(s, step, is_learning)[:, subset] * gap
                    W = torch.where(is_learning[:, None], (W - self.eta_w * slope).clamp(0, 1), W)
            mix(W)
            return RoutineResult(session.train(s, 0, K), kept={"W": W, "rounds": rounds + 1})

        instructions.routine = Routine(run, minibatches=K)
        return instructions
