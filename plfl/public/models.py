"""The models of public meters that come with plfl: one for homes, one for buildings.

The studies `config/starter-*.yaml` make their files. Each kind has a model of the next hour and one
of the next 24 hours, for the quantiles `PUBLIC_LEVELS`. Its card says on which meters they were
trained, under which licences, and how they did at sites that took no part (docs/public.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from lzma import LZMAError
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from plfl.base.errors import DataError, Problem
from plfl.base.lazy import lightgbm
from plfl.config.named import MeterKind as MeterKind
from plfl.public.inputs import LEAD_HOURS, Floats, HourlyLoads, Integers, LeadTime, inputs_of
from plfl.public.packing import MadeWhenRead, unpack
from plfl.training.tree_kernel import Forest

METER_KINDS: tuple[MeterKind, ...] = get_args(MeterKind)
"""The kinds of meters for which a model comes with plfl."""
PUBLIC_LEVELS = (0.1, 0.5, 0.9)
"""The quantiles that a model forecasts, the median in the middle."""
MODELS_FOLDER = Path(__file__).parent / "files"
"""The folder of the models and their cards."""
DIGESTS: dict[MeterKind, str] = {
    "homes": "7788fb2f7cabb1e291523d3e6ef7ddbea36ac331fb36959e2ba16aefcc9c1e2c",
    "buildings": "6e3c58dee030105d7694bb5699760025107e451d96460f5ac3626f76e6658d16",
}
"""SHA-256 of the file of each kind."""
TRAINED_ON: dict[MeterKind, tuple[str, ...]] = {
    "homes": ("Low Carbon London", "Ausgrid: Sydney"),
    "buildings": (
        "Building Data Genome Project 2: Fox, Panther, Bear",
        "University of Cambridge",
    ),
}
"""The meters whose readings a kind was trained on. A score at one of them is none of a stranger."""


def booster_name(lead_time: LeadTime, level: float) -> str:
    """The name of a quantile's booster, as `hour_10` for the 0.1 quantile of the next hour."""
    return f"{lead_time}_{round(100 * level)}"


@dataclass(frozen=True)
class PublicModel:
    """Models of public meters that forecast any meter of their kind."""

    kind: MeterKind
    boosters: Mapping[str, Any]
    """LightGBM's boosters, by `booster_name`."""
    marks: NDArray[np.uint64]
    """Marks of the days that it was trained on, see `plfl.public.seen`."""

    @cached_property
    def _forests(self) -> Mapping[str, Forest]:
        return MadeWhenRead(self.boosters, lambda name: Forest(self.boosters[name]))

    @property
    def levels(self) -> tuple[float, ...]:
        """The quantiles of `PUBLIC_LEVELS` that it has for both lead times."""
        names = set(self.boosters)
        return tuple(
            q
            for q in PUBLIC_LEVELS
            if names.issuperset(booster_name(ahead, q) for ahead in LEAD_HOURS)
        )

    def predict(
        self,
        loads: HourlyLoads,
        lead_time: LeadTime,
        last: Integers,
        lead: Integers,
        levels: Sequence[float] = PUBLIC_LEVELS,
    ) -> Floats:
        """The quantiles (W, Q) of windows, ascending, in the unit of the loads; see `inputs_of`.
        NaN where too little is known."""
        inputs = inputs_of(loads, lead_time, last, lead)
        names = [booster_name(lead_time, level) for level in levels]
        outputs = [self._forests[name].predict(inputs.features) for name in names]
        return np.sort([inputs.loads_of_outputs(output) for output in outputs], axis=0).T


@cache
def load(kind: MeterKind) -> PublicModel:
    """The model of a kind that comes with plfl; DataError if its file was changed."""
    content = file_of(kind).read_bytes()
    if not is_shipped(kind, content):
        raise DataError(
            Problem(
                file_of(kind),
                "is not the file that came with plfl (its digest differs)",
                "install plfl again",
            )
        )
    return _unpack(kind, content)


def is_shipped(kind: MeterKind, content: bytes) -> bool:
    """Whether a file is the one of the kind that comes with plfl."""
    return hashlib.sha256(content).hexdigest() == DIGESTS[kind]


@cache
def load_file(kind: MeterKind, path: Path) -> PublicModel:
    """The model of `read_file`, which is read once."""
    return read_file(kind, path)


def read_file(kind: MeterKind, path: Path) -> PublicModel:
    """A model in a file that a study made (`public`); DataError if it is missing or damaged."""
    try:
        return _unpack(kind, path.read_bytes())
    except FileNotFoundError:
        raise DataError(
            Problem(
                path,
                "is missing",
                "a study with `public` makes models of public meters, and so does "
                "`python -m benchmarks.starter`",
            )
        ) from None
    except (LZMAError, SafetensorError, KeyError):
        raise DataError(
            Problem(
                path,
                "is no model of public meters, or is damaged",
                "remove it and run the study that makes it again, or name another file",
            )
        ) from None


def _unpack(kind: MeterKind, content: bytes) -> PublicModel:
    texts, marks = unpack(content)
    boosters = MadeWhenRead(texts, lambda name: lightgbm.Booster(model_str=texts[name]))
    return PublicModel(kind, boosters, marks)


def file_of(kind: MeterKind) -> Path:
    """The file of a kind's models."""
    return MODELS_FOLDER / f"{kind}.xz"


def card(kind: MeterKind) -> str:
    """The card of a kind's models, as Markdown."""
    return (MODELS_FOLDER / f"{kind}.md").read_text(encoding="utf-8")
