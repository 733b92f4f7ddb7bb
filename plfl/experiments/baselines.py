"""Every baseline on the dataset of a state, scored as the cells of the grid are."""

import itertools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import PlflError
from plfl.baselines import BASELINE, catalogue
from plfl.baselines.fitting import RememberedBaseline, fit, total_sent
from plfl.data.dataset import EVALUATED_SPLITS, Dataset
from plfl.experiments.client_groups import list_baselines
from plfl.interfaces.baseline import Baseline, FitSettings, FittedBaseline, Floats, Starts
from plfl.interfaces.task import Task
from plfl.results.totals import Totals
from plfl.tasks import check_calibration
from plfl.tasks.forecast import Forecast
from plfl.tasks.loads import LoadTask, first_week

log = logging.getLogger(__name__)

Predict: TypeAlias = Callable[[int, Starts], Floats]
"""Forecasts of windows of a client, see `FittedBaseline.predict`."""


class BaselineError(Exception):
    """A baseline has failed, for a reason about which the user can do nothing: it has no score, and
    the others go on. Its text is the class of the error and its message."""

    @classmethod
    @contextmanager
    def replaces_errors(cls) -> Iterator[None]:
        """Raise it in place of each such error."""
        try:
            yield
        except (PlflError, MemoryError, cls):
            raise  # the user can do something about it
        except Exception as error:
            raise cls(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class FailedBaseline(FittedBaseline):
    """A baseline that could not be fitted."""

    failure: BaselineError

    def predict(self, client: int, starts: Starts) -> Floats:
        raise self.failure


@dataclass(frozen=True)
class BaselineTables:
    """The tables of the baselines of a state."""

    scores: pd.DataFrame
    """One row per baseline, evaluated split and client: `state`, `baseline`, `split`, `client`, the
    scores of the task, the `bytes` that the client would have to send, and
    `trained_on_this_dataset`: whether its pre-training included these series, even the test set;
    `failed`: the error that left it without scores, or empty."""
    forecasts: pd.DataFrame
    """First week of the test set: `state`, `baseline`, `client`, `stamp`, `forecast`, quantiles."""
    errors: pd.DataFrame
    """One row per baseline, client and day of the test set, with the labels of `summary.csv`:
    `state`, `sharing` and `model` ("baseline"), `method` (its name), `client_opt` and `server_opt`
    ("none"); see `Task.errors`."""
    fitted_baselines: Mapping[str, FittedBaseline] = field(default_factory=dict)
    """The baselines by name, fitted for these scores; those that failed are left out."""
    widths: Mapping[str, Floats] = field(default_factory=dict)
    """The widths (N, ...) of the clients' intervals by baseline, if the task has widths."""
    totals: Totals = field(default_factory=lambda: Totals([], 1))
    """What their forecasts of the test set come to over the clients."""


def evaluate(
    state: str,
    dataset: Dataset,
    settings: FitSettings = FitSettings(),  # noqa: B008
    task: Task | None = None,
    additional: Sequence[Baseline] = (),
    leave_out: Collection[str] = (),
    earlier: Mapping[str, FittedBaseline] | None = None,
) -> BaselineTables:
    """Fit every baseline but `leave_out` to the dataset of a state and score it on validation and
    test; the levels of quantiles are those of the task. Those that were fitted `earlier` are not
    fitted again.

    A baseline that cannot forecast every window of a client's split has no score there, so that
    none can choose its windows. One that raises an error has no score at all, and the others go on.
    If the task has widths, each client has widths of its own, because a baseline has no server;
    DataError if a client has too few validation windows for them.
    """
    task = task or Forecast()
    check_calibration(task, dataset)
    settings = replace(settings, levels=task.quantile_levels)
    fitted_baselines: dict[str, FittedBaseline] = {}
    widths: dict[str, Floats] = {}

    def widened(fitted_baseline: FittedBaseline) -> tuple[Predict, Floats | None]:
        """The forecasts of a fitted baseline, and the widths of their intervals, if there are."""
        if task.widening == "none":
            return fitted_baseline.predict, None
        return _widen(dataset, fitted_baseline.predict, task)

    def predictor(baseline: Baseline) -> tuple[Predict, Sequence[int]]:
        """The forecasts of a baseline, and what each client sends."""
        staged = (earlier or {}).get(baseline.name)
        staged = staged or fit(baseline, dataset, settings, fitted_baselines)
        fitted_baselines[baseline.name] = remembered = RememberedBaseline(staged, staged.sent_bytes)
        predict, widths_of_clients = widened(remembered)
        if widths_of_clients is not None:
            widths[baseline.name] = widths_of_clients
        return predict, total_sent(staged, len(dataset.clients))

    tables = []
    for baseline in list_baselines(dataset.shape.covariates > 0, additional, leave_out):
        labels = {"trained_on_this_dataset": baseline.has_seen_the_data, "failed": ""}
        try:
            with BaselineError.replaces_errors():
                forecasts = predictor(baseline)
                tables.append(_tables(state, baseline.name, dataset, task, *forecasts, labels))
            log.info("%s: %s is scored", state, baseline.name)
        except BaselineError as failure:
            log.warning("%s: %s failed and has no score", state, baseline.name, exc_info=True)
            fitted_baselines.pop(baseline.name, None)
            labels["failed"] = str(failure).strip().partition("\n")[0]
            # Only the shape of its forecasts is used: the study may leave persistence out.
            persistence = fit(catalogue()["persistence"], dataset, settings, {})
            missing = partial(_missing_forecasts, widened(persistence)[0])
            no_bytes = total_sent(persistence, len(dataset.clients))
            tables.append(_tables(state, baseline.name, dataset, task, missing, no_bytes, labels))
    rows, weeks, errors = (list(itertools.chain(*parts)) for parts in zip(*tables, strict=True))
    week = pd.concat(weeks, ignore_index=True)
    order = ["state", "baseline", "client", "stamp", "forecast"]
    other_columns = [column for column in week if column not in order]
    return BaselineTables(
        pd.DataFrame(rows),
        week[[*order, *other_columns]],
        pd.concat(errors, ignore_index=True),
        fitted_baselines,
        widths,
        _add_up(dataset, task, fitted_baselines),
    )


def _add_up(dataset: Dataset, task: Task, fitted_baselines: Mapping[str, FittedBaseline]) -> Totals:
    assert isinstance(task, LoadTask)
    totals = Totals(fitted_baselines, dataset.horizons)
    for client in range(len(dataset.clients)):
        starts = dataset.starts(client, "test")
        forecasts = {
            name: task.point(dataset, fitted_baseline.predict(client, starts))
            for name, fitted_baseline in fitted_baselines.items()
        }
        totals.add(dataset, client, forecasts)
    return totals


def _missing_forecasts(
    predict: Predict, client: int, starts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """No forecasts, in the shape of those of another baseline."""
    return np.full_like(predict(client, starts), np.nan)


def _tables(
    state: str,
    name: str,
    dataset: Dataset,
    task: Task,
    predict: Predict,
    sent_bytes: Sequence[int],
    facts: dict[str, Any],
) -> tuple[list[dict[str, Any]], list[pd.DataFrame], list[pd.DataFrame]]:
    """The rows of one baseline in the three tables of `BaselineTables`."""
    keys = {"state": state, "baseline": name}
    labels = {"sharing": BASELINE, "method": name, "client_opt": "none", "server_opt": "none"}
    labels_of_errors = {"state": state, **labels, "model": BASELINE}
    clients = list(enumerate(dataset.clients.tolist()))
    scores = [
        keys
        | {"split": split, "client": client}
        | task.scores(dataset, i, split, predict(i, dataset.starts(i, split)))
        | {"bytes": sent_bytes[i]}
        | facts
        for split in EVALUATED_SPLITS
        for i, client in clients
    ]
    weeks = []
    for i, _ in clients:
        starts = first_week(dataset, i)
        week = task.week_table(dataset, i, starts, {"forecast": predict(i, starts)})
        weeks.append(week.drop(columns=["truth", "persistence"]).assign(**keys))
    errors = []
    for i, client in clients:
        by_day = task.errors(dataset, i, predict(i, dataset.starts(i, "test")))
        errors.append(pd.DataFrame({**labels_of_errors, "client": client, **by_day}))
    return scores, weeks, errors


def _widen(dataset: Dataset, predict: Predict, task: Task) -> tuple[Predict, Floats]:
    """The baseline with widths of its intervals, from the validation set of each client, and these
    widths."""
    windows, bands, widths = [], [], []
    for i in range(len(dataset.clients)):
        starts = [dataset.starts(i, split) for split in EVALUATED_SPLITS]
        validation, test = (predict(i, split_starts) for split_starts in starts)
        widths.append(task.conformal_widths(dataset, i, validation))
        windows.append(np.concatenate(starts))
        predictions = np.concatenate([validation, test])
        bands.append(task.widen(dataset, i, windows[i], predictions, widths[i]))

    def predicted(i: int, starts: NDArray[np.int64]) -> NDArray[np.float64]:
        return bands[i][np.searchsorted(windows[i], starts)]

    return predicted, np.stack(widths)
