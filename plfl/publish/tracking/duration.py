"""When the jobs of a study ran, from the benchmark files that Snakemake writes."""

from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import pandas as pd

from plfl.config.study import Cell
from plfl.results.records import CELL


@dataclass(frozen=True)
class Span:
    """Start and end of a job, in milliseconds since 1970."""

    start: int
    end: int


def of_cell(results: Path, cell: Cell) -> Span | None:
    """The job that trained a cell, alone or with others; None if it left no file."""
    values = {axis: str(value) for axis, value in asdict(cell).items()}
    optional = [axis for axis in CELL if axis != "state"]
    # The file is named after the axes in which the cells of the job are equal, or `study`.
    for named in product((True, False), repeat=len(optional)):
        shown = {"state", *(axis for axis, yes in zip(optional, named, strict=True) if yes)}
        stem = "-".join(values[axis] for axis in CELL if axis in shown)
        for suffix in ("", ".local"):
            if found := _read(results / "benchmarks" / "train" / f"{stem}{suffix}.tsv"):
                return found
    return _read(results / "benchmarks" / "train" / "study.tsv")


def of_baselines(results: Path, state: str) -> Span | None:
    """The job that computed the baselines of a state; None if it left no file."""
    return _read(results / "benchmarks" / "baselines" / f"{state}.tsv")


def _read(path: Path) -> Span | None:
    try:
        seconds = float(pd.read_csv(path, sep="\t")["s"].iloc[-1])
        end = path.stat().st_mtime
    except (OSError, ValueError, KeyError, IndexError):
        return None
    return Span(round(1000 * (end - seconds)), round(1000 * end))
