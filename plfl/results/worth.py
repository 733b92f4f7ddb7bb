"""What a federation is worth in a study with axes: by place on the axes, and by meter. A place is
one combination of values of the axes.

States and origins (`data.origins`) are pooled (`plfl.results.contrasts`). At each place on the
other axes, the way of forecasting with the lowest validation MASE is chosen three times: among the
ways in which clients are alone, those that exchange models, and those that use the raw data of all
clients. Nothing here is corrected for the number of comparisons: the tables are exploratory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from plfl.baselines import BASELINE, find
from plfl.config.axes import Axis
from plfl.config.study import Study
from plfl.results.contrasts import EXPLORATORY
from plfl.results.labels import baseline_label, method_label
from plfl.results.meters import monthly_error
from plfl.results.pooling import Piece, by_state, pooled
from plfl.results.records import Model
from plfl.results.scores import Forecaster
from plfl.results.statistics import Comparison
from plfl.results.variants import Variant, grouped

ORIGINS = "data.origins"
"""The axis whose values have different test sets."""
MAP, METERS = "map.csv", "meters.csv"
Kind = Literal["alone", "federated", "raw"]
KINDS: tuple[Kind, ...] = ("alone", "federated", "raw")
"""The kinds of ways, by what clients exchange: nothing, models, raw data."""


@dataclass(frozen=True)
class Way:
    """A way of forecasting: a sharing scheme with a method and model, or a baseline."""

    kind: Kind
    sharing: str
    method: str
    model: Model = "local"

    @property
    def label(self) -> str:
        """Its name in figures and tables."""
        if self.sharing == BASELINE:
            return baseline_label(self.method)
        own = "" if self.model == "local" else ", global"
        return f"{self.sharing}, {method_label(self.method)}{own}"


@dataclass(frozen=True)
class Found:
    """The results of a way of forecasting at a place: its best cell in each state and variant."""

    way: Way
    cells: list[tuple[Variant, Forecaster]]

    @property
    def pieces(self) -> list[Forecaster]:
        """The cells without their variants."""
        return [one for _, one in self.cells]

    @property
    def validation(self) -> float:
        """Validation MASE, mean over all clients of all states and origins."""
        clients = [len(one.clients) for one in self.pieces]
        return float(np.average([one.validation for one in self.pieces], weights=clients))

    @property
    def mase(self) -> float:
        """Test MASE, mean over all clients and seeds."""
        return pooled([], self.pieces).effect

    def less(self, other: Found) -> Comparison:
        """The MASE of another way minus that of this one: positive where this one is better."""
        trained = any(one.way.sharing != BASELINE for one in (self, other))
        names = [f"{one.way.sharing}-{one.way.method}" for one in (self, other)]
        return pooled(names, self.gains(other), trained)

    def gains(self, other: Found) -> list[Piece]:
        """The differences that `less` pools, by state and variant."""
        return [a.lead(b) for a, b in zip(self.pieces, other.pieces, strict=True)]

    @property
    def bytes(self) -> float:
        """Bytes that cross for a client in a training, in both directions."""
        of_states = [_bytes(variant, one, self.way) for variant, one in self.cells]
        return sum(of_states) / sum(len(one.clients) for one in self.pieces)


Place = dict[str, str]
"""Labels on the axes, except that of the origins, by column."""
Chosen = dict[Kind, Found]
"""The best way of each kind that a place has."""


def shown(study: Study) -> list[Axis]:
    """The axes of the map, the one with most values first."""
    axes = [axis for axis in study.axes if axis.key != ORIGINS]
    return sorted(axes, key=lambda axis: -len(axis.choices))


def tables(study: Study, found: Sequence[Variant]) -> dict[str, pd.DataFrame]:
    """The tables of the map and of the meters, by the names of their files.

    `map.csv` has a row per place: the axes but `data.origins`; `best`, the best way without raw
    data, and `alone`, `federated`, `raw`, the best way of each kind, with their test MASE;
    `lead`, the MASE of `alone` minus that of `federated`, and `price`, that of `best` minus that of
    `raw`, each with its 95 % interval and its range without one of the states; bytes of a client
    (`bytes_best`, …); numbers of clients, states, origins and weeks.

    `meters.csv` has a row per place and client, with means over the origins: the MASE of `alone`
    and `federated`, the `gain` from the federation with its 95 % interval over weeks, the same in
    `percent` of the error of `alone`, and the absolute errors saved in 30 days, `kwh_a_month`.
    """
    places = [(place, _chosen(variants)) for place, variants in _places(found)]
    rows = [place | _row(chosen) for place, chosen in places]
    both = [(place, one) for place, one in places if {"alone", "federated"} <= one.keys()]
    meters = [place | row for place, one in both for row in _meters(one)]
    columns = [*(axis.column for axis in shown(study)), *_METER]
    return {MAP: pd.DataFrame(rows), METERS: pd.DataFrame(meters, columns=columns)}


def _places(found: Sequence[Variant]) -> Iterator[tuple[Place, list[Variant]]]:
    for group in grouped(found, [ORIGINS]):
        yield {c: v for c, v in group[0].place.items() if c != ORIGINS}, group


def _chosen(variants: Sequence[Variant]) -> Chosen:
    chosen: Chosen = {}
    for way in _ways(variants[0]):
        found = _found(way, variants)
        rival = chosen.get(way.kind)
        if found and (rival is None or found.validation < rival.validation):
            chosen[way.kind] = found
    return chosen


def _ways(variant: Variant) -> Iterator[Way]:
    study = variant.tables.study
    for sharing, method in variant.tables.kinds():
        kind: Kind = "raw" if study.joins(sharing) == "raw" else "federated"
        if study.combinations.shares_nothing(sharing):
            kind = "alone"
        for model in variant.models(sharing, method):
            yield Way(kind, sharing, method, model)
    of_baselines: dict[str, Kind] = {"nothing": "alone", "models": "federated", "raw data": "raw"}
    for name in dict.fromkeys(variant.tables.baselines["baseline"]):
        if name not in variant.tables.have_seen_the_data:
            yield Way(of_baselines[find(name).crosses], BASELINE, name)


def _found(way: Way, variants: Sequence[Variant]) -> Found | None:
    """The best cells of a way; None if it has no score in a state of a variant."""
    cells = []
    for variant in variants:
        for state in variant.scores[way.model]:
            one = variant.best(way.model, state, sharing=way.sharing, method=way.method)
            if one is None:
                return None
            cells.append((variant, one))
    found = Found(way, cells)
    return found if pooled([], found.pieces).scored else None


def _row(chosen: Chosen) -> dict[str, Any]:
    without = [found for kind, found in chosen.items() if kind != "raw"]
    best = min(without, key=lambda found: found.validation) if without else None
    named: dict[str, Found | None] = {"best": best}
    named |= {kind: chosen.get(kind) for kind in KINDS}
    row: dict[str, Any] = {"family": EXPLORATORY}
    row |= {name: found.way.label if found else "" for name, found in named.items()}
    row |= {f"mase_{name}": found.mase if found else np.nan for name, found in named.items()}
    lead = _difference("lead", chosen.get("federated"), chosen.get("alone"))
    row |= lead | _difference("price", chosen.get("raw"), best)
    row |= {f"bytes_{name}": found.bytes if found else np.nan for name, found in named.items()}
    if best:
        own = pooled([], best.pieces)
        row["clients"] = sum(map(len, own.scored.values()))
        row["states"] = len(own.scored)
        row["origins"] = max(map(len, own.origins.values()))
        row["weeks"] = own.parts["weeks"].levels
    return row


def _difference(name: str, better: Found | None, worse: Found | None) -> dict[str, float]:
    ends = ("", "_low", "_high", "_lowest", "_highest")
    columns = [f"{name}{end}" for end in ends]
    if better is None or worse is None:
        return dict.fromkeys(columns, np.nan)
    found = better.less(worse)
    if not found.scored:
        return dict.fromkeys(columns, np.nan)
    without = found.without_one_state or (np.nan, np.nan)
    return dict(zip(columns, (found.effect, *found.interval, *without), strict=True))


def _bytes(variant: Variant, one: Forecaster, way: Way) -> float:
    """Bytes of all clients of a state."""
    if way.sharing == BASELINE:
        return float(variant.tables.baseline_scores["bytes"][one.state, way.method])
    rows = variant.summarised(way.model, one.name)
    return float((rows["bytes_down"] + rows["bytes_up"]).mean())


_METER = ["state", "client", "mase_alone", "mase_federated", "gain", "low", "high"]
_METER += ["percent", "kwh_a_month"]


def _meters(chosen: Chosen) -> Iterator[dict[str, Any]]:
    alone = by_state(chosen["alone"].pieces)
    saved = by_state(list(_in_energy(chosen["federated"], chosen["alone"])))
    for state, gains in by_state(chosen["federated"].gains(chosen["alone"])).items():
        for i, client in enumerate(gains.clients):
            weekly = {state: gains.weekly[[i]].mean(axis=1, keepdims=True)}
            own = Comparison((), weekly, False, {state: gains.weeks}, sampled=False)
            if not own.scored:
                continue
            before = float(alone[state].weekly[i].mean(axis=0).sum())
            gain = own.effect
            row = (state, client, before, before - gain, gain, *own.interval)
            percent = 100 * gain / before if before else np.nan
            kwh = float(saved[state].weekly[i].mean(axis=0).sum())
            yield dict(zip(_METER, (*row, percent, kwh), strict=True))


def _in_energy(better: Found, worse: Found) -> Iterator[Piece]:
    """The gains in kWh per month; MASE is in units of the error of persistence."""
    gains = better.gains(worse)
    for gain, (variant, one) in zip(gains, better.cells, strict=True):
        factor = monthly_error(variant.tables, one.state).loc[list(gain.clients)]
        weekly = gain.weekly * factor.to_numpy(float)[:, None, None]
        yield Piece(gain.state, gain.origin, gain.clients, weekly)
