"""FedBABU trains only the body of the model in a federation. The head keeps its random initial
values, which are the same at every client and are never sent. Before it forecasts, each client
fine-tunes the model on its own data.

Source: Jaehoon Oh, Sangmook Kim and Se-Young Yun, "FedBABU: Towards Enhanced Representation for
Federated Image Classification", ICLR 2022, https://arxiv.org/abs/2106.06042; authors' code:
https://github.com/jhoon-oh/FedBABU.

down: x, shared parameters without the head;  client: K steps of its ClientOpt with the head frozen;
up: D = y − x;  server: x ← ServerOpt(x, D̄)
forecast: with [x; initial head] after E epochs of the ClientOpt

`global` has the initial head; `local` is the fine-tuned model, which is discarded after the
forecast.

Deviations: parameters that are neither shared nor in the head are personal and trained in the
rounds (ours). The ClientOpt of the fine-tuning has fresh moments.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.federated.instructions import TrainInstructions
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import MethodState, Sizes
from plfl.layout import Head, ParameterLayout, head_mask
from plfl.methods.fedopt import FedOpt


class FedBABU(FedOpt):
    """A federation of the body, with a random head, and fine-tuning."""

    name = "fedbabu"
    sends = Sizes()
    uses_updates_only = True

    head: Head = "mlp"
    """What counts as the head: the group `head` of the model, in the PL-FL paper the MLP (`mlp`),
    or its last layer (`last`)."""
    steps: int | None = Field(None, ge=1)
    """Local steps K of a round; null: `federation.local_steps`."""
    tune: Literal["all", "head", "body"] = "all"
    """Parameters that are fine-tuned."""
    epochs: float = Field(5, ge=0)
    """Passes E over the client's training windows (authors' notebook: 5)."""
    most_steps: int | None = Field(None, ge=1)
    """Steps of the fine-tuning after which a client stops, even within a pass; null: no limit."""

    def reasons_against_sharing(
        self, shared_mask: NDArray[np.bool_], layout: ParameterLayout
    ) -> Iterator[str]:
        if not (shared_mask & ~head_mask(layout, self.head)).any():
            yield "only parameters of the head are shared, and FedBABU does not send the head"

    def shared_mask(self, study_mask: Tensor, layout: ParameterLayout) -> Tensor:
        return study_mask & ~self._head(study_mask, layout)

    def _head(self, rows: Tensor, layout: ParameterLayout) -> Tensor:
        return torch.from_numpy(head_mask(layout, self.head)).to(rows.device)

    def init(self, f: Federation) -> MethodState:
        head = self._head(f.shared_mask, f.layout)
        f.local[:, head] = f.draw(f.seed)[head]  # even with `federation.initial: local`
        return super().init(f)

    def broadcast(self, f: Federation, state: Any, t: int, clients: Tensor) -> TrainInstructions:
        instructions = super().broadcast(f, state, t, clients)
        return replace(instructions, steps=self.steps, frozen=self._head(f.shared_mask, f.layout))

    def adapt(self, f: Federation, state: Any, rows: Tensor) -> Tensor:
        head = self._head(f.shared_mask, f.layout)
        frozen = {"all": None, "head": ~head, "body": head}[self.tune]
        step_limit = self.most_steps
        return f.client_data.fine_tuned(
            rows, f.client_opt, self.epochs, frozen=frozen, most_steps=step_limit
        )
