"""Fetch the files of a state's clients."""

import json
from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.base.files import write_text
    from plfl.data import sources
    from plfl.pipeline.jobs import job
    from plfl.study import Study


def download(study: Study, state: str, receipt: Path) -> None:
    """Fetch the files and write what was fetched, with checksums, to `receipt`."""
    fetched = sources.source_of(study.data).fetch(study.data, state)
    write_text(receipt, json.dumps(fetched, indent=1) + "\n")


if __name__ == "__main__":
    with job(snakemake) as study:
        download(study, snakemake.wildcards.state, Path(snakemake.output.receipt))
