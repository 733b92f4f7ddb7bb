"""Fetch the files of a state's clients."""

import json
from pathlib import Path

from plfl.base.interrupts import silence

silence()

from plfl.base.files import atomic
from plfl.config.study import Study
from plfl.data import sources
from plfl.pipeline.jobs import job


def download(study: Study, state: str, receipt: Path) -> None:
    """Fetch the files and write what was fetched, with checksums, to `receipt`."""
    fetched = sources.of(study.data).fetch(study.data, state)
    with atomic(receipt) as temporary:
        temporary.write_text(json.dumps(fetched, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with job(snakemake) as study:
        download(study, snakemake.wildcards.state, Path(snakemake.output.receipt))
