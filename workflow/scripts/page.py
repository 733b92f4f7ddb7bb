"""Write the page of a study."""

from pathlib import Path

from plfl.pipeline.jobs import job
from plfl.report import page

if __name__ == "__main__":
    with job(snakemake) as study:
        page.write(study.results, study.figures, Path(snakemake.output.page))
