"""A study of three meters, whose readings and trained models are in files."""

from pathlib import Path
from typing import Any

import pandas as pd

import plfl
from plfl.experiments.train import train
from plfl.experiments.training_setup import TrainingSetup
from plfl.forecast.contents import describe
from plfl.results.records import CellResult, write_models
from plfl.study import Study
from tests.helpers import tiny

RECIPE: dict[str, Any] = {
    "target": "change",
    "scaling": "per_client",
    "covariates": [
        *({"name": "lags", "days": [1, 7]}, {"name": "level"}, {"name": "calendar"}),
        {"name": "encoding", "bins": 4},
    ],
}
"""Windows with lags, a level, the calendar and an encoding as covariates."""
MLP: dict[str, Any] = {"name": "mlp", "hidden": [6]}
ROWS = 96 * 14
"""Readings of each meter: two weeks of 15 minutes."""


def make_study(**blocks: Any) -> Study:
    """The tiny study of own meters, with further blocks of keys."""
    meters = {"columns": {"timestamp": "timestamp", "load": "kWh", "temperature": "out"}}
    data = {"source": "meters", "states": ["XX"], "meters": {"timezone": "Etc/GMT+5", **meters}}
    grid = {"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P2"]}
    grid |= blocks.pop("grid", {})
    return tiny.study(data=data, grid=grid, **blocks)


def write_readings(rows: int = ROWS) -> None:
    """Write the meters `a`, `b` and `c`."""
    folder = Path("meters")
    folder.mkdir(exist_ok=True)
    for name, table in tiny.tables(3, rows).items():
        columns = table.rename(columns={"load": "kWh", "temperature": "out"})
        columns.to_csv(folder / f"{name}.csv", index_label="timestamp")


def make_new_meter(factor: float = 3.0, rows: int = 96 * 8) -> pd.DataFrame:
    """Eight days of a meter like the others, but larger."""
    table = tiny.tables(4, 96 * 14)["d"].iloc[:rows].rename_axis("timestamp")
    table["load"] *= factor
    return table


TRAININGS: dict[str, tuple[CellResult, bytes]] = {}
"""What studies came to, with their files of models: several tests have the same study."""


def write_models_of(study: Study, file: Path) -> CellResult:
    """The only cell of a study of the meters `a`, `b` and `c`, whose models are in `file`."""
    write_readings()
    if training := TRAININGS.get(study.model_dump_json()):
        result, content = training
        file.write_bytes(content)
        return result
    (cell,) = study.cells
    dataset = plfl.load_dataset(study, "XX")
    result = train(study, [cell], dataset)[cell]
    assert result.models is not None
    widths = TrainingSetup.for_study(study, dataset).evaluator.widths(result.models)
    write_models(file, result.models, describe(study, cell, dataset, widths))
    TRAININGS[study.model_dump_json()] = result, file.read_bytes()
    return result
