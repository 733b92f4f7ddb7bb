"""A finished study as a folder or an archive that others can cite, check and repeat.

It is an RO-Crate 1.1 (https://w3id.org/ro/crate/1.1): the files of the study, and one file of
metadata that says what each of them is, who made it and under which licence. A second file,
`croissant.json`, describes tables and data for those who load them (https://mlcommons.org/croissant).
"""

import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from plfl.base.errors import PlflError
from plfl.base.files import atomic
from plfl.publish.crate import contents, croissant, metadata
from plfl.publish.crate.citation import Citation

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of all files in an archive, so that the same crate has the same bytes."""


def publish(
    results: Path,
    to: Path,
    citation: Citation,
    published: date,
    models: bool = False,
    data: bool = False,
    outside: Iterable[Path] = (),
) -> contents.Published:
    """Write the crate of a finished study.

    Readings of own meters are left out unless `data` is set. The table of forecasts, which also
    contains loads, is then empty, and page and figures are made again without it.

    Args:
        results: the results folder of the study.
        to: a new folder; or a new file, if the name ends in `.zip`.
        citation: authors and licence.
        published: the date of publication.
        models: whether to include the models.
        data: whether to include the files that the study read.
        outside: further folders whose files may be included, in addition to the results, the
            figures and the current folder. Any other file is refused, also as the target of a link.

    Returns:
        A description of the published crate.

    Raises:
        PlflError: `to` exists or cannot be written.
        ResultsError: the study is not finished, or a file is damaged or lies outside.
        DataError: a file that the study read is missing or has changed, with `data`.
    """
    if to.exists() or to.is_symlink():
        raise PlflError(f"{to}: exists already; remove it first, or name another folder or file")
    with _written(to) as folder:
        study = contents.gather(results, folder, models, data, outside)
        croissant.write(folder, study, citation, published)
        sums = "".join(f"{e.sha256}  {e.name}\n" for e in contents.entries(folder, study))
        (folder / contents.SUMS).write_text(sums, encoding="utf-8")
        metadata.write(folder, study, citation, published)
    return study


@contextmanager
def _written(to: Path) -> Iterator[Path]:
    """A temporary folder beside `to` that becomes `to` when the block succeeds."""
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.mkdtemp(prefix=".tmp-", dir=to.parent)
    except OSError as error:
        raise PlflError(f"{to}: cannot be written ({error.strerror}); name another one") from None
    try:
        folder = Path(temporary, to.stem)
        folder.mkdir()
        yield folder
        if to.suffix == ".zip":
            with atomic(to) as file:
                _archive(folder, file)
        else:
            folder.rename(to)
    except OSError as error:
        raise PlflError(f"{to}: cannot be written ({error}); check the disk") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _archive(folder: Path, file: Path) -> None:
    """All files of a folder as a zip file, whose content is at its root."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in contents.files(folder):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            with path.open("rb") as source, archive.open(entry, "w") as target:
                shutil.copyfileobj(source, target)


__all__ = ["Citation", "publish"]
