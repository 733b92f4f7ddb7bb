"""Draw all figures of a study."""

import logging
from pathlib import Path

from plfl.pipeline.jobs import job
from plfl.report.figures import available, render_all

log = logging.getLogger("plfl.figures")


def draw_figures(results: Path, figures: Path) -> None:
    """Draw the figures of folder `results` into folder `figures`; log each one."""
    for number, name in enumerate(render_all(results, figures), 1):
        log.info("figure %d of %d: %s", number, len(available()), name)


if __name__ == "__main__":
    with job(snakemake) as study:
        draw_figures(study.results, study.figures)
