from pathlib import Path

from plfl import page
from plfl.workflow import job

with job(snakemake) as study:
    page.write(study.results, study.figures, Path(snakemake.output.page))
