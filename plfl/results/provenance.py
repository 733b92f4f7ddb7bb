"""Which study a table of `plfl audit` or `plfl scarcity` belongs to."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd

from plfl.base.errors import ResultsError
from plfl.base.files import digest, sha256
from plfl.config.study import Study
from plfl.data.source import own_files
from plfl.results.tables import Tables


def readings(study: Study) -> list[str]:
    """SHA-256 of the user's own files that the clients are read from, if there are any.

    Raises:
        DataError: a state has too few files.
    """
    files = (file for state in study.data.states for file in own_files(study.data, state))
    return [sha256(file) for file in files]


def fingerprint(studies: Iterable[Study], readings: Sequence[str]) -> str:
    """Digest of everything that determines the results of some studies with these `readings`."""
    return digest([study.description() | {"tracking": None} for study in studies], readings)


def own_table(
    tables: Tables, name: str, mark: Callable[[Study, Sequence[str]], str]
) -> pd.DataFrame | None:
    """A table that a separate command made; None if it belongs to another study or version of it.

    Args:
        tables: the results folder.
        name: name of the file.
        mark: computes what the column `study` must hold, from the study and its `readings`.

    Raises:
        ResultsError: the table cannot be read.
    """
    path = Path(tables.folder) / name
    # Keep strings: a state may be called "NA", a client "01", and a digest may look like a number.
    kinds = dict.fromkeys(("state", "client", "study"), str)
    try:
        table = pd.read_csv(path, dtype=kinds, keep_default_na=False, na_values=[""])
    except (ValueError, OSError) as error:
        raise ResultsError(
            f"{path}: cannot be read ({error}); run plfl {path.stem} again"
        ) from None
    expected = mark(tables.study, _recorded(tables))
    return table if set(table.get("study", ())) == {expected} else None


def _recorded(tables: Tables) -> list[str]:
    """The `readings` at the time when the study was run."""
    if tables.study.data.source != "meters":
        return []
    sources = tables.about.get("sources", {}).values()
    return [sha for receipt in sources for sha in receipt["files"].values()]
