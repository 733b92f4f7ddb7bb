"""Train and score the baselines of a state, or join those of its groups."""

from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.experiments.baseline_jobs import BaselineFiles, join_files
    from plfl.experiments.scoring import scoring_of
    from plfl.pipeline.jobs import job
    from plfl.results.records import write_models, write_table

if __name__ == "__main__":
    with job(snakemake) as study:
        inputs, state = snakemake.input, snakemake.wildcards.state
        dataset = Path(inputs.dataset)
        groups = zip(inputs.scores, inputs.forecasts, inputs.errors, inputs.fitted, strict=True)
        parts = [BaselineFiles(*map(Path, files)) for files in groups]
        if parts:
            *tables, fitted = join_files(study, state, dataset, parts, Path(inputs.common[0]))
        else:
            *tables, fitted = scoring_of(study).baselines(study, state, dataset)
        *files, models = map(Path, snakemake.output)
        for table, path in zip(tables, files, strict=True):
            write_table(table, path)
        write_models(models, fitted)
