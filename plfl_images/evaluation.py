"""Evaluates models on the held-out images, which all clients share."""

import hashlib
from typing import cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from plfl.data.dataset import EVALUATED_SPLITS
from plfl.data.examples import Examples
from plfl.experiments.evaluation import Evaluation
from plfl.federated.federation import Federation
from plfl.training.work import Engine
from plfl_images import softmax
from plfl_images.data.dataset import ImageDataset

IMAGES_PER_PASS = 100
"""Images that a model reads at a time: what its layers return then fits into the caches."""


class CommonEvaluator:
    """Scores models on the images that all clients have in common.

    A model that several clients hold is evaluated once: without personal parameters the server has
    one model. The clients' local models are scored only in the last round, because scoring them
    takes longer than training a round.
    """

    def __init__(self, dataset: Examples, engine: Engine):
        self.engine = engine
        self.starts = {split: dataset.starts(0, split) for split in EVALUATED_SPLITS}

    def score_round(
        self, f: Federation, global_models: torch.Tensor | None, is_last: bool
    ) -> Evaluation:
        """Score the models `global_models` (N, P), and in the last round the clients' own models.

        If nothing is shared (None), they are the same.
        """
        dataset = f.client_data.dataset
        scores = {}
        if is_last or global_models is None:
            scores["local"] = self._scores(f.own_models(global_models), dataset)
        scores["global"] = (
            scores["local"] if global_models is None else self._scores(global_models, dataset)
        )
        tables = [table.assign(model=model) for model, table in scores.items()]
        return Evaluation(pd.concat(tables, ignore_index=True))

    def _scores(self, rows: torch.Tensor, dataset: Examples) -> pd.DataFrame:
        """One row per split and client of the models `rows` (N, P)."""
        models, model_of = distinct(rows)
        tables = []
        for split, starts in self.starts.items():
            parts = [
                torch.stack(self.engine.predict(models, [block.to(rows.device)] * len(models)))
                for block in torch.from_numpy(starts).split(IMAGES_PER_PASS)
            ]
            outputs = torch.cat(parts, dim=1)
            scores = image_scores(cast("ImageDataset", dataset), starts, outputs, model_of)
            scores.insert(0, "client", dataset.clients)
            scores.insert(1, "split", split)
            tables.append(scores)
        return pd.concat(tables, ignore_index=True)


def image_scores(
    images: ImageDataset,
    starts: NDArray[np.int64],
    outputs: torch.Tensor,
    model_of: NDArray[np.int64],
) -> pd.DataFrame:
    """Scores on the images `starts` (W,): a row per client, in order.

    `error` and `cross_entropy` are means over these images; `own_error` is the mean over classes of
    the share of errors, weighted by the client's shares of the labels. `outputs` (k, W, C) are
    those of k different models; `model_of` (N,) is the number of each client's model.
    """
    logits, labels = outputs.double(), torch.from_numpy(images.labels_of(starts))
    labels = labels.to(logits.device)
    entropy = softmax.cross_entropy(logits, labels.expand(len(logits), -1)).loss.mean(1)
    wrong = (logits.argmax(-1) != labels).double()
    # A model whose outputs are not finite has diverged.
    wrong[~logits.isfinite().all(-1)] = torch.nan
    classes = softmax.one_hot(labels, logits[0])
    by_class = (wrong @ classes / classes.sum(0)).cpu().numpy()
    return pd.DataFrame(
        {
            "error": wrong.mean(1).cpu().numpy()[model_of],
            "own_error": (by_class[model_of] * images.label_shares).sum(1),
            "cross_entropy": entropy.cpu().numpy()[model_of],
        }
    )


def distinct(rows: torch.Tensor) -> tuple[torch.Tensor, NDArray[np.int64]]:
    """The k different models (k, P) among the rows `rows` (N, P), and for each row the number (N,)
    of its model.

    A model that the server sends to all clients is one row in memory.
    """
    if rows.stride(0) == 0:
        return rows[:1], np.zeros(len(rows), np.int64)
    firsts: dict[str, int] = {}
    digests = [hashlib.sha256(row.cpu().numpy()).hexdigest() for row in rows]
    for i, digest in enumerate(digests):
        firsts.setdefault(digest, i)
    numbers = {digest: k for k, digest in enumerate(firsts)}
    number_of_model = np.array([numbers[digest] for digest in digests])
    return rows if len(firsts) == len(rows) else rows[[*firsts.values()]], number_of_model
