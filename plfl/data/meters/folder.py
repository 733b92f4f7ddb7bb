"""Which files of a folder are meters, and what else is known of them."""

import re
from pathlib import Path

import pandas as pd

from plfl.config.sections import Data, Meters
from plfl.data import readers
from plfl.errors import DataError

SUFFIXES = (".csv", ".csv.gz", ".parquet")
"""Endings of the names of meter files."""


def is_series(path: Path) -> bool:
    """Whether a file has the name of a meter file. Hidden files are ignored."""
    endings = (*SUFFIXES, *readers.endings())
    return path.name.lower().endswith(endings) and not path.name.startswith(".")


def files(data: Data, state: str) -> list[Path]:
    """The files of a state's clients: the first `data.clients` by name.

    They are in the sub-folder with the name of the state. If the study has only one state and
    there is no such sub-folder, they are in the folder itself.

    Raises:
        DataError: the folder does not exist, there are too few files, two files have the same
            client, or a link points outside the folder.
    """
    folder = data.meters.folder / state
    if len(data.states) == 1 and not folder.is_dir():
        folder = data.meters.folder
    if not folder.is_dir():
        raise DataError(
            f"{folder}: the folder does not exist; put the files of {state} there, one per meter, "
            "or set data.meters.folder"
        )
    about = data.meters.about and data.meters.about.resolve()
    found = sorted(path for path in folder.iterdir() if is_series(path) and path.resolve() != about)
    if not found:
        known = ", ".join([*SUFFIXES, *readers.endings()])
        raise DataError(f"{folder}: holds no meter files; they must end in {known}")
    if len(found) < data.clients:
        raise DataError(
            f"{folder}: holds {len(found)} of {data.clients} meter files (data.clients); add files "
            f"or lower data.clients to {len(found)}"
        )
    chosen = found[: data.clients]
    home = data.meters.folder.resolve()
    for path in chosen:
        if not path.resolve().is_relative_to(home):
            raise DataError(
                f"{path}: is a link to a file outside {data.meters.folder}; copy the file there"
            )
    of: dict[str, Path] = {}
    for path in chosen:
        first = of.setdefault(name := client_name(path), path)
        if first != path:
            raise DataError(f"{path}: {first.name} is also meter {name!r}; rename or remove one")
    return chosen


def client_name(path: Path) -> str:
    """The client of a file: the file name without its ending (`SUFFIXES`, or that of a reader)."""
    endings = "|".join(map(re.escape, (*SUFFIXES, *readers.endings())))
    return re.sub(rf"({endings})$", "", path.name, flags=re.IGNORECASE)


def known(meters: Meters) -> dict[str, dict[str, str]]:
    """Further information about each client, by column, from the file `meters.about`.

    Empty cells are left out.

    Raises:
        DataError: the file is missing or unreadable, has no column `client`, or a duplicate client.
    """
    path = meters.about
    if path is None:
        return {}
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise DataError(
            f"{path}: the file does not exist; fix or remove data.meters.about"
        ) from None
    except (ValueError, OSError) as error:
        raise DataError(f"{path}: cannot be read ({error}); save it as CSV with a header") from None
    if "client" not in table:
        raise DataError(f"{path}: has no column 'client'; add it, with the name of each meter")
    if (twice := table["client"].duplicated()).any():
        line = int(twice.to_numpy().argmax()) + 2
        raise DataError(
            f"{path}, line {line}: duplicate client {table['client'][line - 2]!r}; keep one row"
        )
    rows = table.set_index("client").to_dict("index")
    return {
        str(client): {str(name): word for name, word in row.items() if word}
        for client, row in rows.items()
    }
