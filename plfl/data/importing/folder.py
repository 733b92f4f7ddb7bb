"""Writes the imported meters, a receipt and their configuration: all of them, or nothing."""

import json
import re
import shutil
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from plfl import __version__
from plfl.config.features import CALENDAR, FEATURES, UNITS
from plfl.data.importing.options import Options
from plfl.data.importing.series import Meter
from plfl.errors import DataError
from plfl.files import sha256

RECEIPT = "import.json"
"""What was imported from where, and what was done to it."""
BLOCK = "data.yaml"
"""The configuration of the folder, a part of a study."""


def file_names(names: list[str], ending: str) -> dict[str, str]:
    """A file name for each meter.

    Raises:
        DataError: two meters would have the same.
    """
    files: dict[str, str] = {}
    for name in names:
        stem = re.sub(r"[^\w .()+=@-]", "-", name).strip(" .") or "meter"
        if stem in files:
            raise DataError(
                f"meters {files[stem]!r} and {name!r} would both be written to {stem}{ending}; "
                "rename one of them, or use --leave-out"
            )
        files[stem] = name
    return {name: f"{stem}{ending}" for stem, name in files.items()}


def block(folder: Path, meters: dict[str, Meter], options: Options, zones: dict[str, str]) -> str:
    """The configuration of the imported folder, in YAML; `zones` are those of the clients."""
    first = next(iter(meters.values()))
    interval, inputs = first.minutes, list(map(str, first.inputs))
    usual = Counter(zones.values()).most_common(1)[0][0]
    others = {name: zone for name, zone in zones.items() if zone != usual}
    keys: dict[str, Any] = {
        "folder": folder.as_posix(),
        **({"columns": {name: name for name in ("timestamp", "load", *inputs)}} if inputs else {}),
        "timezone": usual,
        **({"timezones": others} if others else {}),
        "interval": interval,
        "stamp": "end",
        "unit": "kWh",
        "max_gap": options.max_gap,
    }
    if options.allow_negative:
        keys["allow_negative"] = True
    if named := {name: unit for name, unit in options.units if name not in UNITS}:
        keys["units"] = named
    data = {"source": "meters", "states": ["all"], "clients": len(meters)}
    if own := [name for name in inputs if name not in FEATURES]:
        known = [name for name in FEATURES if name in ("load", *CALENDAR, *inputs)]
        data["features"] = [*known, *own]
    data["meters"] = keys
    study = {"data": data, "windows": {"scaling": "per_client"}}
    return yaml.safe_dump(study, sort_keys=False, allow_unicode=True)


def check_free(folder: Path) -> None:
    """Refuse a folder that holds files.

    Raises:
        DataError: it does, or it is a file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists; remove it or choose another folder with --to")


def write(
    folder: Path,
    meters: dict[str, Meter],
    sources: list[dict[str, Any]],
    options: Options,
    zones: dict[str, str],
) -> str:
    """Write the folder in one step and return its configuration.

    Args:
        folder: is created; it may exist if it is empty.
        meters: the series by name.
        sources: what the receipt says about the raw files.
        options: what the user said.
        zones: the IANA time zone of each meter.

    Raises:
        DataError: the folder cannot be written.
    """
    files = file_names(list(meters), f".{options.format}")
    stems = {files[name].removesuffix(f".{options.format}"): zone for name, zone in zones.items()}
    text = block(folder, meters, options, stems)
    receipt: dict[str, Any] = {
        "plfl": __version__,
        "options": asdict(options),
        "sources": sources,
        "meters": {},
    }
    temporary = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".tmp-", dir=folder.parent))
        for name, meter in meters.items():
            path = temporary / files[name]
            _write_meter(path, meter.load.to_frame().join(meter.inputs))
            receipt["meters"][name] = {
                "file": path.name,
                "timezone": zones[name],
                "sha256": sha256(path),
                "rows": len(meter.load),
                "first": meter.load.index[0].isoformat(),
                "last": meter.load.index[-1].isoformat(),
                "kWh": float(meter.load.sum()),
                "longest_gap_minutes": meter.longest,
                "done": meter.done,
            }
        (temporary / RECEIPT).write_text(json.dumps(receipt, indent=1) + "\n", encoding="utf-8")
        (temporary / BLOCK).write_text(text, encoding="utf-8")
        temporary.chmod(0o755)
        temporary.replace(folder)
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be written ({error}); choose another with --to"
        ) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return text


def _write_meter(path: Path, table: pd.DataFrame) -> None:
    if path.suffix == ".parquet":
        table.reset_index().to_parquet(path, index=False)
    else:
        ends = np.datetime_as_string(pd.DatetimeIndex(table.index).tz_localize(None), unit="m")
        table.set_axis(pd.Index(ends, name="timestamp").astype(str) + "Z").to_csv(path)
