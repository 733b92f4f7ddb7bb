"""Compare the forecasters of a study, or of a variant, and judge its claims."""

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.experiments.scoring import scoring_of
    from plfl.pipeline.jobs import job
    from plfl.results.comparisons import write_comparisons

if __name__ == "__main__":
    with job(snakemake) as study:
        folder = study.paths.results
        write_comparisons(study, scoring_of(study).variants(study, folder), folder)
