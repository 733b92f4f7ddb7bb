"""APFL lets each client forecast with a mixture of two models: the one that it trains for the
server, and a personal one. The personal model learns what the mixture lacks, and the weight of each
model in the mixture can be learned, too.

Source: Yuyang Deng, Mohammad Mahdi Kamani and Mehrdad Mahdavi, "Adaptive Personalized Federated
Learning", 2020, https://arxiv.org/abs/2003.13461.

Client i keeps v_i, at first the initial model, and its weight α_i.

down: x;  client: w = [x; p_i], then K times, all from the values before the step:
    v̄ = α v + (1 − α) w
    a step of its ClientOpt on w along g(w), and one on v along α g(v̄)
    adaptive: α ← clip(α − η_α ⟨v − w, g(v̄)⟩, 0, 1)
up: D = w − x;  server: x ← ServerOpt(x, D̄)

`local` is the mixture of v_i and the client's w. x is what FedOpt makes it. α changes in the first
step of a round (`round`) or in every step (`step`). A step computes two gradients on one minibatch.

Deviations: the mixture and v_i are of all parameters, personal ones included (ours). With Adam the
factor α of v's gradient cancels, so that v takes steps of full size for every α > 0. Published
programs mix forecasts instead of parameters, or add a term that pulls α to 0; the paper does not.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.federated.instructions import Routine, RoutineResult, TrainInstructions
from plfl.interfaces.annotations import Federation, Session
from plfl.interfaces.method import MethodState, Sizes
from plfl.methods.fedopt import FedOpt


@dataclass
class APFLState(MethodState):
    v: Tensor
    """Personal model v_i (N, P) of each client."""
    share: Tensor
    """Weight α_i (N,) of v_i in the client's mixture."""


class APFL(FedOpt):
    """A mixture of the model for the server and a personal one."""

    name = "apfl"
    sends = Sizes()
    uses_updates_only = True
    takes_own_steps = True
    no_buffers = "only mixtures of its personal model read data, so its buffers would never change"
    no_proximal = "its steps would have the term twice, for two models with one anchor"

    alpha: float = Field(0.5, ge=0, le=1)
    """Weight α of the personal model in the mixture; its initial value if it is learned."""
    adapt_alpha: Literal["never", "round", "step"] = "round"
    """When a client learns its weight α: never, in the first step of a round, or in every step."""
    alpha_lr: float | None = Field(None, gt=0)
    """Learning rate η_α of the weight; null: that of the ClientOpt."""
    steps: int | None = Field(None, ge=0)
    """Steps K of a round, each with two gradients; null: `federation.local_steps`."""

    def init(self, f: Federation) -> APFLState:
        return APFLState(v=f.local.clone(), share=f.local.new_full((len(f.local),), self.alpha))

    def broadcast(
        self, f: Federation, state: APFLState, t: int, clients: Tensor
    ) -> TrainInstructions:
        from plfl.training.work import sums

        instructions = super().broadcast(f, state, t, clients)
        K = f.settings.local_steps if self.steps is None else self.steps

        def run(session: Session) -> RoutineResult:
            w, v = session.learner(session.start), session.learner(state.v[session.clients])
            share = state.share[session.clients]
            rate = f.client_opt.lr if self.alpha_lr is None else self.alpha_lr
            steps_with_alpha = {"never": 0, "round": 1, "step": K}[self.adapt_alpha]
            for k in range(K):
                alpha, g = share[:, None], session.gradient(mix_rows(share, v.rows, w.rows), k)
                if k < steps_with_alpha:
                    product = sums((v.rows - w.rows).double() * g.double())[:, 0]
                    share = (share - rate * product.to(share.dtype)).clamp(0, 1)
                w.train(k)
                v.step(g.mul_(alpha))
            return RoutineResult(w.rows, kept={"v": v.rows, "share": share})

        instructions.routine = Routine(run, minibatches=K)
        return instructions

    def scored_models(self, f: Federation, state: APFLState) -> Tensor:
        return mix_rows(state.share, state.v, f.local)


def mix_rows(share: Tensor, v: Tensor, w: Tensor) -> Tensor:
    """Models (n, P) in which `v` has the weights `share` (n,), and `w` the others."""
    return torch.lerp(w, v, share[:, None])
