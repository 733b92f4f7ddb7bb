"""Write the report of a study."""

from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.pipeline.jobs import job
    from plfl.report import reporting

if __name__ == "__main__":
    with job(snakemake) as study:
        page = Path(snakemake.output.page)
        reporting.reporting_of(study).write(study.paths.results, study.paths.figures, page)
