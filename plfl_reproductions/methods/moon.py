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
from typing import Any, Literal

from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.config.federation import FederationSettings
from plfl.federated.instructions import FORWARD, Routine, RoutineResult, TrainInstructions
from plfl.interfaces.annotations import Federation, Session
from plfl.interfaces.method import Sizes
from plfl.interfaces.model import Model
from plfl.interfaces.task import Task
from plfl.methods.fedopt import FedOpt

STEPS_PER_PASS = 8
"""Minibatches for which the features that stay as they are in a round are computed at once."""


class Moon(FedOpt):
    """Model-contrastive federated learning."""

    name = "moon"
    label = "MOON"
    sends = Sizes()
    uses_updates_only = True
    reads_features = True
    takes_own_steps = True
    needs_equal_steps = False

    mu: float = Field(1.0, ge=0)
    """μ of the contrastive term (MOON's authors: 1; FedADC's MOON baseline: 1 and 5)."""
    temperature: float = Field(0.5, gt=0)
    """Temperature T, by which cosines are divided (paper: 0.5)."""
    features: Literal["states", "penultimate"] = "states"
    """All hidden states of the LSTM (`states`), or the last layer's input (`penultimate`), after a
    projection head."""

    def reasons_against_settings(
        self, model: Model, task: Task, federation: FederationSettings
    ) -> Iterator[str]:
        if model.features and self.features not in model.features:
            feature_names = " or ".join(model.features)
            yield (
                f"compares {self.features}, which {model.summary} does not have; set "
                f"hyperparameters.method.moon.features to {feature_names}"
            )

    def broadcast(self, f: Federation, state: Any, t: int, clients: Tensor) -> TrainInstructions:
        instructions = super().broadcast(f, state, t, clients)
        K = int(f.client_data.steps(clients).max())

        def run(session: Session) -> RoutineResult:
            x, last = session.start, f.local[session.clients]
            y = session.learner(x)
            for k in range(K):
                if k % STEPS_PER_PASS == 0:
                    next_steps = (k, min(STEPS_PER_PASS, K - k), self.features)
                    h_x, h_i = (session.features(rows, *next_steps) for rows in (x, last))
                h = session.features(y.rows, k, 1, self.features)[:, 0]
                near, far = h_x[:, k % STEPS_PER_PASS], h_i[:, k % STEPS_PER_PASS]
                terms, slopes = contrast(h, near, far, self.temperature)
                active_rows = session.stepping_clients(k)
                penalty = self.mu * terms.mean(1)
                session.losses += penalty if active_rows is None else penalty * active_rows
                by_feature = self.mu / terms.shape[1] * slopes[:, None]
                y.train(k, active_rows, layer=self.features, by_feature=by_feature)
            return RoutineResult(y.rows)

        instructions.routine = Routine(run, minibatches=K, work=1 + 2 * FORWARD)
        return instructions


def contrast(h: Tensor, near: Tensor, far: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The term l (n, B) of features (n, W, B), and its gradient (n, W, B) by `h`."""
    norm, near_norm, far_norm = (x.square().sum(1).sqrt().clamp(min=1e-8) for x in (h, near, far))
    near_product, far_product = norm * near_norm, norm * far_norm
    gap = (h * far).sum(1) / far_product - (h * near).sum(1) / near_product
    # PyTorch treats numbers at the end of a tensor that do not fill a vector of the processor by
    # another routine. Which numbers these are would depend on how many models train together.
    filled = torch.nn.functional.pad((gap / temperature).flatten(), (0, -gap.numel() % 32))
    terms = torch.nn.functional.softplus(filled)[: gap.numel()].view_as(gap)
    slope = filled.sigmoid()[: gap.numel()].view_as(gap) / temperature
    by_h = (slope / far_product)[:, None] * far - (slope / near_product)[:, None] * near
    return terms, by_h - (slope * gap / norm.square())[:, None] * h
