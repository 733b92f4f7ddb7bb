from pathlib import Path

from plfl.data import source, windows
from plfl.workflow import job

with job(snakemake) as study:
    source.verify(source.read_receipt(Path(snakemake.input.receipt)))
    tables = source.load(study.data, snakemake.wildcards.state)
    windows.build(tables, study.windows).save(snakemake.output.dataset)
