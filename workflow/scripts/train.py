"""Train cells of a state."""

from collections.abc import Iterable
from pathlib import Path

from plfl.base.interrupts import silence

silence()

from plfl.config.study import Cell, Study
from plfl.pipeline.jobs import job
from plfl.pipeline.training import train_cells


def by_cell(
    study: Study, records: Iterable[str], forecasts: Iterable[str]
) -> dict[Cell, tuple[Path, Path]]:
    """The files of every cell; the files of its records are named after the cells."""
    names = {str(cell): cell for cell in study.cells}
    files = zip(map(Path, records), map(Path, forecasts), strict=True)
    return {names[one.stem]: (one, other) for one, other in files}


if __name__ == "__main__":
    with job(snakemake) as study:
        train_cells(
            study,
            by_cell(study, snakemake.output.records, snakemake.output.forecasts),
            Path(snakemake.input.dataset),
            label="-".join(snakemake.wildcards),
        )
