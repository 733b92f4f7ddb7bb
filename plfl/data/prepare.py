"""The dataset of a study's federation, from its source to its windows or images, in one call."""

from pathlib import Path

from plfl.config.study import Study
from plfl.data import source, windows
from plfl.data.dataset import Dataset
from plfl.data.examples import Examples
from plfl.data.images.dataset import ImageDataset
from plfl.data.images.pool import ImagePool
from plfl.errors import ConfigError


def load_dataset(study: Study, state: str) -> Dataset:
    """Fetch, check, split and scale the series of one federation.

    Files that are already in `data.folder` are not downloaded or generated again.

    Args:
        study: names the source, the clients, the inputs and the windows.
        state: the federation, one of `study.data.states`.

    Returns:
        The clients' series as scaled features, indexed by windows. Loads are in kWh per interval.

    Raises:
        ConfigError: the source has images.
        DataError: a file is missing, unreachable or damaged, or a series is too short or contains
            values that cannot be used; the message names the file and the remedy.
        PlflError: the disk is full or `data.folder` cannot be written.
    """
    if study.data.is_images:
        problem = f"data.source: {study.data.source} has labelled images, but this needs loads"
        raise ConfigError(study.name, [f"{problem}; use a study of loads"])
    source.fetch(study.data, state)
    return windows.build(source.load(study.data, state), study.windows)


def load_examples(study: Study, state: str) -> Examples:
    """What `load_dataset` loads or, where the source has images, these, divided among the clients.

    Raises:
        DataError: see there, or the images cannot be divided.
        PlflError: see there.
    """
    if study.data.is_images:
        source.fetch(study.data, state)
        return _dealt(study, source.images(study.data))
    return load_dataset(study, state)


def save_dataset(study: Study, state: str, path: Path) -> None:
    """Write what `load_file` reads, from files that `source.fetch` has brought to this machine.

    Raises:
        DataError: a file is missing or damaged, or a series cannot be used.
        PlflError: the disk is full or `path` cannot be written.
    """
    if study.data.is_images:
        source.images(study.data).save(path)
    else:
        windows.build(source.load(study.data, state), study.windows).save(path)


def load_file(study: Study, path: Path) -> Examples:
    """Read what `save_dataset` wrote; images are divided as the study says.

    Raises:
        DataError: the file is missing or damaged, or the images cannot be divided.
    """
    if study.data.is_images:
        return _dealt(study, ImagePool.load_file(path))
    return Dataset.load_file(path)


def _dealt(study: Study, pool: ImagePool) -> ImageDataset:
    return ImageDataset.of(pool, study.data.skew, study.data.clients, study.grid.seeds[0])
