from pathlib import Path

from plfl.results.collect import collect
from plfl.workflow import git_commit, job

with job(snakemake) as study:
    inputs = zip(snakemake.input.records, snakemake.input.forecasts, strict=True)
    files = [(Path(records), Path(forecasts)) for records, forecasts in inputs]
    datasets = map(Path, snakemake.input.datasets)
    receipts = map(Path, snakemake.input.receipts)
    collect(
        study,
        cells=dict(zip(study.cells, files, strict=True)),
        datasets=dict(zip(study.data.states, datasets, strict=True)),
        receipts=dict(zip(study.data.states, receipts, strict=True)),
        folder=study.results,
        git=git_commit(),
    )
