"""How results are reported: the figures and the page that tables become, one file for each kind of
examples (`loads`).

The workflow and the commands ask the reporting of a study, so that none of them knows what is
predicted. `plfl.experiments.scoring` makes the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from plfl.base.lazy import pandas as pd
from plfl.plugins import registry
from plfl.plugins.registry import Algorithm
from plfl.study import Cell, Study


class Reporting(Algorithm):
    """How results are reported. Its `name` is the kind of the examples that a task needs. A part is
    made again if the code of its method changes, or a module that the method imports or names."""

    drawn_files: ClassVar[Sequence[str]] = ("overview",)
    """Stems of the figures of a study with further axes."""

    def sentence(self, study: Study, cell: Cell, records: pd.DataFrame) -> str:
        """The test scores of a cell in a few words, given its records."""
        raise NotImplementedError

    def captions(self, study: Study) -> dict[str, str]:
        """The figures of a study by name, with their captions."""
        raise NotImplementedError

    def stems(self, study: Study) -> list[str]:
        """Stems of the files of all its figures."""
        return list(self.captions(study))

    def draw(self, results: Path, figures: Path) -> Iterator[str]:
        """Draw all figures of a results folder into folder `figures`, as PDF, PNG and SVG, and
        yield the name of each, when its files are written. PlflError if that fails."""
        raise NotImplementedError

    def write(self, results: Path, figures: Path, page: Path) -> None:
        """Write the page of a results folder, whose figures are drawn, to the file `page`;
        PlflError if that fails."""
        raise NotImplementedError

    def write_overview(self, results: Path, figures: Path, page: Path) -> None:
        """Draw the figures of a study with further axes, and write its page to the file `page`;
        PlflError if a file cannot be written."""
        raise NotImplementedError


available = partial(registry.available, __name__, Reporting)


def reporting_of(study: Study) -> Reporting:
    """The reporting of a study."""
    return registry.find(__name__, Reporting, study.task.examples)()


def figures_of(results: Path, study: Study) -> Path:
    """The folder of the figures of a study whose results folder is `results`; of a copy elsewhere,
    or under another name, a folder in it."""
    folder = results.resolve()
    parts = study.paths.results.parts
    if folder.parts[-len(parts) :] != parts:
        return folder / "figures"
    return folder.parents[len(parts) - 1] / study.paths.figures


def make(results: Path, figures: Path, path: Path) -> None:
    """Draw the figures of the study in folder `results` into `figures`, and write its page to
    `path`; PlflError if a file cannot be written."""
    from plfl.results.overview import is_overview, study_of

    its = reporting_of(study_of(results))
    if is_overview(results):
        its.write_overview(results, figures, path)
        return
    for _ in its.draw(results, figures):
        pass
    its.write(results, figures, path)
