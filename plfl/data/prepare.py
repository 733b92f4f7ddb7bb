"""The dataset of a study's federation, from its source to its windows, in one call."""

from plfl.config.study import Study
from plfl.data import source, windows
from plfl.data.windows import Dataset


def load_dataset(study: Study, state: str) -> Dataset:
    """Fetch, check, split and scale the series of one federation.

    Files that are already in `data.folder` are not downloaded or generated again.

    Args:
        study: names the source, the clients, the inputs and the windows.
        state: the federation, one of `study.data.states`.

    Returns:
        The clients' series as scaled features, indexed by windows. Loads are in kWh per interval.

    Raises:
        DataError: a file is missing, unreachable or damaged, or a series is too short or contains
            values that cannot be used; the message names the file and the remedy.
        PlflError: the disk is full or `data.folder` cannot be written.
    """
    source.fetch(study.data, state)
    return windows.build(source.load(study.data, state), study.windows)
