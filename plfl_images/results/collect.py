"""Collects the files of the jobs of a study of classifiers into its tables."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from plfl.data import sources
from plfl.results.collect import JobFiles
from plfl.results.records import join_tables, write_table
from plfl.study import Study
from plfl_images.data.dataset import ImageDataset
from plfl_images.results import classification


def write_tables(study: Study, files: JobFiles, folder: Path) -> pd.DataFrame:
    """Write the tables of a study into `folder`, except the summary, which is returned.

    Classifiers have no forecasts, so the tables of forecasts and of their errors are empty.
    """
    target = classification.target_of(study)
    summaries: list[pd.DataFrame] = []
    join_tables(
        [file.records for file in files.cells.values()],
        folder / "records.parquet",
        lambda records: summaries.append(
            classification.summarise(records, study.data.source, target)
        ),
    )
    join_tables([file.records for file in files.baselines], folder / "baselines.parquet")
    for name in ("forecasts", "baseline_forecasts", "errors"):
        write_table(pd.DataFrame({"state": []}), folder / f"{name}.parquet")
    source = sources.source_of(study.data)
    counts = [
        label_counts(cast(ImageDataset, source.read(study, path)).divide_by_seed(seed), seed)
        for path in files.datasets.values()
        for seed in study.grid.seeds
    ]
    write_table(pd.concat(counts, ignore_index=True), folder / "clients.parquet")
    return pd.concat(summaries, ignore_index=True)


def label_counts(dataset: ImageDataset, seed: int) -> pd.DataFrame:
    """Number of training `images` of every `client` and `label` under the partition of a `seed`."""
    counts = dataset.label_counts
    return pd.DataFrame(
        {
            "seed": seed,
            "client": np.repeat(dataset.clients, counts.shape[1]),
            "label": np.tile(np.arange(counts.shape[1]), counts.shape[0]),
            "images": counts.ravel(),
        }
    )
