"""Classification: which of some classes an image belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

import numpy as np
from pydantic import Field

from plfl.base import Tensor
from plfl.base.errors import Problem
from plfl.base.keys import Key
from plfl.base.lazy import torch
from plfl.base.rounding import count_participants
from plfl.config.data import Data
from plfl.config.federation import FederationSettings
from plfl.config.windows import Windows
from plfl.interfaces.annotations import Examples
from plfl.interfaces.task import Floats, Task
from plfl.interfaces.terms import (
    CorrectedDistillation,
    Distillation,
    NotTrueDistillation,
    Objective,
    Restriction,
    Term,
)
from plfl.layout import WindowShape
from plfl_images import data as sources
from plfl_images.data import skew_of


class Classify(Task):
    """The label of an image, trained with the cross entropy.

    A term of a method becomes a distribution over the classes, or a scale of each logit, which
    follows the label in a target; see `plfl_images.softmax`.
    """

    name = "classify"
    examples = sources.EXAMPLE_KIND
    own_loss = "the cross entropy"
    forecasts = False
    has_common_windows = True
    has_labels = True
    choosing_score = "error"
    own_choosing_score = "error"
    target: float = Field(0.8, gt=0, lt=1)
    """Test accuracy of the global models. The rounds and bytes needed to reach it are reported
    (FedADC: 0.8)."""

    def window_shape(self, data: Data, windows: Windows) -> WindowShape:
        return _source_of(data).shape

    def split_settings(self, data: Data) -> dict[str, Any]:
        return {"clients": [data.most_clients, skew_of(data).model_dump(mode="json")]}

    def problems(
        self, data: Data, windows: Windows, federation: FederationSettings
    ) -> Iterator[Problem]:
        source, skew = _source_of(data), skew_of(data)
        if len(data.states) != 1:
            yield Problem(
                Key("data.states"),
                f"{data.states} are {len(data.states)} federations, but {data.source} is one",
                f"give one name, such as [{data.source}]",
            )
        shards = data.most_clients * skew.s
        if skew.split == "sort_and_partition" and shards % source.classes:
            yield Problem(
                Key("data.skew.s"),
                f"{data.most_clients} clients (data.clients) with {skew.s} shards each are "
                f"{shards} shards, no multiple of the {source.classes} classes of {data.source}",
                "change one of the two",
            )
        if federation.keep == "best":
            yield Problem(
                Key("federation.keep"),
                "'best' needs the local models after every evaluated round, but those of "
                "classifiers are scored after the last round only",
                "set it to last",
            )
        labels = count_participants(data.most_clients, federation.participation) * skew.s
        aware = federation.selection == "data_aware" and skew.split == "sort_and_partition"
        if aware and labels < source.classes:
            yield Problem(
                Key("federation.selection"),
                f"'data_aware' is impossible: {labels // skew.s} of {data.most_clients} clients "
                f"(federation.participation) with at most {skew.s} labels each (data.skew.s) "
                f"have at most {labels} of the {source.classes} classes of {data.source}",
                "raise one of the two",
            )

    def reasons_against_teacher(self, loss: str) -> Iterator[str]:
        return iter(())

    def objective(self, loss: str, term: Term | None = None) -> Objective:
        """The loss; `federation.loss`, which is about forecasts, has no effect."""
        from plfl_images import softmax

        match term:
            case None:
                return Objective(softmax.CrossEntropy())
            case Distillation(weight, T):
                return Objective(softmax.Taught(1.0, weight * T * T, T))
            case CorrectedDistillation(weight=weight, temperature=T):
                return Objective(softmax.Taught(1 - weight, weight * T * T, T))
            case NotTrueDistillation(label, weight, T):
                return Objective(softmax.Taught(label, weight * T * T, T, without_label=True))
            case Restriction():
                return Objective(softmax.RestrictedSoftmax())
            case _:
                assert_never(term)

    def mix_teacher(
        self, term: Term, outputs: Tensor | None, targets: Tensor, clients: Tensor
    ) -> Tensor:
        """Targets (n, K, B, 1 + C): the label, then C numbers that the term needs."""
        from plfl_images import softmax

        def expand_to_targets(table: Tensor) -> Tensor:
            return table[clients][:, None, None].expand(*targets.shape, -1)

        if isinstance(term, Restriction):
            scale = torch.where(expand_to_targets(term.present), 1.0, term.alpha)
            return softmax.pack_targets(targets, scale.to(targets.dtype))
        assert outputs is not None
        match term:
            case Distillation(_, T):
                numbers = torch.softmax(outputs / T, -1)
            case CorrectedDistillation(ratios=ratios, temperature=T):
                numbers = softmax.correct_teacher(outputs, targets, expand_to_targets(ratios), T)
            case NotTrueDistillation(_, _, T):
                numbers = softmax.without_label(outputs, targets, T)
            case _:
                assert_never(term)
        return softmax.pack_targets(targets, numbers)

    def agreed_bins(self, targets: Sequence[Tensor], bins: int) -> tuple[Tensor, Tensor]:
        """An empty tensor of edges, and ρ (N, classes) of each client; `bins` has no effect."""
        classes = 1 + int(max(target.max() for target in targets))
        counts = torch.stack(
            [torch.bincount(target.long(), minlength=classes) for target in targets]
        )
        return targets[0].new_empty(0), (counts / counts.amax(1, keepdim=True)).to(targets[0])

    def histograms(self, targets: Sequence[Floats], bins: int) -> Floats:
        """Shares (N, classes) of the labels of each client; `bins` has no effect."""
        classes = 1 + int(max(row.max() for row in targets))
        counts = [np.bincount(row.astype(np.int64), minlength=classes) for row in targets]
        return np.stack([row / row.sum() for row in counts])

    def evaluator(self, dataset: Examples, engine: Any) -> Any:
        from plfl_images.evaluation import CommonEvaluator

        return CommonEvaluator(dataset, engine)


def _source_of(data: Data) -> sources.Images:
    """The source of a study that fits the task."""
    source = data.source_class()
    assert isinstance(source, sources.Images)
    return source
