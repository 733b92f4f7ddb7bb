"""Write the report of a study."""

from pathlib import Path

from plfl.pipeline.jobs import job
from plfl.report import page
from plfl.report.classifiers import page as page_of_classifiers

if __name__ == "__main__":
    with job(snakemake) as study:
        written = page_of_classifiers if study.data.is_images else page
        written.write(study.results, study.figures, Path(snakemake.output.page))
