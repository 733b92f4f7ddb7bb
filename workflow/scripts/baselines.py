"""Train and score the baselines of a state."""

from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.experiments.scoring import scoring_of
from plfl.pipeline.jobs import job
from plfl.results.records import write_models, write_table

if __name__ == "__main__":
    with job(snakemake) as study:
        *tables, fitted = scoring_of(study).baselines(
            study, snakemake.wildcards.state, Path(snakemake.input.dataset)
        )
        *files, models = map(Path, snakemake.output)
        for table, path in zip(tables, files, strict=True):
            write_table(table, path)
        write_models(models, fitted)
