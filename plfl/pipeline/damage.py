"""Damaged files of a study: removed before Snakemake plans its jobs, so that it makes them again.

Snakemake looks at times only: a file that was cut or changed counts as made. Finished cells of the
same training are not trained again, because `plfl.experiments.cell_cache` has them, often
as hard links: a file that was changed in place, and not replaced, is trained again.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from plfl.base.errors import PlflError
from plfl.base.text import list_names
from plfl.data.sources import read_receipt
from plfl.pipeline.jobs import lock_results
from plfl.public.models import read_file
from plfl.results.checksums import CHECKSUMS_FILE, changed_tables, fault_of
from plfl.study import Study


def remove_damaged(study: Study) -> str:
    """Claim the results of a study and remove its damaged files, with the `SHA256SUMS` beside a
    damaged table; return a message about them, empty without any. While another process runs the
    study, nothing happens."""
    if not study.paths.results.is_dir():
        return ""
    try:
        lock_results(study)
    except PlflError:
        return ""
    faults = dict(_faults(study))
    for path in faults:
        path.unlink(missing_ok=True)
    messages = [f"{path}: {fault}" for path, fault in faults.items() if path.name != CHECKSUMS_FILE]
    return f"{list_names(messages, 3)}: removed, to be made again" if messages else ""


def _faults(study: Study) -> Iterator[tuple[Path, str]]:
    """The damaged files of a study, and what is wrong with each."""
    inputs = {study.paths.results / folder for folder in study.plan.data_labels.values()}
    results = {study.paths.results, *(variant.paths.results for variant in study.variants.values())}
    tables = [path for folder in sorted(inputs) for path in folder.glob("baselines/*.parquet")]
    tables += [path for folder in sorted(results) for path in folder.glob("cells/*.parquet")]
    for path in tables:
        if fault := fault_of(path):
            yield path, fault
    for folder in sorted(inputs):
        for path in folder.glob("data/*.npz"):
            try:
                ZipFile(path).close()
            except (OSError, BadZipFile) as error:
                yield path, f"it is damaged ({error})"
    readers: dict[Path, Callable[[Path], object]] = {
        path: read_receipt for folder in sorted(inputs) for path in folder.glob("data/*.files.json")
    }
    if kind := study.public.kind:
        readers |= {path: partial(read_file, kind) for path in study.public_files if path.exists()}
    for path, read in readers.items():
        try:
            read(path)
        except PlflError:
            yield path, "it is damaged"
    for folder in sorted(results):
        for path in changed_tables(folder):
            yield path, "it has changed since it was written"
            yield folder / CHECKSUMS_FILE, ""
        for path in changed_tables(folder / "models"):  # the models are made again with them
            yield path, "it has changed since it was written"
            yield folder / "models" / "index.csv", "it belongs to a table that has changed"
            yield folder / "models" / CHECKSUMS_FILE, ""
