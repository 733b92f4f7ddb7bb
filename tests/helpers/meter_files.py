"""Files of meters, read one by one."""

from pathlib import Path

import pandas as pd

from plfl.base.errors import DataError
from plfl.config.meters import Meters
from plfl.data import meters


def read_meter(path: Path, keys: Meters, client: str | None = None) -> pd.DataFrame:
    """The series of one meter, by default named like its file; `DataError` lists its problems."""
    client = client or meters.client_name(path)
    tables, problems = meters.read_files([path], keys, client)
    if problems:
        raise DataError(*problems)
    return tables[client]
