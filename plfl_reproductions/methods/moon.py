"""MOON, model-contrastive federated learning, adds a contrastive term to each client's loss. It
pulls the features that the local model computes towards those of the global model and pushes them
away from those of the client's previous local model, which reduces drift.

Source: Qinbin Li, Bingsheng He and Dawn Song, "Model-Contrastive Federated Learning", CVPR 2021,
https://arxiv.org/abs/2103.16257; authors' code: https://github.com/QinbinLi/MOON.

down: x;  client: its ClientOpt on the loss + μ · l;  up: D = y − x;  server: x ← ServerOpt(x, D̄)
l = −log(e^(cos(h, h_x) / T) / (e^(cos(h, h_x) / T) + e^(cos(h, h_i) / T)))

h, h_x and h_i are the features that the client's model computes from a window: now, at the start of
the round, and after the last round in which the client took part. Before its first round h_i is
computed with the initial model.

Image models have the authors' projection head (`model.projection`: 256), and `features` is
`penultimate`, its output.

Deviations: for forecasts the squared error replaces the paper's cross entropy, and the features are
the forecaster's own, without a projection head.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from plfl.base.lazy import Tensor
from plfl.config.model_rules import ModelRules
from plfl.config.sections import Federation as Settings
from plfl.config.task_rules import TaskRules
from plfl.federated.instructions import TrainInstructions
from plfl.methods.annotations import Federation
from plfl.methods.fedopt import FedOpt


class Moon(FedOpt):
    """Model-contrastive federated learning."""

    name = "moon"
    label = "MOON"
    updates_only = True
    reads_features = True

    mu: float = Field(1.0, ge=0)
    """μ of the contrastive term (MOON's authors: 1; FedADC's MOON baseline: 1 and 5)."""
    temperature: float = Field(0.5, gt=0)
    """Temperature T, by which cosines are divided (paper: 0.5)."""
    features: Literal["states", "penultimate"] = "states"
    """The compared features: all hidden states of the LSTM (`states`), or the input of the last
    layer (`penultimate`), after the projection head if there is one."""

    def unfit(self, model: ModelRules, task: TaskRules, federation: Settings) -> Iterator[str]:
        if model.features and self.features not in model.features:
            known = " or ".join(model.features)
            yield (
                f"compares {self.features}, which {model.summary} does not have; set "
                f"hyperparameters.method.moon.features to {known}"
            )
        yield from super().unfit(model, task, federation)

    def broadcast(self, f: Federation, state: Any, t: int, clients: Tensor) -> TrainInstructions:
        from plfl.training.task import Contrast

        instructions = super().broadcast(f, state, t, clients)
        previous = f.local[clients][:, f.columns]
        term = Contrast(self.mu, self.temperature, self.features)
        return replace(instructions, previous=previous, contrast=term)
