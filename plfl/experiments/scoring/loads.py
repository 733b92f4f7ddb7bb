"""How results of studies that forecast loads are scored."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from plfl.base.lazy import pandas as pd
from plfl.experiments.client_groups import count_groups
from plfl.experiments.scoring import Scoring
from plfl.experiments.scoring.annotations import BaselineTables, JobFiles, Variant
from plfl.study import Study


class LoadScoring(Scoring):
    """Forecasts of loads, whose score is MASE."""

    name = "loads"
    further: ClassVar = {"map": "map.csv"}

    def baselines(self, study: Study, state: str, dataset: Path) -> BaselineTables:
        from plfl.experiments.baseline_jobs import evaluate_all

        return evaluate_all(study, state, dataset)

    def baseline_groups(self, study: Study, state: str) -> int:
        return count_groups(study, state)

    def collect(self, study: Study, files: JobFiles, folder: Path) -> pd.DataFrame:
        from plfl.results.collect import write_tables

        return write_tables(study, files, folder)

    def compare_variants(self, study: Study, variants: list[Variant]) -> dict[str, pd.DataFrame]:
        from plfl.results.overview import compare_variants

        return compare_variants(study, variants)
