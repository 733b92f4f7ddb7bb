"""A tiny study of classifiers on made-up images, which trains in a blink."""

import copy
from typing import Any

import numpy as np
import pandas as pd

from plfl.experiments.train import train
from plfl.federated.checkpoint import Checkpoint
from plfl.study import Study
from plfl_images.data import skew_of
from plfl_images.data.dataset import ImageDataset
from plfl_images.data.pool import ImagePool

CONFIG: dict[str, Any] = {
    "data": {"source": "digits", "states": ["digits"], "clients": 10, "skew": {"s": 2}},
    "task": {"name": "classify"},
    "model": {"name": "cnn", "blocks": [[2], [3]], "hidden": [4]},
    "sharing": {"all": ["*"]},
    "grid": {
        "method": ["fedopt"],
        "client_opt": ["sgd"],
        "server_opt": ["fedavg"],
        "sharing": ["all"],
        "seeds": [0],
    },
    "federation": {"rounds": 2, "local_steps": 2, "batch_size": 3, "participation": 0.3},
    "hyperparameters": {"client_opt": {"sgd": {"lr": 0.1}}},
}


def make_study(**blocks: Any) -> Study:
    """The study, with some keys of its blocks replaced."""
    config = copy.deepcopy(CONFIG)
    for block, keys in blocks.items():
        config.setdefault(block, {}).update(keys)
    return Study.parse(config, "test")


def make_images(study: Study) -> ImageDataset:
    """Made-up images of ten classes, which differ in brightness."""
    random, labels = np.random.default_rng(0), np.arange(300) % 10
    pixels = 10 * labels[:, None, None, None] + random.integers(0, 30, (300, 1, 8, 8))
    pool = ImagePool(pixels.astype(np.uint8), labels, 200, np.zeros(1), np.full(1, 128.0))
    (source,) = study.data.states
    return ImageDataset.from_pool(pool, skew_of(study.data), study.data.clients_of(source), seed=0)


def train_cell(study: Study, checkpoint: Checkpoint | None = None) -> pd.DataFrame:
    """The records of the only cell of a study."""
    (result,) = train(study, study.cells, make_images(study), checkpoint=checkpoint).values()
    return result.records
