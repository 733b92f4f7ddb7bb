"""Classifiers that need no federation, on the images of a study.

- `majority`: the most frequent label of the client's own images;
- `logistic_own`: a logistic regression on the client's own images; `majority` if these have only
  one label;
- `logistic_pooled`: a logistic regression on the images of all clients together.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.data.dataset import EVALUATED_SPLITS
from plfl.interfaces.baseline import Crosses
from plfl.results.records import BaselineTables
from plfl_images.data.dataset import ImageDataset
from plfl_images.data.splits import Labels

ITERATIONS = 200
"""Most iterations of a regression."""
CROSSES: dict[str, Crosses] = {
    "majority": "nothing",
    "logistic_own": "nothing",
    "logistic_pooled": "raw data",
}
"""What clients send for each baseline."""


def baseline_tables(state: str, dataset: ImageDataset, seeds: list[int]) -> BaselineTables:
    """The scores of `evaluate`; classifiers have no forecasts, and none is kept."""
    empty_table = pd.DataFrame({"state": [], "baseline": []})
    return BaselineTables(evaluate(state, dataset, seeds), empty_table, empty_table)


def evaluate(state: str, dataset: ImageDataset, seeds: Iterable[int]) -> pd.DataFrame:
    """Scores of the baselines: `state`, `baseline`, `crosses`, `seed`, `client`, `split`, `error`,
    `own_error`; see `plfl_images.results.classification`.

    The images are divided again for every seed.
    """
    pooled = _answers(dataset, np.arange(dataset.pool.training))
    parts = []
    for seed in seeds:
        divided_dataset = dataset.divide_by_seed(seed)
        for i, client in enumerate(divided_dataset.clients.tolist()):
            labels = divided_dataset.pool.labels[divided_dataset.parts[i]]
            majority = np.bincount(labels).argmax() if len(labels) else 0
            predictions_by_split = {
                split: np.full(len(divided_dataset.starts(i, split)), majority)
                for split in EVALUATED_SPLITS
            }
            has_several_labels = len(np.unique(labels)) > 1
            by_name = {
                "majority": predictions_by_split,
                "logistic_own": _answers(divided_dataset, divided_dataset.parts[i])
                if has_several_labels
                else predictions_by_split,
                "logistic_pooled": pooled,
            }
            for baseline, answers in by_name.items():
                about = {"state": state, "seed": seed, "client": client}
                about |= {"baseline": baseline, "crosses": CROSSES[baseline]}
                for split in EVALUATED_SPLITS:
                    truth = divided_dataset.labels_of(divided_dataset.starts(i, split))
                    scores = _scores(truth, answers[split], divided_dataset.label_shares[i])
                    parts.append(about | {"split": split} | scores)
    return pd.DataFrame(parts)


def _answers(dataset: ImageDataset, images: NDArray[np.int64]) -> dict[str, Labels]:
    """The predictions of a regression on these images of the pool for each held-out part."""
    from sklearn.linear_model import LogisticRegression  # takes a second

    pixels = dataset.features.reshape(len(dataset.pool.labels), -1)
    regression = LogisticRegression(max_iter=ITERATIONS).fit(
        pixels[images], dataset.pool.labels[images]
    )
    parts = {"validation": dataset.validation, "test": dataset.test}
    return {split: regression.predict(pixels[part]) for split, part in parts.items()}


def _scores(truth: Labels, answers: Labels, shares: NDArray[np.float64]) -> dict[str, float]:
    wrong = (truth != answers).astype(float)
    counts = np.bincount(truth, minlength=len(shares))
    by_class = np.bincount(truth, wrong, minlength=len(shares)) / np.maximum(counts, 1)
    return {"error": float(wrong.mean()), "own_error": float(by_class @ shares)}
