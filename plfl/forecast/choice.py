"""Which of the forecasters that a results folder keeps is best for a meter."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from plfl.base.errors import ResultsError, did_you_mean
from plfl.baselines import BASELINE
from plfl.forecast.model import ForecastModel, load
from plfl.forecast.newcomer import AS_RECEIVED
from plfl.results.tables import Tables

INDEX = "index.csv"
"""The table of the kept forecasters."""
MOST = 4
"""Forecasters that a reason lists."""


@dataclass(frozen=True)
class Choice:
    """A forecaster, and why it is chosen."""

    name: str
    """The name of a sharing scheme or of a baseline."""
    file: Path
    why: str


@dataclass(frozen=True)
class Kept:
    """The forecasters that a results folder keeps."""

    results: Path

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.results)

    @cached_property
    def index(self) -> pd.DataFrame:
        """A row per state and forecaster: `state`, `name`, `cell`, `file`.

        Raises:
            ResultsError: the folder keeps none.
        """
        path = self.results / "models" / INDEX
        _ = self.tables.about  # says what is wrong with the folder
        if not path.is_file():
            raise ResultsError(f"{path}: is missing; run the study to its end")
        table = pd.read_csv(path, keep_default_na=False, dtype=str)
        is_baseline = table["sharing"] == BASELINE
        return table.assign(name=table["sharing"].where(~is_baseline, table["cell"]))

    @cached_property
    def models(self) -> dict[Path, ForecastModel]:
        """The models that were read, by file."""
        return {}

    def model(self, choice: Choice) -> ForecastModel:
        """The model in a file, which is read once."""
        if choice.file not in self.models:
            self.models[choice.file] = load(choice.file)
        return self.models[choice.file]

    @property
    def any_model(self) -> ForecastModel:
        """A model that tells how files of meters are read: all of a study read them alike."""
        if self.index.empty:
            raise ResultsError(f"{self.results / 'models' / INDEX}: lists no model; train again")
        return self.model(self._choice(self.index.iloc[0], ""))

    def of(self, client: str, wanted: str = "") -> Choice:
        """What forecasts a client: the forecaster of least error on the client's validation set,
        or the one that is `wanted`.

        Raises:
            ResultsError: the client did not take part, or nothing that can forecast it is kept.
        """
        clients = self.tables.clients
        states = clients["state"][clients["client"] == client].tolist()
        if not states:
            known = clients["client"].tolist()
            raise ResultsError(
                f"{client}: did not take part in {self.results}{did_you_mean(client, known)}; "
                "forecast it as a new meter with --new"
            )
        here = self.index[self.index["state"].isin(states)]
        if wanted:
            return self._wanted(here, wanted)
        errors = self._errors(states[0], client).reindex(here["name"]).dropna().sort_values()
        if errors.empty:
            raise ResultsError(f"{client}: no forecaster has a score; choose one with --with")
        told = [f"{name} {error:.2f}" for name, error in errors.iloc[1:MOST].items()]
        why = f"least error of its validation set, MASE {errors.iloc[0]:.2f}"
        why += f" ({', '.join(told)})" * bool(told)
        return self._choice(here[here["name"] == errors.index[0]].iloc[0], why)

    def of_new(self, minutes: int, wanted: str = "") -> Choice:
        """What a meter begins with that did not take part and has `minutes` of readings.

        Models as received are compared for a meter of less than two weeks, and after the local
        steps for others.

        Raises:
            ResultsError: no model is kept that a new meter could begin with.
        """
        shared = self.index[self.index["name"].isin(self.tables.study.federated)]
        if wanted:
            return self._wanted(shared, wanted)
        kind = "global" if minutes < AS_RECEIVED else "local"
        scores = self.tables.scores("global" if kind == "global" else "local", "last")
        by_place = scores["validation_mase"].groupby(["state", "sharing"]).min()
        places = pd.MultiIndex.from_frame(shared[["state", "sharing"]])
        errors = by_place.reindex(places).to_numpy()
        if not np.isfinite(errors).any():
            raise ResultsError(
                f"{self.results}: keeps no model that a new meter could begin with; a sharing "
                "scheme that shares parameters, such as P1, gives one"
            )
        best = int(np.nanargmin(errors))
        age = "less than two weeks of readings" if kind == "global" else "two weeks or more"
        return self._choice(
            shared.iloc[best],
            f"{age}, and the {kind} models of the scheme have the least validation error of all "
            f"meters, MASE {errors[best]:.2f}",
        )

    def _errors(self, state: str, client: str) -> pd.Series[float]:
        """The MASE of a client's validation set by forecaster, mean over seeds."""
        tables, found = self.tables, {}
        equal = {"state": state, "client": client, "split": "validation"}
        rounds = tables.study.federation.rounds
        for name in self.index["name"][self.index["state"] == state]:
            if cell := tables.best("local", state=state, sharing=name):
                axes = {axis: value for axis, value in asdict(cell).items() if axis != "seed"}
                scores = tables.records(["mase"], **equal | axes, model="local", round=rounds)
                found[name] = float(scores["mase"].mean())
        scored = tables.baselines
        scored = scored[(scored[[*equal]] == pd.Series(equal)).all(axis=1)]
        return pd.Series(found | scored.set_index("baseline")["mase"].to_dict(), dtype=float)

    def _wanted(self, among: pd.DataFrame, wanted: str) -> Choice:
        rows = among[among["name"] == wanted]
        if rows.empty:
            known = among["name"].drop_duplicates().tolist()
            raise ResultsError(
                f"--with {wanted}: {self.results / 'models'} keeps {', '.join(known) or 'none'}"
                f"{did_you_mean(wanted, known)}"
            )
        return self._choice(rows.iloc[0], "chosen with --with")

    def _choice(self, row: pd.Series, why: str) -> Choice:
        return Choice(str(row["name"]), self.results / "models" / str(row["file"]), why)
