"""The parameters that a federation starts from, if they are those of a model of another study."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import DataError, Problem
from plfl.results.records import read_models
from plfl.study import FORMAT, Study

WINDOW_KEYS = ("look_back", "look_ahead", "horizons", "target", "covariates", "scaling")
"""Keys of windows that say what a model reads and forecasts."""


def read_start(path: Path, study: Study) -> NDArray[np.float32]:
    """The mean (P,) of the global models in a file of `results/NAME/models`, which are the same if
    all parameters are shared, for a study with the same model.

    Raises:
        ResultsError: the file is missing or damaged.
        DataError: it has no global model, or one that reads or forecasts something else.
    """
    models, facts = read_models(path)
    place = f"federation.start: {path}"
    if facts.get("format") != FORMAT or "columns" not in facts:
        raise DataError(
            Problem(
                place,
                f"is no file of models of format {FORMAT}, which this version of plfl reads",
                "name a file of the folder models of a results folder",
            )
        )
    if "global" not in models:
        raise DataError(
            Problem(
                place,
                "has no global model",
                "name the file of a sharing scheme that shares parameters, such as P1",
            )
        )
    if differing := [*_differences(study, facts)]:
        raise DataError(
            Problem(
                place,
                f"its model differs from that of the study in {', '.join(differing)}",
                "train it with these keys as here",
            )
        )
    rows = models["global"]
    start: NDArray[np.float32] = rows[0]
    return start if (rows == start).all() else rows.mean(axis=0, dtype=np.float32)


def _differences(study: Study, facts: Mapping[str, Any]) -> list[str]:
    """The keys in which the model of a file, given its header, differs from that of a study."""
    other_study = Study.model_validate(facts["study"])
    differing = [
        f"windows.{key}"
        for key in WINDOW_KEYS
        if getattr(study.windows, key) != getattr(other_study.windows, key)
    ]
    if study.data.features != other_study.data.features:
        differing.append("data.features")
    if study.data.interval != other_study.data.interval:
        minutes = f"{other_study.data.interval} instead of {study.data.interval} min"
        differing.append(f"the interval of readings ({minutes})")
    settings = {"model": (study.model.settings, other_study.model.settings)}
    settings["task"] = study.task.settings, other_study.task.settings
    differing += [key for key, pair in settings.items() if pair[0] != pair[1]]
    shapes = {name: list(shape) for name, shape in study.plan.layout.all_shapes.items()}
    if not differing and facts["parameters"] != shapes:
        differing.append("its parameters")
    return differing
