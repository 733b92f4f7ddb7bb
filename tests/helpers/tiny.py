"""A study that trains in a blink: small models on a few days of synthetic series."""

from typing import Any

import numpy as np
import pandas as pd

from plfl.data.dataset import Dataset
from plfl.data.windows import build
from plfl.plugins.registry import ALGORITHM_PACKAGES
from plfl.study import Cell, Study


def study(**blocks: Any) -> Study:
    """Three clients, small models, three rounds; `blocks` go over it, key by key.

    `method`, `client_opt` and `server_opt` are hyperparameters.
    """
    raw: dict[str, Any] = {
        "name": "tiny",
        "data": {"states": ["XX"], "clients": 3, "source": "sample"},
        "model": {"hidden": 3, "mlp": [4]},
        "grid": {"client_opt": ["adam", "prox"], "server_opt": ["fedavg", "fedyogi"]},
        "federation": {"rounds": 3, "local_steps": 4, "batch_size": 8, "evaluate_every": 2},
    }
    kinds = {kind: blocks.pop(kind) for kind in ALGORITHM_PACKAGES if kind in blocks}
    for name, block in (blocks | ({"hyperparameters": kinds} if kinds else {})).items():
        # A model of another name, or of one's own, has other keys.
        raw[name] = block if {"name", "module"} & {*block} else {**raw.get(name, {}), **block}
    return Study.parse(raw, "tiny")


CLIENT_OPTS = {"fafed": "sgd", "fedadc_dm": "sgdm"} | dict.fromkeys(
    ("cc_fedadagrad", "cc_fedadam", "cc_fedams"), "sgd"
)
"""The local optimisers of methods that do not accept `adam`."""
QUICK: dict[str, dict[str, Any]] = {
    "ifca": {"clusters": 3},
    "fedsc": {"clusters": 2},
    "one_shot": {"alone": 2},
    "fedgkd": {"lam": 2, "buffer": 2},
    "moon": {"mu": 5},
    "fedbabu": {"epochs": 1, "most_steps": 3},
    "fine_tuning": {"epochs": 1, "most_steps": 3},
    "fedala": {"subset": "shared", "first": 2, "most_steps": 2},
    "fedeff": {"epochs": 2, "epoch_steps": 2},
}
"""Hyperparameters with which methods train quickly, and do all that they do in few rounds."""
CLOCK = {"join": 0.7, "max_delay": 1, "steps": [1, 6]}
QUICK |= dict.fromkeys(("cc_fedadagrad", "cc_fedadam", "cc_fedams"), CLOCK)


def study_of_method(name: str, **blocks: Any) -> Study:
    """A `study` of one method, under P2, that trains quickly."""
    grid = {
        "method": [name],
        "client_opt": [CLIENT_OPTS.get(name, "adam")],
        "server_opt": ["fedavg"],
        "sharing": ["P2"],
        "refused": "skip",
    }
    dampened = {"sgdm": {"momentum": 0.5, "dampening": 0.5, "lr": 0.01}}
    given = {
        "grid": grid | blocks.pop("grid", {}),
        "client_opt": dampened | blocks.pop("client_opt", {}),
        "method": {name: QUICK.get(name, {}) | blocks.pop("method", {})},
    }
    return study(**given, **blocks)


def dataset(clients: int = 3, rows: int = 400, flat: str = "") -> Dataset:
    """The clients' `tables`, scaled."""
    return build(tables(clients, rows, flat), study().windows)


def tables(clients: int = 3, rows: int = 400, flat: str = "") -> dict[str, pd.DataFrame]:
    """Daily cycles with noise; the test set of the client `flat` is constant, except for the
    rounding noise of differences of a register."""
    random = np.random.default_rng(5)
    stamps = pd.date_range("2018-01-01 00:15", periods=rows, freq="15min")
    tables_by_client = {}
    for name in "abcdefgh"[:clients]:
        day = 2 + np.sin(np.arange(rows) / 96 * 2 * np.pi + random.random())
        table = pd.DataFrame({"load": day + 0.1 * random.random(rows)}, stamps)
        table["temperature"] = random.random(rows)
        if name == flat:
            register = 12345.67 + 0.05 * np.arange(rows + 1)
            table.loc[stamps[int(0.9 * rows) :], "load"] = np.diff(register)[int(0.9 * rows) :]
        tables_by_client[name] = table
    return tables_by_client


def cell(name: str, of: Study) -> Cell:
    """The cell of this name."""
    return next(cell for cell in of.cells if str(cell) == name)
