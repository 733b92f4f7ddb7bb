"""What the local steps minimise, and terms: how a method changes that, mostly with a teacher. The
method names a term with its weights; the task says what it means for its loss (`Task.objective`,
`Task.mix_teacher`). `Sizes` are those of a method's messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from plfl.base import Tensor
from plfl.interfaces.annotations import Loss


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
