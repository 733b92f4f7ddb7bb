"""How results of studies that classify images are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, cast

from plfl.base.lazy import pandas as pd
from plfl.data import sources
from plfl.interfaces.baseline import Arrays
from plfl.report.annotations import Variant
from plfl.report.reporting import Reporting
from plfl.study import Cell, Study
from plfl_images.data import EXAMPLES, ImageDataset, skew_of

_CAPTIONS = {
    "accuracy": "Test accuracy of the global models against rounds: mean over seeds, ± standard"
    " deviation.",
    "labels": "Who has which labels: training images of each client, first seed.",
}


class ImageReporting(Reporting):
    """Classifiers of images, whose score is their accuracy."""

    name = EXAMPLES
    modules: ClassVar = {
        "baselines": ["plfl_images.baselines"],
        "collect": ["plfl_images.results.collect"],
        "figures": ["plfl_images.report.figures"],
        "page": ["plfl_images.report.page"],
        "overview": ["plfl_images.results.variants", "plfl_images.report.page"],
    }
    further: ClassVar = {"table_of_curves": "curves.csv"}
    drawn_files: ClassVar = ("overview", "accuracy")

    def divided(self, study: Study) -> Any:
        return [study.data.most_clients, skew_of(study.data).model_dump(), study.grid.seeds]

    def baselines(
        self, study: Study, state: str, dataset: Path
    ) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, Arrays]:
        """The scores of the baselines; classifiers have no forecasts, and none is kept."""
        from plfl_images.baselines import evaluate

        images = cast("ImageDataset", sources.source_of(study.data).read(study, dataset))
        scores = evaluate(state, images, study.grid.seeds)
        empty_table = pd.DataFrame({"state": [], "baseline": []})
        return scores, empty_table, empty_table, {}

    def sentence(self, study: Study, cell: Cell, records: pd.DataFrame) -> str:
        from plfl_images.results import classification

        summary = classification.summarise(
            records, study.data.source, classification.target_of(study)
        )
        (row,) = summary.query("model == 'global'").to_dict("records")
        tuned = row["hyperparameters"] and f"; chosen on validation: {row['hyperparameters']}"
        return (
            f"{cell}: test accuracy {row['accuracy']:.3f} at round {row['round']}, "
            f"{row['accuracy_tail']:.3f} over the last {classification.TAIL} evaluated rounds"
            f"{tuned}"
        )

    def variants(self, study: Study, folder: Path) -> list[Variant]:
        from plfl_images.results.variants import Results

        return list(Results.all_of(study, folder))

    def captions(self, study: Study) -> dict[str, str]:
        return _CAPTIONS
