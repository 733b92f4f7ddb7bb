"""Train a public model of the study's own meters."""

from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.pipeline.jobs import job
    from plfl.pipeline.public_models import write_public

if __name__ == "__main__":
    with job(snakemake) as study:
        write_public(study, Path(snakemake.output.model))
