"""The dataset of a study's federation, from its source to its windows, in one call."""

from plfl.base.errors import ConfigError
from plfl.data import sources
from plfl.data.dataset import Dataset
from plfl.study import Study


def load_dataset(study: Study, state: str) -> Dataset:
    """Fetch, check, split and scale the series of one federation.

    Files that are already in `data.folder` are not downloaded or generated again.

    Args:
        study: names the source, the clients, the inputs and the windows.
        state: the federation, one of `study.data.states`.

    Returns:
        The clients' series as scaled features, indexed by windows. Loads are in kWh per interval.

    Raises:
        ConfigError: the source has no loads.
        DataError: a file is missing, unreachable or damaged, or a series is too short or contains
            values that cannot be used; the message names the file and the remedy.
        PlflError: the disk is full or `data.folder` cannot be written.
    """
    check_loads(study)
    found = sources.of(study.data).examples_of(study, state)
    assert isinstance(found, Dataset)
    return found


def check_loads(study: Study) -> None:
    """Check that a study is about loads.

    Raises:
        ConfigError: its source has other examples.
    """
    if (found := study.data.rules.examples) != "loads":
        problem = f"data.source: {study.data.source} has {found}, but this needs loads"
        raise ConfigError(study.name, [f"{problem}; use a study of loads"])
