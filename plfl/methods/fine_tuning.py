"""Fine-tuning is the simplest personalisation: clients train together as in FedOpt, and before it
forecasts, each client trains the model further on its own data. A client may first train the head
alone and then the whole model (LP-FT), which changes the learned features less.

Source: Kangkang Wang, Rajiv Mathews, Chloé Kiddon, Hubert Eichner, Françoise Beaufays and Daniel
Ramage, "Federated Evaluation of On-device Personalization", 2019, https://arxiv.org/abs/1910.10252;
Gary Cheng, Karan Chadha and John Duchi, "Fine-tuning is Fine in Federated Learning", 2021,
https://arxiv.org/abs/2108.07313; LP-FT: Ananya Kumar, Aditi Raghunathan, Robbie Jones, Tengyu Ma
and Percy Liang, "Fine-Tuning can Distort Pretrained Features and Underperform
Out-of-Distribution", ICLR 2022, https://arxiv.org/abs/2202.10054.

rounds: as FedOpt
forecast: with [x; p_i] after `head_epochs` of the ClientOpt on the head alone, then `epochs` on all

`global` is [x; p_i]; `local` is the fine-tuned model, which is discarded after the forecast. Where
nothing is shared, clients fine-tune the models that they have trained alone.

Deviations: none of FT. The ClientOpt has fresh moments in each of the two phases (ours).
"""

from dataclasses import replace
from typing import Any

from pydantic import Field

from plfl.base import Tensor
from plfl.base.lazy import torch
from plfl.federated.instructions import TrainInstructions
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import Sizes
from plfl.layout import Head, head_mask
from plfl.methods.fedopt import FedOpt


class FineTuning(FedOpt):
    """FedOpt, and fine-tuning before a client forecasts: FT or LP-FT."""

    name = "fine_tuning"
    label = "fine-tuning"
    sends = Sizes()
    uses_updates_only = True
    ignores_sharing = True

    steps: int | None = Field(None, ge=1)
    """Local steps K of a round; null: `federation.local_steps`."""
    epochs: float = Field(2, ge=0)
    """Passes E over the client's training windows on all parameters (the papers: 1 to 10)."""
    head_epochs: float = Field(0, ge=0)
    """Passes before these on the head alone; above 0 this is LP-FT."""
    head: Head = "mlp"
    """What counts as the head: the group `head` of the model, in the PL-FL paper the MLP (`mlp`),
    or its last layer (`last`)."""
    most_steps: int | None = Field(None, ge=1)
    """Most steps in each phase; null: no limit."""

    def in_rounds(self) -> FedOpt:
        return FedOpt() if self.steps is None else type(self)(steps=self.steps)

    def broadcast(self, f: Federation, state: Any, t: int, clients: Tensor) -> TrainInstructions:
        return replace(super().broadcast(f, state, t, clients), steps=self.steps)

    def adapt(self, f: Federation, state: Any, rows: Tensor) -> Tensor:
        head = torch.from_numpy(head_mask(f.layout, self.head)).to(rows.device)
        tuned, step_limit = f.client_data.fine_tuned, self.most_steps
        probed = tuned(
            rows,
            f.client_opt,
            self.head_epochs,
            purpose="head_tuning",
            frozen=~head,
            most_steps=step_limit,
        )
        return tuned(probed, f.client_opt, self.epochs, most_steps=step_limit)
