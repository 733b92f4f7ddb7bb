"""What the local steps minimise, and terms: how a method changes that, mostly with a teacher. The
method names a term with its weights; the task says what it means for its loss (`Task.objective`,
`Task.mix_teacher`). Beside them stand the `Sizes` of a method's messages, and
`AddsNoise`, which a method can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from plfl.base import Tensor
from plfl.interfaces.annotations import Loss
from plfl.layout import Mask, ParameterLayout


@dataclass(frozen=True)
class Distillation:
    """FedGKD's term: besides its targets, a model learns the outputs of a teacher."""

    weight: float
    """λ, the weight of the teacher's term; that of the targets is 1."""
    temperature: float = 1.0
    """T, by which logits are divided; a forecast has none."""


@dataclass(frozen=True, eq=False)
class CorrectedDistillation:
    """FedADC+'s term: a teacher corrects the targets where a client has few of the kind that the
    teacher predicts."""

    weight: float
    """λ."""
    edges: Tensor
    """Inner edges (bins − 1,) of the bins of a target, ascending; empty where targets are classes,
    which need no bins."""
    ratios: Tensor
    """ρ (N, bins): how often a client's targets fall into a bin, relative to its fullest bin."""
    temperature: float = 1.0
    """τ, by which logits are divided; a forecast has none."""


@dataclass(frozen=True)
class NotTrueDistillation:
    """FedNTD's term: the teacher's outputs for the classes other than the true one are learned."""

    label: float
    """Weight of the cross entropy with the targets."""
    weight: float
    """Weight of the teacher's term."""
    temperature: float
    """T, by which logits are divided."""


@dataclass(frozen=True, eq=False)
class Restriction:
    """FedRS's restricted softmax, which needs no teacher: the logits of classes that a client does
    not have count less."""

    alpha: float
    """α, by which these logits are multiplied."""
    present: Tensor
    """Mask (N, classes) of the classes that each client has."""


class Objective(NamedTuple):
    """What the local steps minimise."""

    loss: Loss
    scale: float = 1.0
    """A factor of the loss."""


Term: TypeAlias = Distillation | CorrectedDistillation | NotTrueDistillation | Restriction
"""A change of the loss by a method, mostly with a teacher; only the task knows its meaning."""


class Sizes(NamedTuple):
    """The sizes of a method's messages for one client, in numbers of 4 bytes: terms of d_s, the
    number of shared parameters, d_φ, those of the embedding, and hyperparameters by name."""

    down: str = "d_s"
    """Down to a participant in a round."""
    up: str = "d_s"
    """Up from a participant in a round."""
    before_down: str = "0"
    """Down to every client before round 1."""
    before_up: str = "0"
    """Up from every client before round 1."""


@runtime_checkable
class AddsNoise(Protocol):
    """A method that can add noise of its own to sums over windows."""

    noise: float
    """The noise on a sum, in units of what a window adds; 0: it adds none."""

    def noise_on_sums(self, layout: ParameterLayout, shared: Mask) -> tuple[float, int] | None:
        """`noise`, and the most sums that any window is in, given the mask (P,) of the shared
        parameters; None: it adds none."""
