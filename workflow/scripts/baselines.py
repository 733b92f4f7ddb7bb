"""Train and score the baselines of a state."""

from pathlib import Path
from typing import cast

from plfl.baselines.trees import Boosting
from plfl.config.study import Study
from plfl.data.windows import Dataset
from plfl.experiments.baselines import evaluate
from plfl.pipeline.jobs import job
from plfl.results.records import write_table
from plfl.tasks import Task


def score_baselines(study: Study, state: str, dataset: Path, scores: Path, forecasts: Path) -> None:
    """Write the baselines' scores and their forecasts of a week."""
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
