"""Every baseline on the dataset of a state, scored as the cells of the grid are."""

import itertools
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from plfl.base.errors import PlflError
from plfl.baselines import catalogue
from plfl.baselines.fitting import RememberedBaseline, fit, total_sent
from plfl.baselines.storage import pack
from plfl.config.baselines import BASELINE
from plfl.data.dataset import EVALUATED_SPLITS, Dataset
from plfl.experiments.client_groups import list_baselines
from plfl.experiments.evaluated_forecasts import EvaluatedForecasts, PredictionsBySplit
from plfl.interfaces.baseline import Baseline, FitSettings, FittedBaseline, Floats, Starts
from plfl.interfaces.task import Task
from plfl.results.records import BaselineTables
from plfl.results.totals import Totals
from plfl.tasks import check_calibration
from plfl.tasks.forecast import Forecast
from plfl.tasks.loads import LoadTask

log = logging.getLogger(__name__)


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

    baselines = list_baselines(dataset.shape.covariates > 0, additional, leave_out)
    tables = []
    for baseline in baselines:
        facts = {"trained_on_this_dataset": baseline.has_seen_the_data, "failed": ""}
        try:
            with BaselineError.replaces_errors():
                staged = (earlier or {}).get(baseline.name)
                staged = staged or fit(baseline, dataset, settings, fitted_baselines)
                remembered = RememberedBaseline(staged, staged.sent_bytes)
                fitted_baselines[baseline.name] = remembered
                forecasts = _forecast(dataset, task, remembered)
                sent_bytes = total_sent(staged, len(dataset.clients))
                tables.append(_tables(state, baseline.name, forecasts, sent_bytes, facts))
            if forecasts.widths is not None:
                widths[baseline.name] = forecasts.widths
            log.info("%s: %s is scored", state, baseline.name)
        except BaselineError as failure:
            log.warning("%s: %s failed and has no score", state, baseline.name, exc_info=True)
            fitted_baselines.pop(baseline.name, None)
            facts["failed"] = str(failure).strip().partition("\n")[0]
            # Only the shape of its forecasts is used: the study may leave persistence out.
            persistence = fit(catalogue()["persistence"], dataset, settings, {})
            missing = _without_values(_forecast(dataset, task, persistence))
            no_bytes = total_sent(persistence, len(dataset.clients))
            tables.append(_tables(state, baseline.name, missing, no_bytes, facts))
    rows, weeks, errors = zip(*tables, strict=True)
    week: pd.DataFrame = pd.concat(weeks, ignore_index=True)
    order = ["state", "baseline", "client", "stamp", "forecast"]
    other_columns = [column for column in week if column not in order]
    return BaselineTables(
        pd.DataFrame(itertools.chain(*rows)),
        week[[*order, *other_columns]],
        pd.concat(itertools.chain(*errors), ignore_index=True),
        pack(baselines, fitted_baselines, widths, len(dataset.clients)),
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


def _forecast(dataset: Dataset, task: Task, fitted_baseline: FittedBaseline) -> EvaluatedForecasts:
    predictions: list[PredictionsBySplit] = [
        {split: fitted_baseline.predict(i, dataset.starts(i, split)) for split in EVALUATED_SPLITS}
        for i in range(len(dataset.clients))
    ]
    return EvaluatedForecasts.with_widths(dataset, task, predictions)


def _without_values(forecasts: EvaluatedForecasts) -> EvaluatedForecasts:
    """No forecasts, in the shape of those of another baseline."""
    predictions = [
        {split: np.full_like(values, np.nan) for split, values in by_split.items()}
        for by_split in forecasts.predictions
    ]
    return replace(forecasts, predictions=predictions)


def _tables(
    state: str,
    name: str,
    forecasts: EvaluatedForecasts,
    sent_bytes: Sequence[int],
    facts: dict[str, Any],
) -> tuple[list[dict[str, Any]], pd.DataFrame, list[pd.DataFrame]]:
    """The rows of one baseline in the three tables of `BaselineTables`."""
    keys = {"state": state, "baseline": name}
    labels = {"sharing": BASELINE, "method": name, "client_opt": "none", "server_opt": "none"}
    labels_of_errors = {"state": state, **labels, "model": BASELINE}
    rows = [
        keys | {"split": split, "client": client} | scores | {"bytes": size} | facts
        for split in EVALUATED_SPLITS
        for (client, scores), size in zip(forecasts.scores(split), sent_bytes, strict=True)
    ]
    week = EvaluatedForecasts.join_weeks({"forecast": forecasts})
    errors = [
        pd.DataFrame({**labels_of_errors, "client": client, **by_day})
        for client, by_day in forecasts.errors()
    ]
    return rows, week.drop(columns=["truth", "persistence"]).assign(**keys), errors
