"""Log a study into MLflow."""

import json
from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.base.files import write_text
    from plfl.pipeline.jobs import job
    from plfl.publish.tracking import track

if __name__ == "__main__":
    with job(snakemake) as study:
        address = track(study.paths.results, study.paths.figures)
        write_text(Path(snakemake.output.done), json.dumps({"logged": address}) + "\n")
