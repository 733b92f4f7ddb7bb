"""FedGKD (Yao et al., 2021, arXiv:2107.00051): distillation from the latest global models.

Adapted to forecasting: where the paper has a Kullback-Leibler divergence between softmax outputs,
the loss here is that of the authors' program for `loss_type mse`.

down: x, and the teacher where it is not x itself
client: its ClientOpt on MSE(ŷ, y) + λ · MSE(ŷ, ŷ_T)
up: D = y − x;  server: x ← ServerOpt(x, D̄)

The teacher is the mean of the global models x after the last `buffer` rounds, the latest among
them; in round 1 there is none. It forecasts with the client's own personal part.
"""

from typing import TYPE_CHECKING

from pydantic import Field

from plfl.methods import Local
from plfl.methods.fedopt import FedOpt

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.federation import Federation
    from plfl.methods import Done


class FedGKD(FedOpt):
    """Global knowledge distillation."""

    name = "fedgkd"

    lam: float = Field(0.1, ge=0)
    """λ of the distillation (FedADC, its baseline of this name: 0.1)."""
    buffer: int = Field(1, ge=1)
    """Global models, at most, whose mean is the teacher (authors' code: 1)."""

    def begin(self, f: "Federation") -> None:
        f.memory["models"] = f.server_state["x"][None][:0]

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        from plfl.training.losses import Distillation

        if t == 1:
            return super().down(f, t, clients)
        kept = f.memory["models"]
        # Without any round so far, x is still what all started from.
        models = kept if len(kept) else f.server_state["x"][None]
        mean = models.double().mean(0).to(models.dtype)
        teacher = f.server_opt.send({**f.server_state, "x": mean}, clients)
        x = f.server_opt.send(f.server_state, clients)
        x, told = f.channel.send("down", clients, x, [teacher] if len(models) > 1 else [])
        term = Distillation(self.lam)
        return Local(
            start=x,
            teacher=told[0] if told else x,
            retarget=term.targets,
            loss_scale=term.scale,
        )

    def up(self, f: "Federation", t: int, clients: "Tensor", done: "Done") -> None:
        import torch

        super().up(f, t, clients, done)
        models = [f.memory["models"], f.server_state["x"][None]]
        f.memory["models"] = torch.cat(models)[-self.buffer :]
