"""Put the variants of a study side by side: tables, figure and page."""

from pathlib import Path

from plfl.pipeline.jobs import git_commit, job
from plfl.report import overview
from plfl.report.classifiers import overview as overview_of_classifiers
from plfl.results.overview import gather

if __name__ == "__main__":
    with job(snakemake) as study:
        gather(study, study.results, git_commit())
        shown = overview_of_classifiers if study.data.is_images else overview
        shown.illustrate(study.results, study.figures)
        shown.write(study.results, study.figures, Path(snakemake.output.page))
