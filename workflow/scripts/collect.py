"""Gather the cells of a study into its tables."""

from collections.abc import Iterable
from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.experiments.scoring import scoring_of
    from plfl.pipeline.jobs import git_commit, job
    from plfl.results.collect import JobFiles, collect
    from plfl.results.records import RecordFiles
    from plfl.study import Study


def together(*lists: Iterable[str]) -> list[RecordFiles]:
    """Files that belong together, one from each list."""
    return [RecordFiles(*map(Path, files)) for files in zip(*lists, strict=True)]


def by_state(study: Study, files: Iterable[str]) -> dict[str, Path]:
    """One file per state, in the order of the study."""
    return dict(zip(study.data.states, map(Path, files), strict=True))


if __name__ == "__main__":
    with job(snakemake) as study:
        inputs = snakemake.input
        cells = together(inputs.records, inputs.forecasts, inputs.errors)
        files = JobFiles(
            cells=dict(zip(study.cells, cells, strict=True)),
            baselines=together(inputs.baselines, inputs.baseline_forecasts, inputs.baseline_errors),
            datasets=by_state(study, inputs.datasets),
            receipts=by_state(study, inputs.receipts),
        )
        collect(study, files, study.paths.results, git_commit(), scoring_of(study).collect)
