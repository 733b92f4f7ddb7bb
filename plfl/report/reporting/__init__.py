"""How results are reported: what a study's results become, one file for each kind of examples
(`loads`).

The workflow and the commands ask the reporting of a study for its baselines, tables,
figures and page, so that none of them knows what is predicted.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from plfl.base.lazy import pandas as pd
from plfl.interfaces.baseline import Arrays
from plfl.plugins import registry
from plfl.plugins.registry import Algorithm
from plfl.report.annotations import JobFiles, Variant
from plfl.study import Cell, Study


class Reporting(Algorithm):
    """How results are reported. Its `name` is the kind of the examples that a task needs."""

    modules: ClassVar[Mapping[str, Sequence[str]]]
    """The modules that run for `baselines`, `collect`, `figures`, `page` and `overview`, so that a
    change in one runs these again. That of `collect` has `write_tables`, that of `figures`
    `render_all`, and that of `page` `write`. The first one of `overview` has `compared`, the last
    one `illustrate` and `write`."""
    further: ClassVar[Mapping[str, str]] = {}
    """Tables that `compared` makes besides `best.csv` and `comparisons.csv`, by a short name."""
    drawn_files: ClassVar[Sequence[str]] = ("overview",)
    """Stems of the figures of a study with further axes."""

    def divided(self, study: Study) -> Any:
        """Settings that determine the baselines, in addition to the examples and the task."""
        return None

    def baselines(
        self, study: Study, state: str, dataset: Path
    ) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, Arrays]:
        """The scores of the baselines of a state, their forecasts of a part of the test set to
        show, their errors by day, and what is saved of them (`plfl.baselines.storage.pack`), given
        the file `dataset` of its examples.
        """
        raise NotImplementedError

    def collect(self, study: Study, files: JobFiles, folder: Path) -> pd.DataFrame:
        """Write the tables of a study into `folder`, except the summary, which is returned."""
        summary: pd.DataFrame = self._module("collect").write_tables(study, files, folder)
        return summary

    def compared(self, study: Study, variants: list[Variant]) -> dict[str, pd.DataFrame]:
        """The tables that compare variants, by the names of their files."""
        tables: dict[str, pd.DataFrame] = self._module("overview", 0).compared(study, variants)
        return tables

    def variants(self, study: Study, folder: Path) -> list[Variant]:
        """The variants of a study with their tables in its results folder."""
        from plfl.results.variants import Variant

        return Variant.all_of(study, folder)

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
        drawn_names: Iterator[str] = self._module("figures").render_all(results, figures)
        return drawn_names

    def write(self, results: Path, figures: Path, page: Path) -> None:
        """Write the page of a results folder, whose figures are drawn, to the file `page`;
        PlflError if that fails."""
        self._module("page").write(results, figures, page)

    def write_overview(self, results: Path, figures: Path, page: Path) -> None:
        """Draw the figures of a study with further axes, and write its page to the file `page`;
        PlflError if a file cannot be written."""
        overview = self._module("overview")
        overview.illustrate(results, figures)
        overview.write(results, figures, page)

    def _module(self, part: str, number: int = -1) -> Any:
        return importlib.import_module(self.modules[part][number])


available = partial(registry.available, __name__, Reporting)


def reporting_of(study: Study) -> Reporting:
    """The reporting of a study."""
    return registry.find(__name__, Reporting, study.task.examples)()


def figures_of(results: Path, study: Study) -> Path:
    """The folder of the figures of a study whose results folder is `results`."""
    return results.resolve().parents[len(Path(study.name).parts)] / study.paths.figures


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
