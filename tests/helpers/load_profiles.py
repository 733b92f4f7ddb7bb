"""Files in the form of NREL's End-Use Load Profiles, and how they are to be read."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import DataError
from plfl.config.sections import Data
from plfl.data import meters

LOAD = "out.electricity.total.energy_consumption"
"""The column of the load, in kWh."""


def check(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Read all files of a folder as meters: loads and stamps come out as they are, in EST."""
    files = {path.stem: path for path in sorted(folder.glob("*.parquet"))}
    columns = {"timestamp": "timestamp", "load": LOAD}
    study = Data.model_validate(
        {
            "source": "meters",
            "states": ["A"],
            "clients": len(files),
            "meters": {"folder": folder, "columns": columns, "timezone": "Etc/GMT+5"},
        }
    )
    tables = meters.read(study, "A")
    assert list(tables) == list(files)
    for name, table in tables.items():
        file = pd.read_parquet(files[name])
        np.testing.assert_array_equal(table["load"], file[LOAD])
        np.testing.assert_array_equal(table.index, file["timestamp"])
        assert table.attrs == {"gaps": 0, "filled": 0, "missing": 0}
    assert not caplog.records

    eastern = study.meters.model_copy(update={"timezone": "America/New_York"})
    with pytest.raises(DataError, match=r"does not exist in America.New_York.*Etc/GMT\+5"):
        meters.read_file(folder / "460.parquet", eastern)
