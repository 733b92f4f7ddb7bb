"""FedADC+ adds self-distillation to FedADC: the global model, as the client received it, acts as a
teacher. Its forecast replaces part of the target where the client has few training targets of the
kind that the teacher forecasts, so that clients do not forget what their own data rarely show.

Source: Emre Ozfatura, Kerem Ozfatura and Deniz Gündüz, "FedADC: Accelerated Federated Learning with
Drift Control", ISIT 2021, https://arxiv.org/abs/2012.09102.

The round is that of `fedadc`. A classifier's loss is (1 − λ) CE + λ τ² KL(p̂ ‖ softmax(z / τ)) with
logits z and, from the received model's p = softmax(z_T / τ),

p̂_i = (1 − ρ_i) p_i for i ≠ y,  p̂_y = 1 − Σ_{i ≠ y} p̂_i

ρ_i: frequency of label i among the client's images relative to its most frequent label. The paper's
loss has no τ²; at τ = 1 that is the same. The loss of forecasts is (1 − λ)(ŷ − y)² + λ(ŷ − y*)²
with

y* = y                                 where b(ŷ_T) = b(y)
y* = y + (1 − ρ_b(ŷ_T)) · (ŷ_T − y)    elsewhere

b: bin of a load;  ŷ_T: forecast of the model as it arrived;  ρ_b: number of the client's training
targets in bin b relative to its fullest bin.

Deviations: for forecasts bins of the target take the place of the paper's classes. Their edges are
quantiles of the training targets of all clients, agreed on before round 1. Like the limits that
scale the features, they are not counted as bytes.
"""

from dataclasses import dataclass, replace

from pydantic import Field

from plfl.base import Tensor
from plfl.federated.instructions import TrainInstructions
from plfl.interfaces.annotations import Federation
from plfl.interfaces.method import Sizes
from plfl.interfaces.terms import CorrectedDistillation
from plfl_reproductions.methods import fedadc


@dataclass(kw_only=True)
class FedADCPlusState(fedadc.FedADCState):
    edges: Tensor
    """Inner edges (bins − 1,) of the bins, in units of the scaled target."""
    ratios: Tensor
    """ρ (N, bins) of each client."""


class FedADCPlus(fedadc.FedADC):
    """FedADC with self-distillation that depends on how frequent a target is."""

    name = "fedadc_plus"
    label = "FedADC+"
    sends = Sizes("2 d_s")
    has_teacher = True
    simulation_only = "all clients reveal their targets before round 1"

    steps: int | None = Field(None, ge=1)
    """Local steps K of a round; null: `federation.local_steps`."""
    lam: float = Field(0.35, ge=0, le=1)
    """λ of the distillation (paper: 0.35)."""
    bins: int = Field(10, ge=2)
    """Quantile bins of a load, in place of the paper's classes."""
    temperature: float = Field(1.0, gt=0)
    """Temperature τ of a classifier's self-distillation (ours; at 1 the loss has the property that
    the paper states)."""

    def init(self, f: Federation) -> FedADCPlusState:
        edges, ratios = f.client_data.agreed_bins(self.bins)
        return FedADCPlusState(**vars(super().init(f)), edges=edges, ratios=ratios)

    def broadcast(  # type: ignore[override] # it gets the state that its own `init` returns
        self, f: Federation, state: FedADCPlusState, t: int, clients: Tensor
    ) -> TrainInstructions:
        instructions = super().broadcast(f, state, t, clients)
        term = CorrectedDistillation(self.lam, state.edges, state.ratios, self.temperature)
        return replace(instructions, teacher=instructions.start, term=term, steps=self.steps)

    def _steps(self, f: Federation, clients: Tensor) -> Tensor:
        steps = super()._steps(f, clients)
        return steps if self.steps is None else steps.new_full(steps.shape, self.steps)
