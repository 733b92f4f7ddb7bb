"""Made-up series, with which the speed of a study is measured before it has data."""

import numpy as np

from plfl.base.errors import ConfigError
from plfl.data.dataset import YEAR, Dataset
from plfl.study import Study


def noise(study: Study, clients: int) -> Dataset:
    """A year of random numbers for each client, or ten windows if that is longer.

    Raises:
        ConfigError: a window is longer than a year.
    """
    windows, data = study.windows, study.data
    random, year = np.random.default_rng(0), YEAR // data.interval
    window = windows.look_back + windows.farthest
    if window > year:
        problem = f"windows: one window needs {window:,} rows, but a year of data has only {year:,}"
        raise ConfigError(study.name, [f"{problem}; shorten it, for example windows.look_back"])
    each, columns = max(year, 10 * window), data.inputs
    rows, test = clients * each, int(windows.split[0] * each)
    firsts = each * np.arange(clients)
    targets = rows if windows.horizons == 1 else (rows, windows.horizons)
    return Dataset(
        clients=np.array([f"noise {i}" for i in range(clients)]),
        columns=np.array(columns),
        features=random.random((rows, len(columns)), dtype=np.float32),
        context=random.random((rows, windows.context_width), dtype=np.float32),
        targets=random.random(targets, dtype=np.float32),
        load=np.ones(rows),
        stamps=np.arange(rows).astype("datetime64[s]"),
        bounds=firsts[:, None] + np.array([0, test, test, each]),
        load_offset=np.zeros(clients),
        load_scale=np.ones(clients),
        relative=windows.is_relative,
        look_back=windows.look_back,
        look_ahead=windows.look_ahead,
        horizons=windows.horizons,
        interval=data.interval,
    )
