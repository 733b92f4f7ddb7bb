"""Train and score the baselines of a state, or join those of its groups."""

from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.experiments.baseline_jobs import join_files
    from plfl.experiments.scoring import scoring_of
    from plfl.pipeline.jobs import job
    from plfl.results.records import BaselineFiles

if __name__ == "__main__":
    with job(snakemake) as study:
        inputs, state = snakemake.input, snakemake.wildcards.state
        dataset = Path(inputs.dataset)
        groups = zip(inputs.scores, inputs.forecasts, inputs.errors, inputs.fitted, strict=True)
        parts = [BaselineFiles(*map(Path, files)) for files in groups]
        if parts:
            tables = join_files(study, state, dataset, parts, Path(inputs.common[0]))
        else:
            tables = scoring_of(study).baselines(study, state, dataset)
        tables.write(BaselineFiles(*map(Path, snakemake.output)))
