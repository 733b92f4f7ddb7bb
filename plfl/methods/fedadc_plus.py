"""FedADC+ (Ozfatura et al., ISIT 2021): FedADC with a teacher who is heard on rare targets.

Adapted to forecasting: bins of the target take the place of the classes. The round is FedADC's;
the client's loss is (1 − λ)(ŷ − y)² + λ(ŷ − y*)² with

y* = y                                 where b(ŷ_T) = b(y)
y* = y + (1 − ρ_b(ŷ_T)) · (ŷ_T − y)    elsewhere

b: bin of a load, ρ_b: how many of the client's training targets are in bin b, relative to its
fullest bin, ŷ_T: forecast of the model as it arrived. The bins are quantiles of all clients'
training targets, agreed on before round 1; like the limits that the features are scaled by, they
are not in the ledger of the channel.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from plfl.methods.fedadc import FedADC

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.federation import Federation
    from plfl.fleet import Fleet
    from plfl.methods import Local


class FedADCPlus(FedADC):
    """FedADC with self-distillation by the frequency of targets."""

    name = "fedadc_plus"
    label = "FedADC+"

    lam: float = Field(0.35, ge=0, le=1)
    """λ of the distillation (paper: 0.35)."""
    bins: int = Field(10, ge=2)
    """Quantile bins of the target, in place of the paper's classes."""

    @property
    def simulation_only(self) -> str | None:
        return "all clients tell their targets before round 1"

    def begin(self, f: "Federation") -> None:
        super().begin(f)
        f.memory["edges"], f.memory["ratios"] = agreed_bins(f.fleet, self.bins)

    def down(self, f: "Federation", t: int, clients: "Tensor") -> "Local":
        from plfl.training.losses import CorrectedDistillation

        local = super().down(f, t, clients)
        term = CorrectedDistillation(self.lam, f.memory["edges"], f.memory["ratios"])
        return replace(local, teacher=local.start, retarget=term.targets)


def agreed_bins(fleet: "Fleet", bins: int) -> "tuple[Tensor, Tensor]":
    """Inner edges (bins − 1,) of the pooled training targets, and each client's ρ (N, bins)."""
    import torch

    from plfl.training.losses import bin_ratios, quantile_edges

    targets = [fleet.training_targets(i) for i in range(len(fleet.names))]
    edges = quantile_edges(torch.cat(targets), bins)
    return edges, torch.stack([bin_ratios(own, edges) for own in targets])
