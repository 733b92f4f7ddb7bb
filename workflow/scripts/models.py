"""Keep the models of the best cells of a study."""

from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.pipeline.jobs import job
from plfl.pipeline.models import keep_models

if __name__ == "__main__":
    with job(snakemake) as study:
        datasets = map(Path, snakemake.input.datasets)
        keep_models(
            study,
            dict(zip(study.data.states, datasets, strict=True)),
            Path(snakemake.output.index),
        )
