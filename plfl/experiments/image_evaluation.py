"""Evaluates classifiers on held-out images."""

from __future__ import annotations

from typing import cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl.data.dataset import EVALUATED
from plfl.data.images.dataset import ImageDataset
from plfl.experiments.evaluation import Evaluation
from plfl.federated.federation import Federation
from plfl.tasks import softmax
from plfl.training.task import Engine

Floats = NDArray[np.float64]


class ImageEvaluator:
    """Classifies the held-out images, which all clients share.

    Models that several clients hold are evaluated once: without personal parameters the server has
    one model. The clients' local models are evaluated only on request,
    because that takes longer than the training of a round.
    """

    def __init__(self, dataset: ImageDataset, engine: Engine):
        self.dataset, self.engine = dataset, engine
        self.starts = {split: dataset.starts(0, split) for split in EVALUATED}

    def examine(self, f: Federation, received: torch.Tensor | None, with_local: bool) -> Evaluation:
        """Score the models `received` (N, P), and the clients' own models on request.

        Where nothing is shared (None) they are the same.
        """
        dataset = cast(ImageDataset, f.client_data.dataset)
        found = {}
        if with_local or received is None:
            found["local"] = self._scores(f.own_models(received), dataset)
        found["global"] = found["local"] if received is None else self._scores(received, dataset)
        tables = [table.assign(model=model) for model, table in found.items()]
        return Evaluation(pd.concat(tables, ignore_index=True))

    def _scores(self, rows: torch.Tensor, dataset: ImageDataset) -> pd.DataFrame:
        """One row per split and client of the models `rows` (N, P).

        `error` and `cross_entropy` are means over the held-out images; `own_error` is the mean over
        classes of the fraction of errors, weighted by the client's fractions of the labels.
        """
        models, of_client = distinct(rows)
        tables = []
        for split, starts in self.starts.items():
            given = torch.from_numpy(starts).to(rows.device)
            logits = torch.stack(self.engine.predict(models, [given] * len(models))).double()
            labels = torch.from_numpy(dataset.labels_of(starts)).to(rows.device)
            entropy = softmax.cross_entropy(logits, labels.expand(len(logits), -1)).loss.mean(1)
            wrong = (logits.argmax(-1) != labels).double()
            # A model whose outputs are not finite has diverged.
            wrong[~logits.isfinite().all(-1)] = torch.nan
            classes = softmax.one_hot(labels, logits[0])
            by_class = (wrong @ classes / classes.sum(0)).cpu().numpy()
            tables.append(
                pd.DataFrame(
                    {
                        "client": dataset.clients,
                        "split": split,
                        "error": wrong.mean(1).cpu().numpy()[of_client],
                        "own_error": (by_class[of_client] * dataset.label_shares).sum(1),
                        "cross_entropy": entropy.cpu().numpy()[of_client],
                    }
                )
            )
        return pd.concat(tables, ignore_index=True)


def distinct(rows: torch.Tensor) -> tuple[torch.Tensor, NDArray[np.int64]]:
    """The different ones (k, P) among the models `rows` (N, P), and the number (N,) of each one's.

    A model that the server sends to all clients is one row in memory. Otherwise only rows whose
    bits have the same sum are compared. Sorting the rows would need several times their memory.
    """
    if rows.stride(0) == 0:
        return rows[:1], np.zeros(len(rows), np.int64)
    bits = rows.view(torch.int32)
    firsts: dict[int, list[int]] = {}
    kept: list[int] = []
    which = np.empty(len(rows), np.int64)
    for i, total in enumerate(bits.sum(dim=1).tolist()):
        alike = firsts.setdefault(total, [])
        k = next((k for k in alike if torch.equal(bits[kept[k]], bits[i])), len(kept))
        if k == len(kept):
            alike.append(k)
            kept.append(i)
        which[i] = k
    return rows if len(kept) == len(rows) else rows[kept], which
