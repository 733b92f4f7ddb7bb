"""Train and score the baselines of a state."""

from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.pipeline.jobs import job
from plfl.report import reporting
from plfl.results.records import write_table

if __name__ == "__main__":
    with job(snakemake) as study:
        tables = reporting.of(study).baselines(
            study, snakemake.wildcards.state, Path(snakemake.input.dataset)
        )
        for table, path in zip(tables, snakemake.output, strict=True):
            write_table(table, Path(path))
