"""How results of studies that classify images are scored and reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

from plfl.base.lazy import pandas as pd
from plfl.data import sources
from plfl.experiments.scoring import Scoring
from plfl.experiments.scoring.annotations import BaselineTables, JobFiles, Variant
from plfl.report.reporting import Reporting
from plfl.study import Cell, Study
from plfl_images.data import EXAMPLE_KIND, ImageDataset, skew_of

_CAPTIONS = {
    "accuracy": "Test accuracy of the global models against rounds: mean over seeds, ± standard"
    " deviation.",
    "labels": "Who has which labels: training images of each client, first seed.",
}


class ImageScoring(Scoring):
    """Classifiers of images, whose score is their accuracy."""

    name = EXAMPLE_KIND
    further: ClassVar = {"table_of_curves": "curves.csv"}

    def baseline_settings(self, study: Study) -> Any:
        return [study.data.most_clients, skew_of(study.data).model_dump(), study.grid.seeds]

    def baselines(self, study: Study, state: str, dataset: Path) -> BaselineTables:
        """The scores of the baselines; classifiers have no forecasts, and none is kept."""
        from plfl_images.baselines import baseline_tables

        images = cast("ImageDataset", sources.source_of(study.data).read(study, dataset))
        return baseline_tables(state, images, study.grid.seeds)

    def collect(self, study: Study, files: JobFiles, folder: Path) -> pd.DataFrame:
        from plfl_images.results.collect import write_tables

        return write_tables(study, files, folder)

    def variants(self, study: Study, folder: Path) -> list[Variant]:
        from plfl_images.results.variants import Results

        return list(Results.all_of(study, folder))

    def compare_variants(self, study: Study, variants: list[Variant]) -> dict[str, pd.DataFrame]:
        from plfl_images.results.variants import compare_variants

        return compare_variants(study, variants)


class ImageReporting(Reporting):
    """Classifiers of images, whose score is their accuracy."""

    name = EXAMPLE_KIND
    drawn_files: ClassVar = ("overview", "accuracy")

    def sentence(self, study: Study, cell: Cell, records: pd.DataFrame) -> str:
        from plfl_images.results import classification

        summary = classification.summarise(
            records, study.data.source, classification.target_of(study)
        )
        (row,) = summary.query("model == 'global'").to_dict("records")
        tuned = row["hyperparameters"] and f"; chosen on validation: {row['hyperparameters']}"
        return (
            f"{cell}: test accuracy {row['accuracy']:.3f} at round {row['round']}, "
            f"{row['accuracy_tail']:.3f} over the last {classification.TAIL_ROUNDS} evaluated "
            f"rounds{tuned}"
        )

    def captions(self, study: Study) -> dict[str, str]:
        return _CAPTIONS

    def draw(self, results: Path, figures: Path) -> Iterator[str]:
        from plfl_images.report.figures import render_all

        return render_all(results, figures)

    def write(self, results: Path, figures: Path, page: Path) -> None:
        from plfl_images.report.page import write

        write(results, figures, page)

    def write_overview(self, results: Path, figures: Path, page: Path) -> None:
        from plfl_images.report.page import illustrate, write

        illustrate(results, figures)
        write(results, figures, page)
