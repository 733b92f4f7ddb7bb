"""When does sharing pay? The study's splits against the weeks of training history per client.

Every history ends where the validation part begins and the test part is always the same, so the
only thing that changes is how much a client has to learn from. All models take as many steps at
every history, and the last round is scored: a meter with a week of history has no validation part
that could stop it earlier.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from plfl.figures.style import save, style
from plfl.results.marks import fingerprint, readings
from plfl.results.records import write_csv
from plfl.scarcity.comparison import as_text, crossings, label, summarise
from plfl.scarcity.drawing import CAPTION, draw
from plfl.scarcity.training import WEEKS, measure
from plfl.study import Study

__all__ = [
    "CAPTION",
    "WEEKS",
    "as_text",
    "crossings",
    "draw",
    "illustrate",
    "label",
    "mark",
    "measure",
    "summarise",
    "write",
]


def mark(study: Study, readings: Sequence[str]) -> str:
    """Digest of what `measure` trains for a study, which its table carries."""
    return fingerprint([study], readings)


def write(study: Study, table: pd.DataFrame) -> list[Path]:
    """Write scarcity.csv beside the study's results, and the figure; return the paths.

    Raises:
        DataError: see `plfl.results.marks.readings`.
        PlflError: the disk is full or a folder cannot be written.
    """
    path = study.results / "scarcity.csv"
    write_csv(table.assign(data=study.data.source, study=mark(study, readings(study))), path)
    return [path, *illustrate(study, table, study.figures)]


def illustrate(study: Study, table: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw the figure into `folder`; return the paths.

    Raises:
        PlflError: the disk is full or the folder cannot be written.
    """
    with style():
        figure = draw(study, table)
    return save(figure, folder / "scarcity")
