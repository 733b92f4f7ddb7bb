"""Names of the files of a study, with the wildcards of the workflow."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from plfl.experiments.scoring import scoring_of
from plfl.report import reporting
from plfl.study import Study
from plfl.study.plan import CELL_AXES

Wildcards: TypeAlias = Mapping[str, str]
"""The values of the wildcards of a job, by name."""
CELL_NAME = "-".join(f"{{{axis}}}" for axis in CELL_AXES)
"""The name of a cell, in wildcards."""


class _WildcardValues(dict[str, object]):
    """Values of wildcards. A wildcard without one stays."""

    def __missing__(self, wildcard: str) -> str:
        return f"{{{wildcard}}}"


def fill_wildcards(pattern: str, **values: object) -> str:
    """The name of a file, given values of the wildcards in its pattern; the others stay."""
    return pattern.format_map(_WildcardValues(values))


@dataclass(frozen=True)
class FilePatterns:
    """Names of the files of a study, with the wildcards of the workflow: `{state}`, those of a cell
    and, if the study has further axes (docs/axes.md), `{variant}`. Variants that differ in no axis
    of the data share their datasets, which have the wildcard `{inputs}` instead."""

    study: Study

    @property
    def results(self) -> str:
        """The folder of the results of a variant, or of a study without variants."""
        return "/".join([str(self.study.paths.results), *self._variant])

    @property
    def figures(self) -> str:
        """The folder of the figures of a variant, or of a study without variants."""
        return "/".join([str(self.study.paths.figures), *self._variant])

    @property
    def data_folder(self) -> str:
        """The folder of datasets and baselines."""
        folder = ["{inputs}"] if any(self.study.plan.data_labels.values()) else []
        return "/".join([str(self.study.paths.results), *folder])

    @property
    def constraints(self) -> dict[str, str]:
        """The regular expression of each wildcard."""
        word, lower, number = "[A-Za-z0-9_]+", "[a-z0-9_]+", "[0-9]+"
        return {
            **dict(zip(CELL_AXES, (word, word, lower, lower, lower, number), strict=True)),
            "public": "|".join(re.escape(path.stem) for path in self.study.public_files),
            "variant": "|".join(map(re.escape, self.study.variants)),
            "inputs": "|".join(map(re.escape, set(self.study.plan.data_labels.values()))),
        }

    @property
    def public_files(self) -> list[str]:
        """The public models that the study makes, which all variants share."""
        return [*map(str, self.study.public_files)]

    def figure_files(self, ending: str) -> list[str]:
        """The figures of a variant, or of a study without variants, in the format of an ending."""
        stems = reporting.reporting_of(self.study).stems(self.study)
        return [f"{self.figures}/{stem}.{ending}" for stem in stems]

    @property
    def overview(self) -> list[str]:
        """The figures and special tables of a study with further axes."""
        stems = reporting.reporting_of(self.study).drawn_files
        figures = [f"{self.study.paths.figures}/{stem}.png" for stem in stems]
        tables = scoring_of(self.study).further.values()
        return figures + [f"{self.study.paths.results}/{name}" for name in tables]

    def cell_files(self, pattern: str) -> list[str]:
        """This file of every cell, in the order of the study."""
        cells = next(iter(self.study.variants.values())).cells  # all variants have the same
        return [fill_wildcards(pattern, **vars(cell)) for cell in cells]

    def state_files(self, pattern: str) -> Callable[[Wildcards], list[str]]:
        """A function of a job's wildcards: the names of a file of the datasets for each state that
        the job reads, which is that of its wildcards or else all."""

        def names(wildcards: Wildcards) -> list[str]:
            inputs = self.study.plan.data_labels[wildcards.get("variant", "")]
            return [
                fill_wildcards(pattern, inputs=inputs, state=state)
                for state in self.study.data.states
                if state == wildcards.get("state", state)
            ]

        return names

    def variant_files(self, patterns: Iterable[str]) -> list[str]:
        """These files of every variant."""
        return [
            fill_wildcards(pattern, variant=variant)
            for pattern in patterns
            for variant in (self.study.variants if self._variant else [""])
        ]

    def latest_files(self, patterns: Iterable[str]) -> list[str]:
        """These files of the variant whose models forecast, in a study with further axes; none if
        there is no such variant."""
        if not (latest := self.study.plan.latest_variant):
            return []
        return [fill_wildcards(pattern, variant=latest) for pattern in patterns]

    @property
    def _variant(self) -> list[str]:
        return ["{variant}"] if self.study.plan.axes else []
