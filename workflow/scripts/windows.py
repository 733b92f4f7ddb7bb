import json
from pathlib import Path

from plfl.data import source, windows
from plfl.workflow import job

with job(snakemake) as study:
    source.verify(json.loads(Path(snakemake.input.receipt).read_text(encoding="utf-8")))
    tables = source.load(study.data, snakemake.wildcards.state)
    windows.build(tables, study.windows).save(snakemake.output.dataset)
