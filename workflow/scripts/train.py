"""Train cells of one or several states."""

from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.pipeline.jobs import job
    from plfl.pipeline.training import train_cells
    from plfl.pipeline.training_jobs import TrainingJobs
    from plfl.results.records import RecordFiles

if __name__ == "__main__":
    with job(snakemake) as study:
        outputs, datasets = snakemake.output, snakemake.input.datasets
        cells = TrainingJobs(study).cells(snakemake.wildcards)
        files = zip(outputs.records, outputs.forecasts, outputs.errors, strict=True)
        files_of_cells = [RecordFiles(*map(Path, paths)) for paths in files]
        states = dict.fromkeys(cell.state for cell in cells)
        train_cells(
            study,
            dict(zip(cells, files_of_cells, strict=True)),
            dict(zip(states, map(Path, datasets), strict=True)),
            label="-".join(snakemake.wildcards) or study.name,
        )
