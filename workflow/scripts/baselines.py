"""Train and score the baselines of a state."""

from pathlib import Path
from typing import cast

import pandas as pd

from plfl.baselines.trees import Boosting
from plfl.config.study import Study
from plfl.data.dataset import Dataset
from plfl.data.images.dataset import ImageDataset
from plfl.data.prepare import load_file
from plfl.experiments import image_baselines
from plfl.experiments.baselines import evaluate
from plfl.pipeline.jobs import job
from plfl.results.records import write_table
from plfl.tasks import Task


def score_baselines(study: Study, state: str, dataset: Path, scores: Path, forecasts: Path) -> None:
    """Write the baselines' scores and their forecasts of a week; classifiers have no forecasts."""
    if study.data.is_images:
        images = load_file(study, dataset)
        assert isinstance(images, ImageDataset)
        write_table(image_baselines.evaluate(state, images, study.grid.seeds), scores)
        write_table(pd.DataFrame({"state": [], "baseline": []}), forecasts)
        return
    boosting = Boosting(**study.baselines.model_dump())
    found = evaluate(state, Dataset.load_file(dataset), boosting, cast(Task, study.task))
    write_table(found.scores, scores)
    write_table(found.forecasts, forecasts)


if __name__ == "__main__":
    with job(snakemake) as study:
        score_baselines(
            study,
            snakemake.wildcards.state,
            Path(snakemake.input.dataset),
            Path(snakemake.output.scores),
            Path(snakemake.output.forecasts),
        )
