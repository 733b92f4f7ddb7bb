"""Keep the models of the best cells of a study."""

from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.pipeline.jobs import job
    from plfl.pipeline.models import keep_models

if __name__ == "__main__":
    with job(snakemake) as study:
        datasets, fitted = (
            dict(zip(study.data.states, map(Path, files), strict=True))
            for files in (snakemake.input.datasets, snakemake.input.fitted)
        )
        keep_models(study, datasets, fitted, Path(snakemake.output.index))
