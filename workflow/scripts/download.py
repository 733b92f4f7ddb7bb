import json
from pathlib import Path

from plfl.data import source
from plfl.files import atomic
from plfl.workflow import job

with job(snakemake) as study:
    receipt = source.fetch(study.data, snakemake.wildcards.state)
    with atomic(Path(snakemake.output.receipt)) as temporary:
        temporary.write_text(json.dumps(receipt, indent=1) + "\n", encoding="utf-8")
