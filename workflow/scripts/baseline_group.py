"""Train and score the baselines of a group of clients."""

from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.data.dataset import Dataset
    from plfl.experiments.baseline_jobs import write_group
    from plfl.pipeline.jobs import job
    from plfl.results.records import BaselineFiles

if __name__ == "__main__":
    with job(snakemake) as study:
        write_group(
            study,
            snakemake.wildcards.state,
            Dataset.load_file(snakemake.input.dataset),
            int(snakemake.wildcards.group),
            Path(snakemake.input.common),
            BaselineFiles(*map(Path, snakemake.output)),
        )
