"""Finds the files of meters in a folder, and raw exports."""

import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from plfl.base.errors import DataError, Problem, data_error
from plfl.base.keys import Key
from plfl.base.text import count_in_words
from plfl.config.data import Data
from plfl.data.meters.dates import DATE_IN_NAME
from plfl.data.meters.file_contents import SUFFIXES, reason_unreadable
from plfl.data.meters.meter_selection import is_chosen

log = logging.getLogger(__name__)

_ENDINGS = "|".join(map(re.escape, sorted(SUFFIXES, key=len, reverse=True)))
_ENDING = re.compile(rf"({_ENDINGS})$", re.IGNORECASE)
"""The ending of the name of a file of meters."""


def is_series(path: Path) -> bool:
    """Whether a file in a folder is one of meters, by its name. Hidden files are not, nor those of
    Excel beside a workbook that is open (`~$`), nor text files and logs (`.txt`, `.log`), which may
    be notes about the meters."""
    name = path.name.lower()
    is_note = name.endswith((".txt", ".log"))
    return name.endswith(SUFFIXES) and not is_note and not name.startswith((".", "~$"))


def files_of_state(data: Data, state: str) -> list[Path]:
    """The files with the meters of a state: its raw exports, or those of `_files_in_folder`."""
    if not data.meters.exports:
        return _files_in_folder(data, state)
    try:
        return raw_files(data.meters.exports_of(state))
    except DataError as error:
        remedy = f"correct the paths in {Key('data.meters.exports')}"
        raise DataError(*error.problems, remedy) from None


def _files_in_folder(data: Data, state: str) -> list[Path]:
    """The files of a state's clients in `data.meters.folder`: the first `data.clients` by name.

    They are in the sub-folder with the name of the state. If the study has only one state and
    there is no such sub-folder, they are in the folder itself. Too few files, and two of one
    client, are refused.
    """
    folder = data.meters.folder / state
    if len(data.states) == 1 and not folder.is_dir():
        folder = data.meters.folder
    if not folder.is_dir():
        raise data_error(
            folder,
            "the folder does not exist",
            f"put the files of {state} there, one per meter, or set {Key('data.meters.folder')}",
        )
    files = sorted(filter(is_series, folder.iterdir()))
    if not files:
        raise data_error(folder, "holds no meter files", f"they must end in {', '.join(SUFFIXES)}")
    keys = data.meters.of_state(state)
    files = [path for path in files if is_chosen(client_name(path), keys)]
    client_count = data.clients_of(state)
    if len(files) < client_count:
        raise data_error(
            folder,
            f"holds {len(files)} of {client_count} meter files (data.clients)",
            f"add files or lower data.clients to {len(files)}",
        )
    chosen_files = files[:client_count]
    file_of: dict[str, Path] = {}
    for path in chosen_files:
        first = file_of.setdefault(name := client_name(path), path)
        if first != path:
            raise data_error(path, f"{first.name} is also meter {name!r}", "rename or remove one")
    return raw_files(chosen_files)


def raw_files(paths: Iterable[Path], with_subfolders: bool = False) -> list[Path]:
    """The given files, and the files in the given folders, or in the only sub-folder of one without
    files; with those in all sub-folders if so asked; the logs of a folder without others. A warning
    names sub-folders that are not read. DataError lists files that do not exist, are not regular or
    have a name that cannot be used, and folders without files."""
    files: list[Path] = []
    problems: list[Problem] = []
    for path in paths:
        path_files = [path]
        if path.is_dir():
            path_files = _series_in(path, with_subfolders)
            folders = [] if with_subfolders else _folders_of_series(path)
            if len(folders) == 1 and not path_files:
                path_files = _series_in(folders[0], with_subfolders)
            elif folders:
                _name_unread(path, folders)
            path_files = path_files or sorted(path.glob("[!.]*.[Ll][Oo][Gg]"))
            if not path_files:
                text = f"holds no file that ends in {', '.join(SUFFIXES)}"
                remedy = f"name its sub-folders: {path / '*'}" if folders else ""
                problems.append(Problem(path, text, remedy))
        for file in path_files:
            problem = reason_unreadable(file)
            if not problem and {"{", "}"} & {*str(file)}:
                problem = "has braces in its path, which the workflow would fill in; rename it"
            if problem:
                printable_path = str(file).encode("utf-8", "backslashreplace").decode()
                problems.append(Problem(printable_path, problem, meter=client_name(file)))
            else:
                files.append(file)
    if problems:
        raise DataError(*problems)
    return list(dict.fromkeys(files))


def _series_in(folder: Path, with_subfolders: bool) -> list[Path]:
    """The files of meters in a folder, before those in its sub-folders, which are hidden if their
    names begin with a dot."""
    entries = sorted(folder.iterdir())
    files = [path for path in entries if is_series(path)]
    for path in entries if with_subfolders else ():
        if path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
            files += _series_in(path, with_subfolders)
    return files


def _folders_of_series(folder: Path) -> list[Path]:
    """The sub-folders with files of meters."""
    return [
        path
        for path in sorted(folder.iterdir())
        if path.is_dir() and not path.name.startswith(".") and any(map(is_series, path.iterdir()))
    ]


def _name_unread(folder: Path, folders: Sequence[Path]) -> None:
    """Warn of sub-folders with files of meters, which are not read."""
    names = [path.name for path in folders]
    first_names = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    log.warning(
        "%s: %s (%s) not read; name a sub-folder, too, if its readings belong to these",
        *(folder, count_in_words(len(names), "sub-folder"), first_names),
    )


def client_name(path: Path) -> str:
    """The name of a meter with a file of its own: the file's name without its ending."""
    return _ENDING.sub("", path.name)


def names_without_dates(paths: Iterable[Path]) -> dict[Path, str]:
    """The names of meters with files of its own for each month or day, without these dates, by
    file; that of its folder if a name is a date only. Empty unless all files have names with dates.
    """
    names = {path: DATE_IN_NAME.sub("", client_name(path)).strip(" _-.") for path in paths}
    is_dated = all(name != client_name(path) for path, name in names.items())
    return {path: name or path.absolute().parent.name for path, name in names.items() if is_dated}


def client_names(meters: Iterable[str]) -> dict[str, str]:
    """The name of the client of each meter: that of the meter, without characters that files cannot
    have in their names. DataError if two meters would have the same client."""
    clients: dict[str, str] = {}
    for meter in dict.fromkeys(meters):
        client = re.sub(r"[^\w .()+=@-]", "-", meter).strip(" .") or "meter"
        if client in clients:
            raise data_error(
                "",
                f"meters {clients[client]!r} and {meter!r} would both be named {client!r}",
                f"rename one of them, or use {Key('data.meters.leave_out')}",
            )
        clients[client] = meter
    return {meter: client for client, meter in clients.items()}
