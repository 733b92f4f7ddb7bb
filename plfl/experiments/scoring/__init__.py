"""How results are scored: what the jobs of a study compute of its baselines, and the tables that
its cells become; one file for each kind of examples (`loads`).

The workflow and the commands ask the scoring of a study, so that none of them knows what is
predicted. `plfl.report.reporting` draws and words the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from plfl.base.lazy import pandas as pd
from plfl.experiments.scoring.annotations import BaselineTables, JobFiles, Variant
from plfl.plugins import registry
from plfl.plugins.registry import Algorithm
from plfl.study import Study


class Scoring(Algorithm):
    """How results are scored. Its `name` is the kind of the examples that a task needs. A part is
    made again if the code of its method changes, or a module that the method imports or names."""

    further: ClassVar[Mapping[str, str]] = {}
    """Tables of `compare_variants` besides `best.csv` and `comparisons.csv`, by a short name."""

    def baseline_settings(self, study: Study) -> Any:
        """Settings that determine the baselines, in addition to the examples and the task."""
        return None

    def baselines(self, study: Study, state: str, dataset: Path) -> BaselineTables:
        """The results of the baselines of a state, given the file `dataset` of its examples."""
        raise NotImplementedError

    def baseline_groups(self, study: Study, state: str) -> int:
        """The number of groups of a state's clients whose baselines are jobs of their own
        (`plfl.experiments.baseline_jobs`); 1: `baselines` does all."""
        return 1

    def collect(self, study: Study, files: JobFiles, folder: Path) -> pd.DataFrame:
        """Write the tables of a study into `folder`, except the summary, which is returned."""
        raise NotImplementedError

    def variants(self, study: Study, folder: Path) -> list[Variant]:
        """The variants of a study with their tables in its results folder."""
        from plfl.results.variants import Variant

        return Variant.all_of(study, folder)

    def compare_variants(self, study: Study, variants: list[Variant]) -> dict[str, pd.DataFrame]:
        """The tables that compare variants, by the names of their files."""
        raise NotImplementedError


available = partial(registry.available, __name__, Scoring)


def scoring_of(study: Study) -> Scoring:
    """The scoring of a study."""
    return registry.find(__name__, Scoring, study.task.examples)()
