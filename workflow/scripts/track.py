"""Log a study into its MLflow database."""

import json
from pathlib import Path

from plfl.base.interrupts import silence

silence()

from plfl.base.files import write_text
from plfl.pipeline.jobs import job
from plfl.publish.tracking.store import track


def log_study(results: Path, figures: Path, done: Path) -> None:
    """Log the study in folder `results`; write the path of its database to file `done`."""
    database = track(results, figures)
    write_text(done, json.dumps({"database": str(database)}) + "\n")


if __name__ == "__main__":
    with job(snakemake) as study:
        log_study(study.results, study.figures, Path(snakemake.output.done))
