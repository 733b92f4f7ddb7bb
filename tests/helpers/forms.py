"""The form of NREL's files, so that tests of the sample data do not need the files themselves.

`python -m tests.helpers.forms FOLDER` writes `nrel_forms.json` again from a folder with the files;
the campaign `reference-data` compares the two.
"""

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

WRITTEN = Path(__file__).with_name("nrel_forms.json")
FORMS: dict[str, Any] = json.loads(WRITTEN.read_text()) if WRITTEN.exists() else {}
"""Columns, types and stamps of a building's series and of a county's weather."""
ELECTRICITY = re.compile(r"timestamp|bldg_id|out\.electricity\..*\.energy_consumption")


def series(path: Path) -> dict[str, Any]:
    """Index, electricity columns in their order, types and stamps of a building's file."""
    schema = pq.read_schema(path)
    table = pd.read_parquet(path, columns=["timestamp"])
    return {
        "index": [table.index.name, str(table.index.dtype)],
        "columns": {
            name: str(schema.field(name).type)
            for name in schema.names
            if ELECTRICITY.fullmatch(name)
        },
        "stamps": _stamps(table["timestamp"].astype(str)),
    }


def weather(path: Path) -> dict[str, Any]:
    """Columns, types and stamps of a county's file."""
    table = pd.read_csv(path)
    return {
        "columns": {name: str(dtype) for name, dtype in table.dtypes.items()},
        "stamps": _stamps(table["date_time"]),
    }


def of(folder: Path) -> dict[str, Any]:
    """The forms of the files in a folder of reference data."""
    return {
        "series": series(folder / "comstock_ga" / "98542-10.parquet"),
        "weather": weather(folder / "resstock_al" / "G0100310_2018.csv"),
    }


def _stamps(texts: pd.Series) -> dict[str, Any]:
    joined = "\n".join(texts)
    return {
        "first": texts.iloc[0],
        "last": texts.iloc[-1],
        "count": len(texts),
        "sha256": hashlib.sha256(joined.encode()).hexdigest(),
    }


if __name__ == "__main__":
    WRITTEN.write_text(json.dumps(of(Path(sys.argv[1])), indent=2) + "\n")
