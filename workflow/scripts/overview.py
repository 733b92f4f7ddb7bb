"""Put the variants of a study side by side: tables, figure and page."""

from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.experiments.scoring import scoring_of
    from plfl.pipeline.jobs import git_commit, job
    from plfl.report.reporting import make
    from plfl.results.overview import gather

if __name__ == "__main__":
    with job(snakemake) as study:
        gather(study, study.paths.results, git_commit(), scoring_of(study).compare_variants)
        make(study.paths.results, study.paths.figures, Path(snakemake.output.page))
