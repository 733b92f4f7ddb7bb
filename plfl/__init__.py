"""plfl: benchmark harness for personalised federated load forecasting (arXiv 2404.01517).

The names in `__all__` are the Python interface (`docs/python-api.md`). Each is imported when it is
first used, so `import plfl` itself loads neither pandas nor torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # see above
    from plfl.base.errors import PlflError
    from plfl.base.shipped import snakefile
    from plfl.data.dataset import Dataset
    from plfl.data.sources import load_dataset
    from plfl.experiments.train import train
    from plfl.forecast.model import ForecastModel, load
    from plfl.outside.clients import Client, clients
    from plfl.plugins import trust
    from plfl.results.records import CellResult
    from plfl.results.tables import Tables
    from plfl.study import Cell, Study

__version__ = "0.1.0"

__all__ = [
    "Cell",
    "CellResult",
    "Client",
    "Dataset",
    "ForecastModel",
    "PlflError",
    "Study",
    "Tables",
    "clients",
    "load",
    "load_dataset",
    "snakefile",
    "train",
    "trust",
]

MODULES = {
    "Cell": "plfl.study",
    "CellResult": "plfl.results.records",
    "Client": "plfl.outside.clients",
    "Dataset": "plfl.data.dataset",
    "ForecastModel": "plfl.forecast.model",
    "PlflError": "plfl.base.errors",
    "Study": "plfl.study",
    "Tables": "plfl.results.tables",
    "clients": "plfl.outside.clients",
    "load": "plfl.forecast.model",
    "load_dataset": "plfl.data.sources",
    "snakefile": "plfl.base.shipped",
    "train": "plfl.experiments.train",
    "trust": "plfl.plugins",
}
"""Where each public name is defined."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "datasets":  # a module, which `import plfl` makes available, too
        return importlib.import_module("plfl.datasets")
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted([*globals(), *__all__])
