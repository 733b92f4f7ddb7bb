"""Draw all figures of a study."""

import logging

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.pipeline.jobs import job
    from plfl.report import reporting
    from plfl.study import Study

log = logging.getLogger("plfl.figures")


def draw_figures(study: Study) -> None:
    """Draw the figures of a study; log each one."""
    its = reporting.reporting_of(study)
    for number, name in enumerate(its.draw(study.paths.results, study.paths.figures), 1):
        log.info("figure %d of %d: %s", number, len(its.captions(study)), name)


if __name__ == "__main__":
    with job(snakemake) as study:
        draw_figures(study)
