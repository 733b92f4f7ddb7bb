"""Losses of logits: the cross entropy, and the terms with which methods change it.

All have the form KL(p ‖ softmax(s · z / T)) with logits z, a distribution p over the C classes, a
scale s of each logit and a temperature T. Its gradient by z is s / T · (softmax(s · z / T) − p).
For a label, p is 1 in its class, and the divergence is the cross entropy.

Logits are (..., B, C). Targets are the numbers of the labels, (..., B). If a term needs more,
`pack_targets` makes targets (..., B, 1 + C) of the label and C further numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Value(NamedTuple):
    """A loss and its gradient."""

    loss: Tensor
    """(...): one number for each window."""
    slope: Tensor
    """(..., C): its derivative by the logits."""


def divergence(
    logits: Tensor, p: Tensor, temperature: float = 1.0, scale: Tensor | None = None
) -> Value:
    """KL(p ‖ softmax(s · z / T)), and its derivative by the logits z (..., C)."""
    inner = torch.full_like(logits, 1 / temperature) if scale is None else scale / temperature
    logs = functional.log_softmax(logits * inner, -1)
    # A logit of −∞ leaves a class out; its p is 0.
    loss = torch.where(p > 0, p * (p.log() - logs), 0).sum(-1)
    return Value(loss, inner * (logs.exp() - p))


def cross_entropy(logits: Tensor, labels: Tensor) -> Value:
    """−log softmax(z)_y."""
    return divergence(logits, one_hot(labels, logits))


def without_label(teacher: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """softmax(z_T / T) of a teacher over all classes except the label, where it is 0."""
    label = one_hot(labels, teacher).bool()
    q: Tensor = torch.softmax(teacher.masked_fill(label, -torch.inf) / temperature, -1)
    return q


def correct_teacher(teacher: Tensor, labels: Tensor, ratios: Tensor, temperature: float) -> Tensor:
    """FedADC+'s corrected teacher p̂ (arXiv 2012.09102, eq. 8 and 9).

    p̂_i = (1 − ρ_i) p_i for i ≠ y, and the rest is p̂_y. It is computed as p_y + Σ ρ_i p_i, which is
    the same and, unlike 1 − Σ p̂_i, never negative.

    Args:
        teacher: logits (..., C) of the received model.
        labels: numbers (...) of the true classes y.
        ratios: ρ (..., C), fractions of the client's labels relative to its largest fraction.
        temperature: τ of p = softmax(z_T / τ).
    """
    p = torch.softmax(teacher / temperature, -1)
    weighted, label = ratios * p, one_hot(labels, teacher)
    other_labels = (weighted * (1 - label)).sum(-1, keepdim=True)
    return torch.where(label.bool(), p + other_labels, p - weighted)


def one_hot(labels: Tensor, outputs: Tensor) -> Tensor:
    """(..., C), of the same type as `outputs` (..., C)."""
    classes = torch.arange(outputs.shape[-1], device=outputs.device)
    return (labels[..., None] == classes).to(outputs.dtype)


def pack_targets(labels: Tensor, numbers: Tensor) -> Tensor:
    """Targets (..., B, 1 + C) of labels (..., B) and the numbers (..., B, C) of a term."""
    return torch.cat([labels[..., None].to(numbers.dtype), numbers], -1)


class _Softmax:
    """A loss of logits as the engines use it."""

    def value(self, outputs: Tensor, targets: Tensor) -> Value:
        """Losses of the windows, and their derivatives."""
        raise NotImplementedError

    def evaluate(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Losses (..., B)."""
        return self.value(outputs, targets).loss

    def slope(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The derivative (..., B, C) of their sum."""
        return self.value(outputs, targets).slope

    def mean(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Their mean, in double precision."""
        return self.evaluate(outputs.double(), targets.double()).mean()


@dataclass(frozen=True)
class CrossEntropy(_Softmax):
    """Cross entropy on labels (..., B)."""

    name: str = "cross_entropy"

    def value(self, outputs: Tensor, targets: Tensor) -> Value:
        return cross_entropy(outputs, targets)


@dataclass(frozen=True)
class Taught(_Softmax):
    """label · CE + teacher · KL(p ‖ softmax(z / T)), with p in the targets."""

    label: float
    """Factor of the cross entropy."""
    teacher: float
    """Factor of the divergence."""
    temperature: float
    """T."""
    without_label: bool = False
    """Whether the divergence is over all classes except the label (FedNTD, arXiv 2106.03097); its
    gradient there is 0."""
    name: str = "taught"

    def value(self, outputs: Tensor, targets: Tensor) -> Value:
        labels = targets[..., 0]
        hard, logits = cross_entropy(outputs, labels), outputs
        if self.without_label:
            logits = outputs.masked_fill(one_hot(labels, outputs).bool(), -torch.inf)
        soft = divergence(logits, targets[..., 1:], self.temperature)
        loss = self.label * hard.loss + self.teacher * soft.loss
        return Value(loss, self.label * hard.slope + self.teacher * soft.slope)


@dataclass(frozen=True)
class RestrictedSoftmax(_Softmax):
    """FedRS (Li and Zhan, KDD 2021): cross entropy of logits times the scales in the targets, α < 1
    for missing classes."""

    name: str = "restricted"

    def value(self, outputs: Tensor, targets: Tensor) -> Value:
        label = one_hot(targets[..., 0], outputs)
        return divergence(outputs, label, scale=targets[..., 1:])
