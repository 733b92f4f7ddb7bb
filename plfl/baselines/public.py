"""A model of public meters of other places (docs/public.md): it needs no other client.

Its inputs are the client's own loads of up to four weeks, as far as it knows them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from plfl.base.errors import DataError, Problem
from plfl.base.keys import Key
from plfl.baselines.fitting import RESIDUALS, WithErrors, residuals
from plfl.baselines.pretrained import PretrainedElsewhere
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Arrays, FitSettings, FittedBaseline, Floats, Starts
from plfl.public.inputs import CONTEXT, LEAD_HOURS
from plfl.public.meter import MEDIAN_LEVELS, MeterReadings, predict_intervals
from plfl.public.models import PUBLIC_LEVELS, MeterKind, PublicModel, load, load_file
from plfl.public.seen import is_seen


@dataclass(frozen=True)
class PublicFit(FittedBaseline):
    """A public model with the readings of the clients."""

    dataset: Dataset
    model: PublicModel
    levels: tuple[float, ...] = ()
    """The levels to forecast; empty: the median."""

    @cached_property
    def _meters(self) -> dict[tuple[int, int], MeterReadings]:
        return {}

    def predict(self, client: int, starts: Starts) -> Floats:
        dataset, first = self.dataset, int(self.dataset.view.bounds[client, 0])
        parts_of_hour = 60 // dataset.interval
        levels = self.levels or MEDIAN_LEVELS
        forecasts = np.full((len(starts), dataset.horizons, len(levels)), np.nan)
        ends = dataset.persistence_rows(starts) - first  # the last known row, as the client counts
        steps = dataset.look_ahead - 1 + np.arange(dataset.horizons)
        usable = steps < LEAD_HOURS["day"] * parts_of_hour
        leads = np.arange(1, 1 + -(-int(steps[usable].max(initial=-1) + 1) // parts_of_hour))
        for pad in range(parts_of_hour):
            whole_hours = np.flatnonzero((ends + pad + 1) % parts_of_hour == 0)
            if not len(whole_hours) or not len(leads):
                continue
            last = (ends[whole_hours] + pad) // parts_of_hour
            readings = self._readings(client, pad)
            intervals = predict_intervals(self.model, readings, last, leads, levels)
            flat = intervals.reshape(len(whole_hours), -1, len(levels))
            forecasts[np.ix_(whole_hours, usable)] = flat[:, steps[usable]]
        return forecasts if self.levels else forecasts.reshape(dataset.truth(starts).shape)

    def _readings(self, client: int, pad: int) -> MeterReadings:
        """The readings of a client in hours, of which the first lacks `pad` rows."""
        if (client, pad) not in self._meters:
            dataset, parts_of_hour = self.dataset, 60 // self.dataset.interval
            first, end = dataset.view.bounds[client, [0, 3]].tolist()
            end -= (end - first + pad) % parts_of_hour
            load = np.concatenate([np.full(pad, np.nan), dataset.load[first:end]])
            stamps = dataset.stamps[first:end].astype("datetime64[s]")[
                parts_of_hour - 1 - pad :: parts_of_hour
            ]
            readings = MeterReadings(load.reshape(-1, parts_of_hour), stamps, dataset.interval)
            self._meters[client, pad] = readings
        return self._meters[client, pad]

    def seen_client(self) -> str:
        """The name of a client on which the model was trained; empty if there is none."""
        parts_of_hour = 60 // self.dataset.interval
        for client, name in enumerate(self.dataset.clients.tolist()):
            for pad in range(parts_of_hour):
                readings = self._readings(client, pad)
                if is_seen(readings.hours.load, readings.stamps, self.model.marks):
                    return str(name)
        return ""


class Public(PretrainedElsewhere):
    """The median of a public model, for windows of intervals of an hour or a part of it; no
    forecast of targets after the next 24 hours. Levels between its quantiles are interpolated; if a
    study asks for others, all but the median are those of its errors in training."""

    name: ClassVar[str] = "public"
    label: ClassVar[str] = "Public model"
    about: ClassVar[str] = (
        "Gradient-boosted trees that come with plfl, trained on public meters of other places."
    )
    has_quantiles: ClassVar[bool] = True
    forecasts_medians: ClassVar[bool] = True

    kind: MeterKind
    """What the meters are: homes or buildings."""
    file: Path | Annotated[list[Path], Field(min_length=1)] | None = None
    """Of a study's `public` models; of several, a state's is the first not trained on it; null:
    plfl's."""
    trained_on_this_dataset: bool = False
    """Whether it was: then it does not count."""

    def count_context(self, interval: int) -> int:
        # One hour more for the step to the first one, and one of which it may only have a part.
        return (CONTEXT + 2) * 60 // interval

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> FittedBaseline:
        public_fit, levels = self.choose_unseen(dataset), settings.levels
        if all(PUBLIC_LEVELS[0] <= level <= PUBLIC_LEVELS[-1] for level in levels):
            if levels and public_fit.model.levels != PUBLIC_LEVELS:
                raise DataError(
                    Problem(
                        Key("baselines.further"),
                        "public: its file has models of the median alone, and the study asks for "
                        "quantiles",
                        "make it by a study with the section `public` (docs/public.md)",
                    )
                )
            return replace(public_fit, levels=levels)
        clients = range(len(dataset.clients))
        errors = [residuals(dataset, public_fit, client, levels) for client in clients]
        return WithErrors(public_fit, dataset.horizons, errors)

    def choose_unseen(self, dataset: Dataset) -> PublicFit:
        """The model of `choose`. DataError: it cannot forecast such readings, or was trained on
        them, and the study does not say so."""
        if dataset.interval > 60 or 60 % dataset.interval:
            raise DataError(
                Problem(
                    Key("baselines.further"),
                    f"public: readings every {dataset.interval} minutes do not add up to hours",
                    "remove it",
                )
            )
        public_fit = self.choose(dataset)
        if not self.trained_on_this_dataset and (client := public_fit.seen_client()):
            raise DataError(
                Problem(
                    Key("baselines.further"),
                    f"the public model of {self.kind} was trained on readings of {client}",
                    "set `trained_on_this_dataset: true` beside `name: public`, so that it does "
                    "not count, or `file` to a model without this site",
                )
            )
        return public_fit

    def choose(self, dataset: Dataset) -> PublicFit:
        """The model of the file, or plfl's; of several files the first that was not trained on
        readings of a client, or else the first."""
        if self.file is None:
            return PublicFit(dataset, load(self.kind))
        if not isinstance(self.file, list):
            return PublicFit(dataset, load_file(self.kind, self.file))
        fits = (PublicFit(dataset, load_file(self.kind, file)) for file in self.file)
        first_fit = next(fits)
        unseen_fits = (fit for fit in chain([first_fit], fits) if not fit.seen_client())
        return next(unseen_fits, first_fit)

    def restore(
        self,
        arrays: Arrays,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> FittedBaseline:
        # Whether it has seen the client was found out when the study ran.
        return replace(self.choose(dataset), levels=() if RESIDUALS in arrays else settings.levels)
