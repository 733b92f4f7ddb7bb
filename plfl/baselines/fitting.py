"""Fits a baseline as for its scores, whatever it is: once, in up to two stages, with quantiles.

If the end of the history is held out to choose on, `Baseline.fit` forecasts the validation set, and
`Baseline.refit` the test set. A baseline without quantiles of its own gets those of its errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from plfl.baselines.features import raw_bytes
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Arrays, Baseline, FitSettings, FittedBaseline, Floats, Starts

RESIDUALS = "residuals"
"""What is saved of a forecast with the quantiles of its errors, beside what it saves itself."""


def fit(
    baseline: Baseline,
    dataset: Dataset,
    settings: FitSettings,
    fitted_members: Mapping[str, FittedBaseline],
) -> FittedBaseline:
    """Fit a baseline to all clients of a dataset, for forecasts of all its sets.

    `fitted_members`: fitted baselines, among them all that this one needs. RuntimeError if one is
    lacking.
    """
    if missing_members := [name for name in baseline.needs if name not in fitted_members]:
        raise RuntimeError(f"there are no forecasts of {', '.join(missing_members)}")
    members = {name: fitted_members[name] for name in baseline.needs}
    fitted_baseline = baseline.fit(dataset, settings, members)
    stages = [_with_quantiles(baseline, fitted_baseline, dataset, settings)]
    if dataset.view.is_rehearsal:
        whole_history = dataset.refit()
        fitted_baseline = baseline.refit(fitted_baseline, whole_history, settings, members)
        stages.append(_with_quantiles(baseline, fitted_baseline, whole_history, settings))
    bytes_sent = fitted_baseline.sent_bytes
    if bytes_sent is None:
        bytes_sent = (
            {"raw data": raw_bytes(dataset.with_view("whole"))}
            if baseline.crosses == "raw data"
            else {}
        )
    return Stages(dataset, stages[0], stages[-1], bytes_sent)


def _with_quantiles(
    baseline: Baseline, fitted_baseline: FittedBaseline, dataset: Dataset, settings: FitSettings
) -> FittedBaseline:
    if not settings.levels or baseline.has_quantiles:
        return fitted_baseline
    clients = range(len(dataset.clients))
    errors = [residuals(dataset, fitted_baseline, client, settings.levels) for client in clients]
    return WithErrors(fitted_baseline, dataset.horizons, errors)


def residuals(
    dataset: Dataset, fitted_baseline: FittedBaseline, client: int, levels: Sequence[float]
) -> Floats:
    """Quantiles (H, Q) of the errors of a forecast in a client's training set, minus their median,
    so that the forecast itself is the median. Each target has its own errors. Windows without a
    forecast are left out; NaN if there are no others."""
    starts = dataset.starts(client, "train")
    errors = dataset.truth(starts) - fitted_baseline.predict(client, starts)
    errors = errors.reshape(len(starts), dataset.horizons)
    errors = errors[~np.isnan(errors).any(axis=1)]
    if not len(errors):
        return np.full((dataset.horizons, len(levels)), np.nan)
    return np.quantile(errors - np.median(errors, axis=0), levels, axis=0).T


@dataclass(frozen=True)
class Stages(FittedBaseline):
    """A baseline that forecasts windows of the test set by its last stage, others by its first."""

    dataset: Dataset
    first: FittedBaseline
    last: FittedBaseline
    sent_bytes: Mapping[str, Sequence[int]] | None

    def predict(self, client: int, starts: Starts) -> Floats:
        if self.first is self.last:
            return self.first.predict(client, starts)
        test = starts >= self.dataset.view.bounds[client, 2]
        if test.any() and not test.all():
            raise ValueError("windows are of the test set and before it; forecast each apart")
        return (self.last if test.all() else self.first).predict(client, starts)

    def save(self, client: int) -> Arrays:
        return self.last.save(client)


@dataclass(frozen=True)
class WithErrors(FittedBaseline):
    """Quantiles (W, H, Q): a forecast plus quantiles of its errors."""

    fitted_baseline: FittedBaseline
    horizons: int
    errors: Sequence[Floats]
    """Of each client (H, Q), see `residuals`."""

    def predict(self, client: int, starts: Starts) -> Floats:
        forecast = self.fitted_baseline.predict(client, starts).reshape(len(starts), self.horizons)
        return np.asarray(forecast[..., None] + self.errors[client], float)

    def save(self, client: int) -> Arrays:
        return {**self.fitted_baseline.save(client), RESIDUALS: self.errors[client]}


@dataclass(frozen=True)
class RememberedBaseline(FittedBaseline):
    """A fitted baseline that computes no forecast twice."""

    fitted_baseline: FittedBaseline
    sent_bytes: Mapping[str, Sequence[int]] | None
    forecasts: dict[tuple[int, bytes], Floats] = field(default_factory=dict)

    def predict(self, client: int, starts: Starts) -> Floats:
        key = client, starts.tobytes()
        if key not in self.forecasts:
            self.forecasts[key] = self.fitted_baseline.predict(client, starts)
            self.forecasts[key].flags.writeable = False
        return self.forecasts[key]

    def save(self, client: int) -> Arrays:
        return self.fitted_baseline.save(client)


def join_sent(members: Mapping[str, FittedBaseline]) -> dict[str, Sequence[int]]:
    """What clients send for several baselines: messages or raw data that several of them need are
    sent once."""
    largest_sizes: dict[str, Sequence[int]] = {}
    for member in members.values():
        for source, sizes in (member.sent_bytes or {}).items():
            largest = np.maximum(largest_sizes.get(source, 0), sizes)
            largest_sizes[source] = np.asarray(largest).tolist()
    return largest_sizes


def total_sent(fitted_baseline: FittedBaseline, client_count: int) -> list[int]:
    """Bytes that each client sends in all."""
    sizes = [[0] * client_count, *(fitted_baseline.sent_bytes or {}).values()]
    return [int(size) for size in np.sum(sizes, axis=0)]
