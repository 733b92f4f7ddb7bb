from pathlib import Path

from plfl.files import atomic
from plfl.tracking import track
from plfl.workflow import job

with job(snakemake) as study:
    database = track(study.results, study.figures)
    with atomic(Path(snakemake.output.done)) as temporary:
        temporary.write_text(f'{{"database": "{database}"}}\n', encoding="utf-8")
