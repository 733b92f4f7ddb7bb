"""Per-FedAvg looks for parameters that fit every client well after a step or two on its own
data. A local step follows the gradient at the point to which one step on another minibatch leads
(meta-learning, MAML), and before it forecasts a client takes such steps.

Source: Alireza Fallah, Aryan Mokhtari and Asuman Ozdaglar, "Personalized Federated Learning: A
Meta-Learning Approach", NeurIPS 2020, https://arxiv.org/abs/2002.07948.

down: x;  client, K times, with minibatches B, B′, B″:
    d = g(y − α g(y; B′); B)
    `hf`: d ← d − α [g(y + δ d; B″) − g(y − δ d; B″)] / (2 δ)
    a step of its ClientOpt along d
up: D = y − x;  server: x ← ServerOpt(x, D̄)
forecast: with [x; p_i] after `adapt_steps` steps of SGD with rate α

`fo` leaves the Hessian out, `hf` estimates its product by differences. The paper's β is the rate of
the ClientOpt. A step computes two gradients (`fo`) or four (`hf`). `global` is [x; p_i]; `local` is
the model after the last steps, which is discarded after the forecast. With α = 0 the rounds are
FedOpt's.

Deviations: the inner step moves all parameters, personal ones included, and all are adapted
(ours). The paper's d is a step of SGD; any ClientOpt may take it (ours).
"""

from typing import Any, Literal

from pydantic import Field

from plfl.base import Tensor
from plfl.federated.instructions import Routine, RoutineResult, TrainInstructions
from plfl.interfaces.annotations import Federation, Session
from plfl.interfaces.method import Sizes
from plfl.methods.fedopt import FedOpt
from plfl.optimizers.client.sgd import Sgd


class PerFedAvg(FedOpt):
    """An initial model that fits a client after a step on its own data."""

    name = "per_fedavg"
    label = "Per-FedAvg"
    sends = Sizes()
    uses_updates_only = True
    takes_own_steps = True
    no_proximal = "the point to which a proximal term refers would be unclear"

    alpha: float = Field(0.01, ge=0)
    """Learning rate α of the inner step and of the adaptation (paper: 0.01)."""
    order: Literal["fo", "hf"] = "fo"
    """Without the Hessian (`fo`, first order), or with its product estimated by differences (`hf`,
    Hessian-free)."""
    delta: float = Field(1e-3, gt=0)
    """δ of the differences of `hf`."""
    steps: int | None = Field(None, ge=0)
    """Steps K of a round, each with two or four gradients; null: `federation.local_steps`."""
    adapt_steps: int = Field(1, ge=0)
    """Steps of the adaptation (paper: 1)."""

    def broadcast(self, f: Federation, state: Any, t: int, clients: Tensor) -> TrainInstructions:
        instructions = super().broadcast(f, state, t, clients)
        K = f.settings.local_steps if self.steps is None else self.steps

        def run(session: Session) -> RoutineResult:
            learner = session.learner(session.start)
            y = learner.rows
            for k in range(K):
                d = session.gradient(y.sub(session.gradient(y, K + k), alpha=self.alpha), k)
                if self.order == "hf":
                    change = session.gradient(y + self.delta * d, 2 * K + k)
                    change = change - session.gradient(y - self.delta * d, 2 * K + k)
                    d = d - self.alpha / (2 * self.delta) * change
                learner.step(d)
            return RoutineResult(y)

        instructions.routine = Routine(run, minibatches=(2 if self.order == "fo" else 3) * K)
        return instructions

    def adapt(self, f: Federation, state: Any, rows: Tensor) -> Tensor:
        sgd, n = Sgd.model_construct(lr=self.alpha), self.adapt_steps
        return f.client_data.fine_tuned(rows, sgd, epochs=n, most_steps=n)
