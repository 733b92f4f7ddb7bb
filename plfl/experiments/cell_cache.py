"""Cells that were trained before: a cell whose definition has not changed is never trained again.

Snakemake removes the files of a whole job before it runs the job anew, for instance because the
grid has one more optimiser. Copies, named by a digest of everything that determines their content,
are kept beside them.
"""

import logging
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from plfl.base.errors import ResultsError
from plfl.base.files import atomic
from plfl.results.checksums import fault_of
from plfl.results.records import (
    CellResult,
    Models,
    RecordFiles,
    read_arrays,
    read_models,
    write_models,
)
from plfl.results.totals import Totals

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CellCache:
    """A folder of finished cells. Each is named by a digest of everything that determines its
    content: name and settings, dataset, code and engine."""

    folder: Path

    def restore(self, digest: str, files: RecordFiles) -> bool:
        """Copy the files of a cell to where they are wanted; False if it has not been trained, or
        if a file is damaged."""
        files_of_digest = self._files(digest)
        if not all(path.is_file() for path in files_of_digest):
            return False
        for path in files_of_digest:
            if fault := fault_of(path):
                log.warning("%s: %s; the cell is trained again", path, fault)
                return False
        for source, target in zip(files_of_digest, files, strict=True):
            _link(source, target)
        return True

    def store(self, digest: str, result: CellResult, files: RecordFiles) -> None:
        """Write the files of a finished cell, both here and to where they are wanted."""
        files_of_digest = self._files(digest)
        result.write(files_of_digest, digest)
        for source, target in zip(files_of_digest, files, strict=True):
            _link(source, target)

    def put_models(self, digest: str, models: Models, totals: Totals | None = None) -> None:
        """Write the models of a finished cell, and what their forecasts come to."""
        arrays: dict[str, NDArray[Any]] = dict(models.items())
        if totals is not None:
            arrays.update(totals.arrays())
        write_models(self._models(digest), arrays)

    def models(self, digest: str) -> Models | None:
        """The models of a cell; None if they were not kept, or are damaged."""
        with suppress(ResultsError):
            return read_models(self._models(digest))[0]
        return None

    def totals(self, digest: str) -> Totals | None:
        """What the forecasts of the models of a cell come to; None as in `models`."""
        with suppress(ResultsError):
            return Totals.from_arrays(read_arrays(self._models(digest))[0])
        return None

    def _models(self, digest: str) -> Path:
        return self.folder / f"{digest}.safetensors"

    def _files(self, digest: str) -> RecordFiles:
        return RecordFiles.in_folder(self.folder, digest)


def _link(source: Path, target: Path) -> None:
    with atomic(target) as temporary:
        temporary.unlink()
        with suppress(OSError):
            os.link(source, temporary)
            return
        shutil.copyfile(source, temporary)
