"""The tables of a results folder, as claims, figures, the page and MLflow read them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from plfl import __version__, baselines
from plfl.base.errors import ConfigError, Problem, ResultsError
from plfl.config.baselines import BASELINE
from plfl.results.best import best
from plfl.results.records import (
    CELL,
    RERUN_REMEDY,
    ModelKind,
    read_csv,
    read_facts,
    read_table,
    refuse_damage,
)
from plfl.study import Cell, Study
from plfl.study.forecaster_names import USE_NAMES
from plfl.tasks.loads import LoadTask
from plfl.tasks.metrics import DAILY_COLUMNS

log = logging.getLogger(__name__)

_SCORES = ["mase_mean", "mase_median", "mae_mean", "rmse_mean", "validation_mase"]
_SUMMARY: dict[str, type] = {
    **dict.fromkeys([*CELL[:-1], "model"], str),
    **dict.fromkeys(_SCORES, float),
    **{"hyperparameters": str, "trials": int, "trial_steps": float},
    **{"seed": int, "round": int, "diverged": bool},
}
"""Required columns of the summary and their types."""
_CLIENTS: dict[str, type] = {"state": str, "client": str, "order": int, "interval": int}
"""Required columns of the table of clients and their types."""
_BASELINES: dict[str, type] = {
    **dict.fromkeys(["state", "baseline", "split", "client"], str),
    **dict.fromkeys(["mae", "rmse", "mase"], float),
    "bytes": int,
}
"""Required columns of the table of baselines and their types."""


@dataclass(frozen=True)
class Tables:
    """The files of one results folder, each read when it is first accessed.

    Every access raises ResultsError if its file is missing or has another format.

    >>> import plfl
    >>> tables = plfl.Tables(Path("results/demo"))
    >>> tables.summary["sharing"].unique().tolist()
    ['P1', 'P2', 'P3']
    """

    folder: Path

    def _file(self, name: str) -> Path:
        path = Path(self.folder) / name
        if not path.is_file():
            raise ResultsError(
                Problem(path, "the file is missing, so the results are incomplete", "run the study")
            )
        return path

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Content of study.json: format, version, git, study and cells."""
        facts = read_facts(Path(self.folder))
        if variants := facts.get("variants"):
            raise ResultsError(
                Problem(
                    self.folder,
                    f"holds {len(variants)} variants of a study",
                    f"name the folder of one, such as {Path(self.folder) / next(iter(variants))}",
                )
            )
        return facts

    @cached_property
    def study(self) -> Study:
        """The study that made the results."""
        path = Path(self.folder) / "study.json"
        try:
            return Study.from_results(self.facts.get("study"), str(path))
        except ConfigError as error:
            raise ResultsError(
                str(error),
                Problem(
                    path,
                    f"was made by plfl {self.facts.get('version')}, this is {__version__}",
                    "use that one, in the folder in which the study was run, or run it again",
                ),
            ) from None

    @property
    def whole_summary(self) -> pd.DataFrame:
        """All rows of summary.csv, those of baselines included, as they are written."""
        return read_csv(self._file("summary.csv"))

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row per cell and model, without the rows of baselines and of what is in use."""
        path = self._file("summary.csv")
        _ = self.facts  # refuses the summary of several variants
        # These are empty for baselines.
        optional = _SUMMARY | dict.fromkeys(["seed", "round", "trials"], "Int64")
        with refuse_damage(path):
            table = read_csv(path, optional)
            is_cell = ~table["sharing"].isin([BASELINE, *USE_NAMES])
            table = table[is_cell].reset_index(drop=True)
            if table.duplicated([*CELL, "model"]).any():
                raise ValueError("duplicate cell")
            return table.fillna({"hyperparameters": ""}).astype(_SUMMARY)

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One row per client, states and clients in the order of the study."""
        path = self._file("clients.parquet")
        states = {state: i for i, state in enumerate(self.study.data.states)}
        with refuse_damage(path):
            return (
                read_table(path)
                .astype(_CLIENTS)
                .sort_values(
                    ["state", "order"], key=lambda c: c.map(states) if c.name == "state" else c
                )
                .reset_index(drop=True)
            )

    def records(self, columns: list[str], **equal: object) -> pd.DataFrame:
        """`columns` of the rows of records.parquet that match the values of `equal`."""
        return self._rows("records.parquet", columns, equal)

    @cached_property
    def record_columns(self) -> list[str]:
        """The columns of records.parquet."""
        return self._columns("records.parquet")

    @cached_property
    def keeps_forecasts(self) -> bool:
        """Whether forecasts.parquet has rows. Publishers may have removed them, because the file
        also contains readings."""
        path = self._file("forecasts.parquet")
        with refuse_damage(path):
            return bool(pq.read_metadata(path).num_rows)

    def _columns(self, name: str) -> list[str]:
        path = self._file(name)
        with refuse_damage(path):
            return list(pq.read_schema(path).names)

    def forecasts(self, columns: list[str], **equal: object) -> pd.DataFrame:
        """As `records`, for forecasts.parquet: a week of the test set, in kWh per interval."""
        return self._rows("forecasts.parquet", columns, equal)

    @property
    def intervals(self) -> dict[str, tuple[str, str]]:
        """The columns of forecasts.parquet with the lower and the upper end of each interval of
        local models, by the share that it should cover in percent, the widest first."""
        task = self.study.task
        return task.ends("local") if isinstance(task, LoadTask) else {}

    def errors(self, columns: list[str], **equal: object) -> pd.DataFrame:
        """As `records`, for errors.parquet: sums of absolute errors by day, in kWh per interval."""
        return self._rows("errors.parquet", columns, equal)

    @property
    def has_peaks(self) -> bool:
        """Whether the errors of daily peaks are known; a deployed study keeps no days."""
        path = Path(self.folder) / "errors.parquet"
        return path.is_file() and "peak_error" in self._columns(path.name)

    def errors_of(self, model: str, score: str = "mase") -> pd.DataFrame:
        """The errors of a model of the cells, or of the baselines: a row per forecaster, seed,
        client and day with its labels, `day`, `error`, `forecasts`, `scale`; see
        `plfl.tasks.metrics.daily_errors`. With `scaled_crps` as `score`, their CRPS is in place of
        the absolute errors. A deployed study keeps no days, because the data stay with its clients:
        its test set counts as one day."""
        if (Path(self.folder) / "errors.parquet").is_file():
            labels = [column for column in CELL if model != BASELINE or column != "seed"]
            column = DAILY_COLUMNS[score]
            columns = [*labels, "client", "day", column, "forecasts", "scale"]
            return self.errors(columns, model=model).rename(columns={column: "error"})
        if not self._is_deployed:
            raise ResultsError(
                Problem(Path(self.folder) / "errors.parquet", "is missing", "run the study again")
            )
        last = self.study.federation.rounds
        errors = self.records([*CELL, "client", score], split="test", model=model, round=last)
        errors = errors.rename(columns={score: "error"})
        return errors.assign(day=pd.Timestamp(0), forecasts=1, scale=errors["error"].notna() * 1.0)

    @property
    def _is_deployed(self) -> bool:
        return bool(self.facts.get("engine", "simulator") != "simulator")

    @property
    def _has_baselines(self) -> bool:
        """Whether there are baselines; a deployed study has none, as data stay with the clients."""
        return not self._is_deployed or (Path(self.folder) / "baselines.parquet").is_file()

    @cached_property
    def baselines(self) -> pd.DataFrame:
        """One row per state, baseline, split (`validation`, `test`) and client.

        Columns `state`, `baseline`, `split`, `client`, `mae`, `rmse` (kWh per interval), `mase`,
        and `bytes`, which the client would have to send. Scores are NaN if a baseline lacks a
        forecast for any window; MASE also if the persistence error is zero. Empty for a deployed
        study.
        """
        if not self._has_baselines:
            return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in _BASELINES.items()})
        path = self._file("baselines.parquet")
        with refuse_damage(path):
            return read_table(path).astype(_BASELINES)

    @cached_property
    def baseline_scores(self) -> pd.DataFrame:
        """Scores of every baseline in every state, in their order, by `state` and `baseline`.

        Columns `mase_mean`, `mae_mean`, `rmse_mean` and, if `baselines` has them, `nrmse_mean`,
        `wape_mean` and `seasonal_mase_mean` on the test set, `validation_mase`, `bytes` (over all
        clients) and `crosses`, what clients have to send. Means are over clients, those of MASE
        over clients that have one; NaN if any client lacks a forecast.
        """
        with (
            refuse_damage(self._file("baselines.parquet")) if self._has_baselines else nullcontext()
        ):
            table = self.baselines
            validation = table["split"] == "validation"
            means = _means_of_baselines(table[~validation]).add_suffix("_mean")
            validation_mase = _means_of_baselines(table[validation])["mase"]
            bytes_sent = table[~validation].groupby(_BASELINE, sort=False)["bytes"].sum()
            crosses = [
                baselines.find(name).crosses for name in means.index.get_level_values("baseline")
            ]
            return means.assign(validation_mase=validation_mase, bytes=bytes_sent, crosses=crosses)

    def best_baseline(self, state: str) -> str | None:
        """Name of the baseline of lowest validation MASE in a state, among those that a federation
        has to beat (`plfl.baselines.rivals`); None if none has a score."""
        table = self.baseline_scores.reset_index()
        rivals = baselines.rivals(self.study.baselines.further)
        table = table[(table["state"] == state) & table["baseline"].isin(rivals)]
        table = table[["baseline", "validation_mase"]]
        row = best(table.set_axis(["baseline", "validation"], axis=1).itertuples(index=False))
        return None if row is None else str(row.baseline)

    def baseline_forecasts(self, columns: list[str], **equal: object) -> pd.DataFrame:
        """Forecasts of the baselines: `state`, `baseline`, `client`, `stamp`, `forecast`."""
        return self._rows("baseline_forecasts.parquet", columns, equal)

    def _rows(self, name: str, columns: list[str], equal: dict[str, object]) -> pd.DataFrame:
        filters = [(column, "==", value) for column, value in equal.items()] or None
        path, existing_columns = self._file(name), self._columns(name)
        if missing_columns := [c for c in [*columns, *equal] if c not in existing_columns]:
            raise ResultsError(
                Problem(
                    path,
                    f"has no column {', '.join(missing_columns)}",
                    f"it may be from another version of plfl; {RERUN_REMEDY}",
                )
            )
        with refuse_damage(path):
            return pd.read_parquet(
                path, columns=columns, filters=filters, page_checksum_verification=True
            )

    def scores(self, model: ModelKind) -> pd.DataFrame:
        """Test and validation MASE, means over clients and seeds, by the other axes of the grid.

        Columns `mase_mean`, `mase_sd` (over seeds; NaN with one seed), `validation_mase` and
        `diverged`. A combination with a diverged seed has no score: the mean over the other seeds
        would be too optimistic.
        """
        table = self.summary[self.summary["model"] == model]
        by_axes = table.groupby(CELL[:-1], sort=False)
        means = by_axes[["mase_mean", "validation_mase"]].mean()
        means["mase_sd"] = by_axes["mase_mean"].std()
        diverged = by_axes["diverged"].any()
        return means.mask(diverged).assign(diverged=diverged)

    def best(self, model: ModelKind, **equal: str | list[str]) -> Cell | None:
        """The combination of lowest validation MASE at the last round, as a mean over its seeds.

        It is returned as its cell of the first seed; None if all combinations diverged.
        Combinations with a diverged seed are excluded. `equal` restricts the search: state="CA",
        sharing=["P1"].
        """
        if model not in self._options:
            table = self.scores(model).reset_index()
            table = table.rename(columns={"validation_mase": "validation"})
            self._options[model] = [*table.itertuples(index=False)]
        options = self._options[model]
        for axis, value in equal.items():
            allowed_values = [value] if isinstance(value, str) else value
            options = [option for option in options if getattr(option, axis) in allowed_values]
        row = best(options)
        if row is None:
            return None
        axes = {axis: str(getattr(row, axis)) for axis in CELL[:-1]}
        return Cell(**axes, seed=self.study.grid.seeds[0])

    @cached_property
    def _options(self) -> dict[ModelKind, list[Any]]:
        """The rows of `scores` from which `best` has chosen, by model."""
        return {}

    @cached_property
    def load_unit(self) -> str:
        """Unit of loads, such as "kWh per 15 min"."""
        with refuse_damage(self._file("clients.parquet")):
            intervals = sorted({int(minutes) for minutes in self.clients["interval"]})
        return f"kWh per {' or '.join(map(str, intervals))} min"


_BASELINE = ["state", "baseline"]


def is_complete(errors: pd.Series[float]) -> bool:
    """Whether a baseline whose clients have these mean absolute errors has a score: it forecasts
    every window of every client."""
    return bool(errors.notna().all())


def _means_of_baselines(table: pd.DataFrame) -> pd.DataFrame:
    """Means of the scores over clients, by `_BASELINE`; NaN if one is missing."""
    groups = table.groupby(_BASELINE, sort=False)
    complete = groups["mae"].agg(is_complete).astype(bool)
    score_names = ("mase", "mae", "rmse", "nrmse", "wape", "seasonal_mase")
    scores = [name for name in score_names if name in table]
    return groups[scores].mean().where(complete)


@contextmanager
def refuse_contradictions(*folders: Path) -> Iterator[None]:
    """Raise ResultsError if tables of `folders` contradict each other, as after a manual change.
    All code that combines several tables runs in this context."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        log.info("the tables do not fit together", exc_info=True)
        raise ResultsError(
            Problem(
                " or ".join(map(str, folders)),
                f"the tables do not fit together ({type(error).__name__}: {error})",
                "make them again with `plfl study … --forcerun collect`; if nobody has changed "
                "them, please report it",
            )
        ) from None
