"""Ditto gives each client a second, personal model beside the one that it trains for the server.
The personal model learns from the client's data alone and is pulled towards the server's
parameters, so that it is robust where data are few and personal where they are many.

Source: Tian Li, Shengyuan Hu, Ahmad Beirami and Virginia Smith, "Ditto: Fair and Robust Federated
Learning Through Personalization", ICML 2021, https://arxiv.org/abs/2012.04221.

Client i keeps v_i, at first the initial model.

down: x;  client: y after K steps of its ClientOpt from [x; p_i];
    v_i: K_v steps of its ClientOpt along ∇f_i(v_i) + λ (v_i − x), on the same minibatches
up: D = y − x;  server: x ← ServerOpt(x, D̄)

`local` is v_i. x is what FedOpt makes it, to the bit. The term acts on the shared parameters; v_i
has a personal part of its own, to which the term does not apply. SGD needs η (a + λ) < 2 where a is
the curvature. The authors alternate the steps of y and v_i, with the same result.

Deviations: with Adam the term is part of the gradient that the moments see, and the moments of y
and of v_i start afresh in every round (ours).
"""

from dataclasses import dataclass

from pydantic import Field

from plfl.base import Tensor
from plfl.federated.instructions import Routine, RoutineResult, TrainInstructions
from plfl.interfaces.annotations import Federation, Session
from plfl.interfaces.method import MethodState, Sizes
from plfl.methods.fedopt import FedOpt


@dataclass
class DittoState(MethodState):
    v: Tensor
    """Personal model v_i (N, P) of each client."""


class Ditto(FedOpt):
    """A personal model per client, pulled towards the server's."""

    name = "ditto"
    sends = Sizes()
    uses_updates_only = True
    takes_own_steps = True
    no_proximal = "it pulls the personal models towards x itself"

    lam: float = Field(1.0, ge=0)
    """λ of the term that pulls the personal model towards the server's (authors: the best of 0.1, 1
    and 2)."""
    steps: int | None = Field(None, ge=0)
    """Steps K of the model y for the server; null: `federation.local_steps`."""
    personal_steps: int | None = Field(None, ge=0)
    """Steps K_v of the personal model; null: `federation.local_steps`."""

    def init(self, f: Federation) -> DittoState:
        return DittoState(v=f.local.clone())

    def broadcast(
        self, f: Federation, state: DittoState, t: int, clients: Tensor
    ) -> TrainInstructions:
        instructions = super().broadcast(f, state, t, clients)
        local_steps = f.settings.local_steps
        K = local_steps if self.steps is None else self.steps
        K_v = local_steps if self.personal_steps is None else self.personal_steps

        def run(session: Session) -> RoutineResult:
            y = session.train(session.start, 0, K)
            v = state.v[session.clients]
            lam = f.full(self.lam)
            # λ (v − x) is the sum of a pull towards the start of v and a constant.
            v = session.train(v, 0, K_v, pull=lam, constant=lam * (v - session.start))
            return RoutineResult(y, kept={"v": v})

        instructions.routine = Routine(run, minibatches=max(K, K_v))
        return instructions

    def scored_models(self, f: Federation, state: DittoState) -> Tensor:
        return state.v
