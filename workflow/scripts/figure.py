from pathlib import Path

from plfl.figures import render
from plfl.workflow import job

with job(snakemake) as study:
    render(snakemake.params.figure, study.results, Path(snakemake.output[0]).parent)
