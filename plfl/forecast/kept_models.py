"""The models that a results folder keeps: of which clients, and in which files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from plfl.base.errors import Problem, ResultsError
from plfl.base.text import list_names
from plfl.config.baselines import BASELINE
from plfl.forecast.model import ForecastModel, count_rows_read, load
from plfl.results.records import read_csv, read_facts
from plfl.results.tables import Tables
from plfl.study.axes import latest

MOST_VARIANTS = 6
"""Folders of variants that an error names."""
ALL_TIME = pd.Timedelta(days=36_500)
"""The reach of forecasts whose intervals follow all earlier ones."""


def is_results_folder(path: Path) -> bool:
    """Whether a path is that of a results folder, which need not exist, and not of a file of
    models."""
    return path.is_dir() or not (path.is_file() or path.suffix == ".safetensors")


@dataclass(frozen=True)
class KeptModels:
    """The models that a results folder keeps."""

    results: Path

    @cached_property
    def tables_folder(self) -> Path:
        """The results folder with the models: that of the latest origin, if origins are the only
        axis of the study; otherwise its own. ResultsError: only the variants have models."""
        places = read_facts(self.results).get("variants") or {}
        if (label := latest(places)) is None:
            folders = list_names([str(self.results / label) for label in places], MOST_VARIANTS)
            raise ResultsError(
                Problem(
                    self.results,
                    "keeps no models itself, because its study has variants",
                    f"name the folder of one of them: {folders}",
                )
            )
        return self.results / label

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.tables_folder)

    @property
    def folder(self) -> Path:
        """The folder of the models."""
        return self.tables_folder / "models"

    @cached_property
    def index(self) -> pd.DataFrame:
        """A row per state and forecaster: `state`, `name`, `cell`, `file`; ResultsError if the
        folder keeps none."""
        _ = self.tables.facts  # says what is wrong with the folder
        path = self.folder / "index.csv"
        if not path.is_file():
            raise ResultsError(Problem(path, "is missing", "run the study to its end"))
        table = read_csv(path)
        if table.empty:
            raise ResultsError(Problem(path, "lists no model", "train again"))
        is_baseline = table["sharing"] == BASELINE
        return table.assign(name=table["sharing"].where(~is_baseline, table["cell"]))

    @cached_property
    def _models(self) -> dict[Path, ForecastModel]:
        return {}

    def model(self, file: Path) -> ForecastModel:
        """The model in a file, which is read once."""
        if file not in self._models:
            self._models[file] = load(file)
        return self._models[file]

    @property
    def are_of_plfl(self) -> bool:
        """Whether no code of a plug-in forecasts."""
        study, names = self.tables.study, self.index.loc[self.index["sharing"] == BASELINE, "name"]
        return not study.plugins and study.baselines.are_of_plfl(map(str, names))

    @property
    def any_model(self) -> ForecastModel:
        """A model that tells how files of meters are read: all of a study read them alike."""
        return self.model(self.folder / self.index["file"].iloc[0])

    def model_of(self, client: str) -> ForecastModel:
        """A model that was trained with the client: one of its state."""
        return self.model(self.folder / self.rows_of_state(client)["file"].iloc[0])

    def rows_of_state(self, client: str) -> pd.DataFrame:
        """The rows of the index that are of a client's state."""
        return self.index[self.index["state"] == self.clients[client]]

    @property
    def reach(self) -> pd.Timedelta:
        """The time before a forecast of which any of the forecasters reads something."""
        model = self.any_model
        if model.has_adaptive_widths:
            return ALL_TIME
        baselines = self.index.loc[self.index["sharing"] == BASELINE, "name"].unique()
        row_counts = [
            count_rows_read(model.study, model.interval, name) for name in ("", *baselines)
        ]
        return max(row_counts) * pd.Timedelta(minutes=model.interval)

    @cached_property
    def clients(self) -> dict[str, str]:
        """The state of each client, by name."""
        table = self.tables.clients.drop_duplicates("client")
        return dict(zip(table["client"], table["state"], strict=True))
