"""A first study of imported meters: a fast model, one optimiser, a day ahead."""

from pathlib import Path
from typing import Any

import yaml

from plfl.base.errors import PlflError
from plfl.config import loading
from plfl.config.study import Study
from plfl.pipeline.shipped import root, write_new

DAY = 24 * 60
"""Minutes."""


def study_of(block: Path) -> dict[str, Any]:
    """The configuration of a study of the meters that `plfl data import` has described in a file.

    It forecasts a day ahead from the last day, the loads two and seven days before the target, and
    the calendar. The study has the name of the folder that holds the file.

    Raises:
        PlflError: it is no such file, it cannot be read, or a day is not a multiple of the time
            between readings.
    """
    raw = loading.read(block)
    data = raw.get("data") if isinstance(raw, dict) else None
    meters = data.get("meters") if isinstance(data, dict) else None
    if not isinstance(raw, dict) or not isinstance(data, dict) or not isinstance(meters, dict):
        raise PlflError(f"{block}: has no data.meters; name the data.yaml that an import wrote")
    interval = meters.get("interval")
    if not isinstance(interval, int) or interval < 1 or DAY % interval:
        raise PlflError(
            f"{block}: data.meters.interval: {interval!r} does not divide a day; correct it"
        )
    rows = DAY // interval
    inputs = [name for name in meters.get("columns") or {} if name not in ("timestamp", "load")]
    context = [{"name": "lags", "days": [2, 7]}, {"name": "level"}, {"name": "calendar"}]
    windows = {"look_back": rows, "look_ahead": rows, "target": "change", "context": context}
    return {
        "name": block.resolve().parent.name,
        "data": {"features": ["load", *inputs]} | data,
        "windows": windows | (raw.get("windows") or {}),
        "model": {"name": "mlp", "hidden": [64, 64]},
        "grid": {"client_opt": ["adamw"], "server_opt": ["fedavg"], "seeds": [1, 2, 3]},
        "federation": {"rounds": 20, "evaluate_every": 1, "batch_size": 64, "loss": "mae"},
    }


def write(block: Path, folder: Path) -> Path:
    """Write the study of `study_of` into a folder, under its name."""
    raw = study_of(block)
    path = folder / f"{raw['name']}.yaml"
    Study.parse(raw, str(path))
    text = yaml.safe_dump(raw, sort_keys=False, allow_unicode=True, default_flow_style=None)
    about = f"# The meters of {block}, a day ahead. All keys: {root()}/docs/configuration.md.\n"
    return write_new(path, about + text)
