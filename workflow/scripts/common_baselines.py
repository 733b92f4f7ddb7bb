"""Train the baselines of a state that need all clients together."""

from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.data.dataset import Dataset
    from plfl.experiments.baseline_jobs import CommonFiles, write_common
    from plfl.pipeline.jobs import job

if __name__ == "__main__":
    with job(snakemake) as study:
        dataset = Dataset.load_file(snakemake.input.dataset)
        write_common(study, dataset, CommonFiles(*map(Path, snakemake.output)))
