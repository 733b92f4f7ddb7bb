"""Every baseline on the dataset of a state, scored as the cells of the grid are."""

import itertools
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.base.errors import PlflError
from plfl.baselines import BASELINE, catalogue, linear, naive, targets, trees
from plfl.baselines.features import raw_bytes
from plfl.baselines.further import Further
from plfl.baselines.model import Fit, Predict, Trained, again
from plfl.config.named import STANDARD, BaselineRules, Standard
from plfl.data.dataset import SPLITS, Dataset
from plfl.tasks import Task
from plfl.tasks.forecast import Forecast
from plfl.tasks.quantiles import Quantiles

log = logging.getLogger(__name__)

MODULES: dict[str, Any] = {"naive": naive, "linear": linear, "trees": trees}
"""The modules of `plfl.baselines` that have the functions of `STANDARD`."""


def fits(boosting: trees.TreeSettings = trees.DEFAULT) -> dict[str, Fit]:
    """How each baseline of every study is trained. If `boosting` has levels, the baselines forecast
    these quantiles."""
    by_name: dict[str, Fit] = {}
    for name, baseline in STANDARD.items():
        fit = getattr(MODULES[baseline.module], name)
        if baseline.module == "trees":
            by_name[name] = partial(fit, boosting=boosting)
        else:
            levels = boosting.levels
            by_name[name] = again(targets.with_residuals(fit, levels) if levels else fit)
    return by_name


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


def evaluate(
    state: str,
    dataset: Dataset,
    boosting: trees.TreeSettings = trees.DEFAULT,
    task: Task | None = None,
    further: Sequence[Further] = (),
    leave_out: Collection[str] = (),
) -> BaselineTables:
    """Train every baseline but `leave_out` on the dataset of a state and score it on validation and
    test.

    A baseline that cannot forecast every window of a client's split has no score there, so that
    none can choose its windows. One that raises an error has no score at all, and the others go on.
    If the task has widths, each client has widths of its own, because a baseline has no server;
    DataError if a client has too few validation windows for them.
    """
    task = task or Forecast()
    task.check_calibration(dataset)
    levels = task.levels if isinstance(task, Quantiles) else ()
    boosting = replace(boosting, levels=levels)
    standard = fits(boosting)
    trained: dict[str, Trained] = {}

    def predictor(baseline: Standard | BaselineRules) -> tuple[Predict, Sequence[int]]:
        """The forecasts of a baseline, and what each client sends."""
        if isinstance(baseline, Further):
            fitted = baseline.trained(dataset, boosting, trained)
        else:
            raw = baseline.crosses == "raw data"
            sent = raw_bytes(dataset) if raw else [0] * len(dataset.clients)
            fitted = Trained(standard[baseline.name](dataset), sent)
        predict, sent = _kept(fitted.predict), fitted.sent
        trained[baseline.name] = fitted._replace(predict=predict)
        return _widened(dataset, predict, task) if task.widening != "none" else predict, sent

    tables = []
    described = catalogue(covariates=dataset.covariates.shape[1] > 0)
    wanted = [baseline for baseline in described.values() if baseline.name not in leave_out]
    for baseline in [*wanted, *further]:
        seen = isinstance(baseline, Further) and baseline.has_seen_the_data
        more = {"trained_on_this_dataset": seen, "failed": ""}
        try:
            tables.append(_tables(state, baseline.name, dataset, task, *predictor(baseline), more))
            log.info("%s: %s is scored", state, baseline.name)
        except (PlflError, MemoryError):
            raise  # the user can do something about it
        except Exception as error:
            log.warning("%s: %s failed and has no score", state, baseline.name, exc_info=True)
            more["failed"] = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
            like, nothing = predictor(STANDARD["persistence"])
            missing = partial(_missing, like)
            tables.append(_tables(state, baseline.name, dataset, task, missing, nothing, more))
    rows, weeks, errors = (list(itertools.chain(*parts)) for parts in zip(*tables, strict=True))
    week = pd.concat(weeks, ignore_index=True)
    order = ["state", "baseline", "client", "stamp", "forecast"]
    rest = [column for column in week if column not in order]
    return BaselineTables(
        pd.DataFrame(rows), week[[*order, *rest]], pd.concat(errors, ignore_index=True)
    )


def _kept(predict: Predict) -> Predict:
    """The same forecasts, of which none is computed twice."""
    known: dict[tuple[int, bytes], NDArray[np.float64]] = {}

    def kept(client: int, starts: NDArray[np.int64]) -> NDArray[np.float64]:
        key = client, starts.tobytes()
        if key not in known:
            known[key] = predict(client, starts)
            known[key].flags.writeable = False
        return known[key]

    return kept


def _missing(like: Predict, client: int, starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """No forecasts, in the shape of those of another baseline."""
    return np.full_like(like(client, starts), np.nan)


def _tables(
    state: str,
    name: str,
    dataset: Dataset,
    task: Task,
    predict: Predict,
    sent: Sequence[int],
    more: dict[str, Any],
) -> tuple[list[dict[str, Any]], list[pd.DataFrame], list[pd.DataFrame]]:
    """The rows of one baseline in the three tables of `BaselineTables`."""
    keys = {"state": state, "baseline": name}
    labels = {"sharing": BASELINE, "method": name, "client_opt": "none", "server_opt": "none"}
    of = {"state": state, **labels, "model": BASELINE}
    clients = list(enumerate(dataset.clients.tolist()))
    scores = [
        keys
        | {"split": split, "client": client}
        | task.scores(dataset, i, split, predict(i, dataset.starts(i, split)))
        | {"bytes": sent[i]}
        | more
        for split in SPLITS[1:]
        for i, client in clients
    ]
    weeks = []
    for i, _ in clients:
        starts = task.week(dataset, i)
        week = task.shown(dataset, i, starts, {"forecast": predict(i, starts)})
        weeks.append(week.drop(columns=["truth", "persistence"]).assign(**keys))
    errors = []
    for i, client in clients:
        by_day = task.errors(dataset, i, predict(i, dataset.starts(i, "test")))
        errors.append(pd.DataFrame({**of, "client": client, **by_day}))
    return scores, weeks, errors


def _widened(dataset: Dataset, predict: Predict, task: Task) -> Predict:
    """The baseline with widths of its intervals, from the validation set of each client."""
    windows, bands = [], []
    for i in range(len(dataset.clients)):
        starts = [dataset.starts(i, split) for split in SPLITS[1:]]
        validation, test = (predict(i, some) for some in starts)
        widths = task.conformal_widths(dataset, i, validation)
        windows.append(np.concatenate(starts))
        predictions = np.concatenate([validation, test])
        bands.append(task.widened(dataset, i, windows[i], predictions, widths))

    def predicted(i: int, starts: NDArray[np.int64]) -> NDArray[np.float64]:
        return bands[i][np.searchsorted(windows[i], starts)]

    return predicted
