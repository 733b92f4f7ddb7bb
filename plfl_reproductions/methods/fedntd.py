"""FedNTD preserves what the received model predicts for the classes other than the true one. A
client forgets classes that its own images do not show; distilling the not-true logits keeps them
without working against the label.

Source: Gihun Lee, Minchan Jeong, Yongjin Shin, Sangmin Bae and Se-Young Yun, "Preservation of the
Global Knowledge by Not-True Distillation in Federated Learning", NeurIPS 2022,
https://arxiv.org/abs/2106.03097.

down: x;  client: its ClientOpt on
    `add`:  CE + β · NTD                  (the paper)
    `mix`:  (1 − β) · CE + β · NTD        (FedLS-NTD, FedADC's baseline of this name)
up: D = y − x;  server: x ← ServerOpt(x, D̄)

NTD = T² KL(q_T ‖ q), where q_T and q are softmax(z / T) of the received and of the local model over
all classes except the label.
"""

from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from plfl.base import Tensor
from plfl.federated.instructions import TrainInstructions
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import Sizes
from plfl.interfaces.terms import NotTrueDistillation
from plfl.methods.fedopt import FedOpt


class FedNTD(FedOpt):
    """Distillation of the not-true classes from the received model."""

    name = "fedntd"
    sends = Sizes()
    uses_updates_only = True
    only_task = "classify"

    beta: float = Field(0.3, ge=0, le=1)
    """β of the distillation (FedADC's baseline: 0.3; FedNTD's authors: 1 with `add`)."""
    temperature: float = Field(1.0, gt=0)
    """Temperature T (FedADC's baseline and FedNTD's authors: 1)."""
    convention: Literal["mix", "add"] = "mix"
    """Weight of the cross entropy: 1 − β (`mix`, FedADC's baseline) or 1 (`add`)."""

    def broadcast(self, f: Federation, state: Any, t: int, clients: Tensor) -> TrainInstructions:
        instructions = super().broadcast(f, state, t, clients)
        label = 1 - self.beta if self.convention == "mix" else 1.0
        term = NotTrueDistillation(label, self.beta, self.temperature)
        return replace(instructions, teacher=instructions.start, term=term)
