"""The errors that a new meter can expect of what `plfl forecast --new` takes, and of its rivals.

A study with a sharing scheme for new clients (`sharing.NAME.history`) knows what a network as
received would have done. Here each meter in turn gets the other forecasters that a new meter can
have: trees of others, a model of public meters, and their means. It knows as many weeks of its own
readings, and what it receives was made without it: trees of the federation need `turns`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from plfl.base.errors import PlflError, Problem
from plfl.baselines.storage import fit_to_new, settings_of, unpack
from plfl.data.dataset import Dataset
from plfl.forecast.choice import rank_for_new
from plfl.forecast.kept_errors import RIVAL
from plfl.interfaces.baseline import Arrays
from plfl.study import Study

log = logging.getLogger(__name__)


def score_as_new(
    study: Study,
    state: str,
    dataset: Dataset,
    names: Collection[str],
    validation: Mapping[str, float],
    packed_baselines: Arrays,
) -> Iterator[dict[str, Any]]:
    """Rows of the columns `NEW_COLUMNS` for the clients of a state, if the study has a sharing
    scheme for new ones. `names`: of the forecasters that are kept; `validation`: see
    `rank_for_new`; `packed_baselines`: the fitted baselines."""
    for weeks in sorted({*study.plan.schemes.for_new.values()}):
        preferred_names = list(rank_for_new(names, weeks, validation))
        if RIVAL in names:
            preferred_names = [*dict.fromkeys([*preferred_names, RIVAL])]
        for name in preferred_names:
            if study.baselines.knows_own_readings(name):
                continue
            saved_baselines = unpack(study.baselines, name, packed_baselines, len(dataset.clients))
            for number, client in enumerate(dataset.clients.tolist()):
                own_dataset = dataset.with_view("new").select(np.array([number]))
                own_dataset = own_dataset.copy_on_rows(
                    views={"usual": own_dataset.view}, view_name="usual"
                )
                try:
                    fitted_baselines = fit_to_new(
                        study.baselines,
                        name,
                        saved_baselines[number],
                        own_dataset,
                        settings_of(study),
                    )
                except PlflError:  # too few readings to fit it to them
                    text = f"{name} cannot be fitted as to a new meter"
                    log.warning("%s", Problem(client, text, meter=client))
                    continue
                forecasts = fitted_baselines[name].predict(0, own_dataset.starts(0, "test"))
                scores = study.task.scores(own_dataset, 0, "test", forecasts)
                labels = {"state": state, "client": client, "weeks": weeks, "forecaster": name}
                yield {**labels, "mase": scores["mase"]}
