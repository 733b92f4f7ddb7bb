"""Train cells of one or several states."""

from collections.abc import Iterable
from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.pipeline.jobs import job
    from plfl.pipeline.training import train_cells
    from plfl.results.records import RecordFiles
    from plfl.study import Cell, Study


def by_cell(study: Study, records: Iterable[str]) -> dict[Cell, RecordFiles]:
    """The files of every cell; those of its records are named after the cells."""
    names = {str(cell): cell for cell in study.cells}
    return {
        names[path.stem]: RecordFiles.in_folder(path.parent, path.stem)
        for path in map(Path, records)
    }


if __name__ == "__main__":
    with job(snakemake) as study:
        train_cells(
            study,
            by_cell(study, snakemake.output.records),
            {path.stem: path for path in map(Path, snakemake.input.datasets)},
            label="-".join(snakemake.wildcards) or study.name,
        )
