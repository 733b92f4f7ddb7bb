"""Draw all figures of a study."""

import logging

from plfl.config.study import Study
from plfl.pipeline.jobs import job
from plfl.report import classifiers
from plfl.report.figures import available, render_all

log = logging.getLogger("plfl.figures")


def draw_figures(study: Study) -> None:
    """Draw the figures of a study; log each one."""
    for number, name in enumerate(render_all(study.results, study.figures), 1):
        log.info("figure %d of %d: %s", number, len(available(study)), name)


def draw_classifiers(study: Study) -> None:
    """The same for a study of classifiers."""
    from plfl.report.classifiers.figures import render_all  # other studies do not need it

    for number, name in enumerate(render_all(study.results, study.figures), 1):
        log.info("figure %d of %d: %s", number, len(classifiers.CAPTIONS), name)


if __name__ == "__main__":
    with job(snakemake) as study:
        if study.data.is_images:
            draw_classifiers(study)
        else:
            draw_figures(study)
