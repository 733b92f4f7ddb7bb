"""`plfl data import`: raw exports become a clean folder with a receipt, or nothing is written."""

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import yaml

from plfl import __version__
from plfl.base.errors import DataError
from plfl.base.files import sha256
from plfl.config.features import CALENDAR, FEATURES, UNITS
from plfl.config.sections import Meters
from plfl.data.checks import counted, never_decreases
from plfl.data.meters.cleaning import Meter
from plfl.data.meters.exports import Exports, Progress, read_exports
from plfl.data.meters.layout import check_chosen
from plfl.data.meters.paths import raw_files
from plfl.data.meters.series import collected

RECEIPT = "import.json"
"""The file that records what was imported from where, and how it was changed."""
BLOCK = "data.yaml"
"""The file with the configuration of the folder, a part of a study."""


@dataclass(frozen=True)
class Imported:
    """The results of an import."""

    meters: dict[str, Meter]
    """The series by the name of the meter."""
    sources: list[dict[str, Any]]
    """For each raw file, its digest and its detected form."""
    block: str
    """The configuration of the folder (YAML)."""


def import_meters(
    paths: Iterable[Path],
    to: Path,
    meters: Meters,
    form: Literal["csv", "parquet"] = "csv",
    progress: Progress | None = None,
) -> Imported:
    """Read raw exports, clean them and write one file per meter, with a receipt.

    Args:
        paths: files, or folders of files.
        to: the folder to write; it must be empty or absent.
        meters: what cannot be detected. Without `interval`, the exports' interval is kept; stamps
            without a UTC offset need `timezone`.
        form: the format of the files.
        progress: see `read_exports`.

    Returns:
        The meters, the detected forms of the files, and the configuration of the folder.

    Raises:
        DataError: something is wrong or ambiguous; the message lists all problems of all files, and
            nothing has been written.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise DataError(
            f"{to}: exists; remove it, or choose another with --to. "
            "Exports that need different options: import each into a folder of its own, then all "
            "folders into one"
        )
    raw = raw_files(paths)
    interval = meters.interval if "interval" in meters.model_fields_set else None
    meters = meters.model_copy(update={"exports": raw})
    exports = read_exports(raw, meters, interval, progress=progress)
    if problems := _problems(exports, meters):
        count = counted(len(problems), "problem")
        raise DataError(f"{count}, nothing was written\n" + "\n".join(problems))
    return Imported(exports.meters, exports.sources, _write(to, exports, meters, form))


def _problems(exports: Exports, meters: Meters) -> list[str]:
    """What is wrong or ambiguous in exports that are to be imported."""
    problems, given = exports.problems, meters.model_fields_set
    unzoned = {name for name in exports.names if not _has_zone(name, meters)}
    if local := [path for path, names in exports.local.items() if unzoned & {*names}]:
        problems.insert(
            0,
            f"{local[0]}: the stamps have no UTC offset ({counted(len(local), 'such file')}); set "
            "data.meters.timezone, such as America/New_York, or a fixed zone such as Etc/GMT+5 or "
            "UTC if the clock never changes",
        )
    if meters.weather in exports.local and not given & {"timezone", "weather_timezone"}:
        problems.append(
            f"{meters.weather}: the stamps have no UTC offset; set data.meters.weather_timezone"
        )
    problems += [
        f"{exports.files[name]}: {name}: the readings never decrease, like those of a cumulative "
        "register; set data.meters.cumulative: true, or data.meters.cumulative: false if they are "
        "loads"
        for name, meter in exports.meters.items()
        if "cumulative" not in given and never_decreases(meter.load)
    ]
    with collected(problems):
        check_chosen(exports.names, meters)
    with collected(problems):
        file_names(list(exports.files))
    return problems


def _has_zone(name: str, meters: Meters) -> bool:
    """Whether the user has named the time zone of a meter."""
    return "timezone" in meters.model_fields_set or meters.timezone_of(name) != meters.timezone


def file_names(names: Sequence[str]) -> dict[str, str]:
    """A name of a file, without an ending, for each meter.

    Raises:
        DataError: two meters would have the same file name.
    """
    meters: dict[str, str] = {}
    for name in dict.fromkeys(names):
        stem = re.sub(r"[^\w .()+=@-]", "-", name).strip(" .") or "meter"
        if stem in meters:
            raise DataError(
                f"meters {meters[stem]!r} and {name!r} would both be named {stem!r}; rename one "
                "of them, or use data.meters.leave_out"
            )
        meters[stem] = name
    return {name: stem for stem, name in meters.items()}


def _block(folder: Path, exports: Exports, meters: Meters) -> str:
    """The configuration of the imported folder, in YAML."""
    found = exports.meters
    first = next(iter(found.values()))
    inputs = list(map(str, first.inputs))
    clients = file_names(list(found))
    usual = Counter(meter.zone.key for meter in found.values()).most_common(1)[0][0]
    others = {clients[n]: m.zone.key for n, m in found.items() if m.zone.key != usual}
    keys: dict[str, Any] = {"folder": folder.as_posix()}
    if inputs:
        keys["columns"] = {name: name for name in ("timestamp", "load", *inputs)}
    keys["timezone"] = usual
    if others:
        keys["timezones"] = others
    keys |= {"interval": first.minutes, "stamp": "end", "unit": "kWh", "max_gap": meters.max_gap}
    if meters.allow_negative:
        keys["allow_negative"] = True
    if named := {name: unit for name, unit in meters.units.items() if name not in UNITS}:
        keys["units"] = named
    data: dict[str, Any] = {"source": "meters", "states": ["all"], "clients": len(found)}
    if own := [name for name in inputs if name not in FEATURES]:
        known = [name for name in FEATURES if name in ("load", *CALENDAR, *inputs)]
        data["features"] = [*known, *own]
    data["meters"] = keys
    study = {"data": data, "windows": {"scaling": "per_client"}}
    return yaml.safe_dump(study, sort_keys=False, allow_unicode=True)


def _write(folder: Path, exports: Exports, meters: Meters, form: str) -> str:
    """Write the folder in one step and return its configuration.

    Raises:
        DataError: the folder cannot be written.
    """
    text = _block(folder, exports, meters)
    receipt: dict[str, Any] = {
        "plfl": __version__,
        "options": meters.model_dump(mode="json", exclude_unset=True, exclude={"exports"}),
        "sources": exports.sources,
        "meters": {},
    }
    temporary = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".tmp-", dir=folder.parent))
        for name, stem in file_names(list(exports.meters)).items():
            meter = exports.meters[name]
            path = temporary / f"{stem}.{form}"
            _write_meter(path, meter.load.to_frame().join(meter.inputs))
            receipt["meters"][name] = {
                "file": path.name,
                "timezone": meter.zone.key,
                "sha256": sha256(path),
                "rows": len(meter.load),
                "first": meter.load.index[0].isoformat(),
                "last": meter.load.index[-1].isoformat(),
                "kWh": float(meter.load.sum()),
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
