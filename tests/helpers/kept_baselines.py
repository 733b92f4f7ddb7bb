"""Fitted baselines as the files that a study keeps."""

from collections.abc import Collection
from pathlib import Path

from plfl.baselines.storage import pack
from plfl.config.named import STANDARD
from plfl.data.dataset import Dataset
from plfl.experiments.baselines import BaselineTables, evaluate
from plfl.interfaces.baseline import Arrays
from plfl.pipeline.models import keep_baseline
from plfl.study import Study
from plfl.tasks import task_of


def score(study: Study, dataset: Dataset, names: Collection[str] = STANDARD) -> BaselineTables:
    """Fit and score all further baselines of a study and, of those of every study, these."""
    listed = study.baselines
    further, left_out = listed.further, [name for name in STANDARD if name not in names]
    return evaluate("XX", dataset, listed.fit_settings, task_of(study), further, left_out)


def pack_all(study: Study, dataset: Dataset, tables: BaselineTables) -> Arrays:
    """All that is saved of the baselines."""
    return pack(study.baselines, tables.fitted, tables.widths, len(dataset.clients))


def keep(study: Study, dataset: Dataset, name: str, file: Path, packed: Arrays) -> Path:
    """Write the file of one baseline."""
    keep_baseline(study, "XX", name, dataset, packed, file)
    return file
