"""Repeat the baselines of three cells of the map outside of plfl.

    python -m benchmarks.outside FOLDER MODELS    # the wide tables, see docs/measured-meters.md

plfl runs a small variant of `config/map.yaml` for each of three cells. What it has written is
compared with numbers from the raw tables, for which nothing of plfl is imported: numpy, pandas and
LightGBM alone. MODELS has `without-SITE.xz`, public models that `make map` makes; their trees are
read and walked here, too. The mean error of all meters of a site by its public model is compared
with docs/map_public.csv. The status is 1 if an error of a baseline differs by more than a millionth
of it, or a mean in its fourth decimal.
"""

import argparse
import json
import lzma
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import yaml

from examples import public_model

ROOT = Path(__file__).parents[1]
CELLS = (("fox", "2017-09-24", 1), ("panther", "2017-12-03", 16), ("bear", "2017-12-03", 40))
"""Site, origin and weeks of history."""
METERS, LIMIT = 6, 1e-6
DAY, WEEK, TESTED = 24, 168, 4 * 168
LOOK_BACK = 12
LAGS = [days * DAY - j for days in (1, 2, 7) for j in range(-2, 3)]
"""Rows before the target."""
TREES, TURNS, BAGS = 60, 2, 2
BOOSTING: dict[str, Any] = {
    **{"objective": "l1", "min_child_samples": 20, "seed": 1, "num_threads": 1, "verbosity": -1},
    **{"deterministic": True, "force_row_wise": True, "use_quantized_grad": True},
    **{"max_bin": 63},
}
DRAWN: dict[str, Any] = {
    **{"bagging_fraction": 0.8, "bagging_freq": 1, "feature_fraction": 0.8},
    "use_quantized_grad": False,
}
PUBLIC: dict[str, Any] = {
    **{"enable_bundle": False, "feature_pre_filter": False, "min_data_in_bin": 1},
    "boost_from_average": False,
}
TRIED = [{"num_leaves": leaves, "learning_rate": rate} for leaves in (7, 31) for rate in (0.1, 0.3)]
"""Settings, of which each model keeps the best on validation."""
SCORES = ["mae", "rmse", "mase"]
Rows = np.ndarray
LEFT_OUT = ["naive_week", "naive_mean", "naive_weeks", "linear", "ridge_lags", "lightgbm"]
LEFT_OUT += ["lightgbm_covariates"]
Forecast = Callable[["Meter", Rows], np.ndarray]
"""Loads (W,) at the target rows (W,) of a meter."""


def study(site: str, origin: str, weeks: int, table: Path, model: Path) -> dict[str, Any]:
    """The variant of `config/map.yaml` with one cell, and a file of public models."""
    raw = yaml.safe_load((ROOT / "config" / "map.yaml").read_text(encoding="utf-8"))
    raw["name"] = f"outside-{site}"
    raw["data"] |= {"states": [site], "clients": METERS, "origins": [origin]}
    zones = {k: v for k, v in raw["data"]["meters"]["timezones"].items() if site in k.lower()}
    raw["data"]["meters"] |= {"exports": [str(table)], "timezones": zones}
    raw["windows"]["history"] = weeks
    raw["sharing"] = {"P3": [], "unseen": {"join": "unseen", "turns": TURNS}}
    raw["grid"] = {"sharing": ["P3", "unseen"], "client_opt": ["adamw"], "seeds": [1]}
    del raw["claims"], raw["hyperparameters"]["method"]
    received, members = ["lightgbm_federated"], ["ridge", "lightgbm_bagged"]
    further: list[dict[str, Any]] = [
        {"name": "lightgbm_mean"},
        {"name": "lightgbm_others", "turns": TURNS},
        {"name": "lightgbm_bagged", "models": BAGS},
        {"name": "lightgbm_federated", "turns": TURNS},
        {"name": "lightgbm_stacked", "models": BAGS, "of": received},
        {"name": "combined", "of": members},
        {"name": "combined_received", "of": members + received},
        {"name": "public", "kind": "buildings", "file": str(model)},
        {"name": "mean_received", "of": [*received, "public"]},
        {"name": "combined_public", "of": [*members, "public"]},
    ]
    raw["baselines"] |= {"max_bin": 63, "leave_out": LEFT_OUT, "further": further}
    return raw


@dataclass(frozen=True, eq=False)
class Meter:
    """What is known of a meter in a cell. Rows are hours, and a window is named by its target."""

    name: str
    load: np.ndarray
    """kWh (R,), up to the end of the test set."""
    stamps: pd.DatetimeIndex
    """Ends of the hours (R,)."""
    first: int
    """First row of the history."""
    test: int
    """First row of the test set."""
    held: int
    """Rows at the end of the history on which is chosen; 0 where it is for training, too."""
    chosen_on: int
    """The same, but never 0."""

    @property
    def end(self) -> int:
        """Where training ends."""
        return self.test - self.held

    def back(self, steps: int) -> np.ndarray:
        """The load (R,) so many rows before, NaN before the history."""
        earlier = np.full(len(self.load), np.nan)
        earlier[self.first + steps :] = self.load[self.first : len(self.load) - steps]
        return earlier

    def lags(self) -> np.ndarray:
        """Loads (R, D) at `LAGS`; the last known load before the history."""
        past = np.stack([self.back(d) for d in LAGS], axis=1)
        early = np.arange(len(self.load))[:, None] - LAGS < self.first
        return np.where(early, self.back(1)[:, None], past)

    @cached_property
    def look_back(self) -> np.ndarray:
        """The twelve loads (R, 12) before each target."""
        return np.stack([self.back(LOOK_BACK - k) for k in range(LOOK_BACK)], axis=1)

    def rows(self, part: str) -> Rows:
        """The targets of a set, without those of windows that touch a gap."""
        begin, end = {
            "train": (self.first + LOOK_BACK, self.end),
            "validation": (self.test - self.chosen_on, self.test),
            "test": (self.test + LOOK_BACK, len(self.load)),
        }[part]
        whole = np.isfinite(np.column_stack([self.load, self.look_back, self.lags()])).all(axis=1)
        return np.flatnonzero(
            whole & (np.arange(len(whole)) >= begin) & (np.arange(len(whole)) < end)
        )

    def unit(self) -> tuple[float, float, float]:
        """Mean change in an hour, mean and deviation of the training set."""
        load = self.load[self.first : self.end]
        return (
            float(np.nanmean(np.abs(np.diff(load)))),
            float(np.nanmean(load)),
            float(np.nanstd(load)),
        )

    def level(self) -> np.ndarray:
        """Standard score of the last load, and logarithm of its ratio to the mean (R, 2)."""
        _, mean, deviation = self.unit()
        last = self.back(1)
        return np.stack([(last - mean) / deviation, np.log(np.maximum(last / mean, 1e-6))], axis=1)

    def clock(self, harmonics: int) -> np.ndarray:
        """Sines and cosines of the time of day (R, 2 · harmonics), of nine decimals."""
        angle = 2 * np.pi * self.stamps.hour.to_numpy()[:, None] / 24 * np.arange(1, harmonics + 1)
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).round(9)

    @property
    def weekdays(self) -> np.ndarray:
        """The day of the week (R, 7), one-hot."""
        return np.eye(7)[self.stamps.day_of_week.to_numpy()]


def meters(table: Path, origin: str, weeks: int | None, most: int | None = METERS) -> list[Meter]:
    """The first meters of a wide table at an origin, with so many weeks of history; None: all."""
    wide, read = pd.read_parquet(table), []
    for name in sorted(wide)[:most]:
        series = wide[name].loc[wide[name].first_valid_index() : wide[name].last_valid_index()]
        lonely = series.isna() & series.shift(1).notna() & series.shift(-1).notna()
        series = series.where(~lonely, series.shift(1))
        stamps = pd.DatetimeIndex(series.index) + pd.Timedelta(hours=1)
        test = int((stamps <= pd.Timestamp(origin)).sum())
        first = 0 if weeks is None else max(0, test - weeks * WEEK)
        held, load = max((test - first) // 5, DAY), series.to_numpy(float)[: test + TESTED]
        read.append(Meter(name, load, stamps[: test + TESTED], first, test, held, held))
    return read


# -- baselines -----------------------------------------------------------------------------------


def seasonal(distance: int) -> Forecast:
    """The load so long before the target; for a gap the load a season earlier counts."""

    def forecast(meter: Meter, rows: Rows) -> np.ndarray:
        filled, steps = meter.back(distance), distance
        while (gap := np.isnan(filled) & (np.arange(len(filled)) - steps >= meter.first)).any():
            steps += distance
            filled = np.where(gap, meter.back(steps), filled)
        return filled[rows]

    return forecast


def simple(meter: Meter) -> np.ndarray:
    """The features of `ridge`."""
    return np.concatenate([meter.look_back, meter.clock(1), meter.weekdays], axis=1)


def ridge(known: Meter) -> Forecast:
    """Least squares of the change, with a penalty of 1 on the weights of standard scores."""
    rows = known.rows("train")
    a, change = simple(known)[rows], known.load[rows] - known.back(1)[rows]
    varies = np.ptp(a, axis=0) > 0
    mean, deviation = a.mean(axis=0), np.where(varies, a.std(axis=0), 1)
    a = np.where(varies, (a - mean) / deviation, 0)
    gram = a.T @ a + np.eye(a.shape[1])
    weights = np.linalg.solve(gram, a.T @ (change - change.mean())) / deviation
    return lambda meter, at: (
        meter.back(1)[at] + change.mean() + (simple(meter)[at] - mean) @ weights
    )


def recipe(meter: Meter) -> np.ndarray:
    """The features of LightGBM."""
    loads = np.concatenate([meter.look_back, meter.lags()], axis=1)
    changes = (loads - meter.back(1)[:, None]) / meter.unit()[0]
    return np.concatenate([changes, meter.level(), meter.clock(4), meter.weekdays], axis=1)


def public(bins: int) -> np.ndarray:
    """Values (bins, K) of these features that anybody knows: small changes and ranges."""
    changes = [np.sinh(np.linspace(-3.5, 3.5, bins))] * (LOOK_BACK + len(LAGS))
    level = [np.linspace(-2, 3, bins), np.linspace(-1.5, 1, bins)]
    clock, weekdays = [np.linspace(-1, 1, bins)] * 8, [np.arange(bins) % 2.0] * 7
    return np.stack([*changes, *level, *clock, *weekdays], axis=1)


@dataclass(frozen=True, eq=False)
class Trees:
    """A LightGBM of some meters, before and after the end of their history is known."""

    members: list[Meter]
    given: dict[str, Any] = field(default_factory=dict)
    """Parameters other than `BOOSTING`."""
    bins: np.ndarray | None = None
    """Values of the features from which bins are made; None: those of the members."""
    received: tuple[Forecast, ...] = ()
    """Forecasts before and after that time, which are inputs."""

    def forecasts(self) -> Iterator[Forecast]:
        """By the model of the training sets, then by that of the whole histories."""
        chosen: tuple[int, dict[str, Any]] | None = None
        given, bins = BOOSTING | self.given, None
        if self.bins is not None:
            bins = lightgbm.Dataset(self.bins, np.zeros(len(self.bins)), params=given).construct()
        for stage, members in enumerate((self.members, refit(self.members))):
            training = self._part(members, "train")
            if chosen is None:
                validation, least = self._part(members, "validation"), np.inf
                for tried in TRIED:
                    data = lightgbm.Dataset(**training, params=given, reference=bins)
                    stop = [lightgbm.early_stopping(30, verbose=False)]
                    valid = [data.create_valid(**validation)]
                    tree = lightgbm.train(given | tried, data, TREES, valid, callbacks=stop)
                    if tree.best_score["valid_0"]["l1"] < least:
                        least, model = tree.best_score["valid_0"]["l1"], tree
                        chosen = tree.best_iteration, tried
            else:
                data = lightgbm.Dataset(**training, params=given, reference=bins)
                model = lightgbm.train(given | chosen[1], data, chosen[0])
            yield self._forecast(model, stage)

    def _forecast(self, model: lightgbm.Booster, stage: int) -> Forecast:
        def forecast(meter: Meter, rows: Rows) -> np.ndarray:
            outputs = np.asarray(model.predict(self._inputs(meter, rows, stage), num_threads=1))
            return np.asarray(meter.back(1)[rows] + meter.unit()[0] * outputs)

        return forecast

    def _inputs(self, meter: Meter, rows: Rows, stage: int) -> np.ndarray:
        knows = meter if stage else replace(meter, held=meter.chosen_on)
        changes = [
            (forecast(knows, rows) - meter.back(1)[rows]) / meter.unit()[0]
            for forecast in self.received[stage : stage + 1]
        ]
        return np.column_stack([recipe(meter)[rows], *changes])

    def _part(self, members: list[Meter], part: str) -> dict[str, Any]:
        each = [(m, m.rows(part)) for m in members]
        # Forecasts of the history are those of the first stage.
        training = {"data": np.concatenate([self._inputs(m, rows, 0) for m, rows in each])}
        changes = [(m.load[at] - m.back(1)[at]) / m.unit()[0] for m, at in each]
        training["label"] = np.concatenate(changes)
        return training


def refit(members: list[Meter]) -> list[Meter]:
    """The meters with all of their history for training."""
    return [replace(meter, held=0) for meter in members]


TYPES = {"U8": "<u1", "U16": "<u2", "I32": "<i4", "U64": "<u8", "F32": "<f4"}
"""Types of numbers in safetensors, as numpy names them."""
LEAF, LEFT, NAN, STEP = 255, 2, 8, 1e-4
"""In a packed tree: a leaf in place of a feature, the bits of a split that send what is not known
to the left and that say that NaN is not known, and the unit of the values."""


@dataclass(frozen=True, eq=False)
class PublicTrees:
    """The median of the next hour of a file of public models: packed trees, see
    `plfl.public.packing`."""

    path: Path

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """What the file holds, by name."""
        content = lzma.decompress(self.path.read_bytes())
        begin = 8 + int.from_bytes(content[:8], "little")
        arrays = {}
        for name, about in json.loads(content[8:begin]).items():
            first, end = (begin + offset for offset in about["data_offsets"])
            arrays[name] = np.frombuffer(content[first:end], TYPES[about["dtype"]])
        return arrays

    def outputs(self, features: np.ndarray) -> np.ndarray:
        """The sums (W,) of the trees for features (W, K)."""
        feature, threshold, decision, leaf = (
            self.arrays[f"hour_50/{part}"] for part in ("feature", "threshold", "decision", "leaf")
        )
        count = features.shape[1]
        ends = np.cumsum(self.arrays[f"edge counts {count}"].astype(int))
        edges = np.split(self.arrays[f"edges {count}"], ends[:-1])
        total, node, split, ended = np.zeros(len(features)), 0, 0, 0
        while node < len(feature):  # each tree from its root downwards, left before right
            waiting = [np.arange(len(features))]
            while waiting:
                rows, number = waiting.pop(), int(feature[node])
                node += 1
                if number == LEAF:
                    total[rows] += STEP * leaf[ended]
                    ended += 1
                    continue
                value = features[rows, number]
                if not decision[split] & NAN:
                    value = np.nan_to_num(value)
                is_left = value <= edges[number][threshold[split]]
                is_left |= np.isnan(value) & bool(decision[split] & LEFT)
                split += 1
                waiting += [rows[~is_left], rows[is_left]]
        return total

    def forecast(self, meter: Meter, rows: Rows) -> np.ndarray:
        """Loads at the target rows, of what the meter knows from its history on."""
        features, base, scale = public_inputs(meter, rows)
        return np.asarray(base + scale * self.outputs(features))


def public_inputs(meter: Meter, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (W, K), base and scale (W,) of `examples/public_model.py` for the target rows."""
    begins = meter.stamps[meter.first :] - pd.Timedelta(hours=1)
    last = rows - 1 - meter.first
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # means of nothing are NaN
        return public_model.read(meter.load[meter.first :], begins, last, np.zeros_like(last))


def published(folder: Path, model: Path, site: str, weeks: int) -> tuple[float, float]:
    """The mean MASE of a site's meters by its public model at the four tests of the map, computed
    and as docs/map_public.csv has it."""
    raw = yaml.safe_load((ROOT / "config" / "map.yaml").read_text(encoding="utf-8"))
    last, count, step = (raw["data"]["origins"][key] for key in ("last", "count", "step"))
    origins = [pd.Timestamp(last) - k * pd.Timedelta(weeks=step) for k in range(count)]
    table = table_of(folder, site)
    known = [m for origin in origins for m in meters(table, str(origin), weeks, most=None)]
    parts = [public_inputs(meter, meter.rows("test")) for meter in known]
    outputs = PublicTrees(model).outputs(np.concatenate([features for features, *_ in parts]))
    ends = np.cumsum([len(base) for _, base, _ in parts])
    mases = []
    for meter, (_, base, scale), output in zip(
        known, parts, np.split(outputs, ends[:-1]), strict=True
    ):
        loads = base + scale * output
        mases.append(errors(meter, "test", lambda _, rows, loads=loads: loads)["mase"])
    rows = pd.read_csv(ROOT / "docs" / "map_public.csv").set_index(["study", "site", "weeks"])
    return float(np.mean(mases)), float(rows.loc[("map", site, weeks), "mase"])


def table_of(folder: Path, site: str) -> Path:
    """The wide table of a site."""
    return (folder / f"{site}_2016_2017_hourly_kwh.parquet").resolve()


def baselines(short: list[Meter], whole: list[Meter], model: Path) -> pd.DataFrame:
    """Errors of all baselines: `baseline`, `client`, `split`, `mae`, `rmse`, `mase`.

    `whole`: the same meters with everything that they know before the test set. `model`: a file of
    public models.
    """
    rows = []

    def score(name: str, i: int, stages: Any) -> None:
        for part, meter, forecast in zip(
            ("validation", "test"), (short[i], *refit([short[i]])), stages, strict=True
        ):
            rows.append(errors(meter, part, forecast) | {"baseline": name, "client": meter.name})

    pooled = list(Trees(short).forecasts())
    single = [list(Trees([meter]).forecasts()) for meter in whole]
    unseen = [{j for j in range(len(short)) if j % TURNS == turn} for turn in range(TURNS)]
    lending = [[w for j, w in enumerate(whole) if j not in some] for some in unseen]
    others = [tuple(Trees(members).forecasts()) for members in lending]
    federated = [tuple(Trees(m, PUBLIC, public(BOOSTING["max_bin"])).forecasts()) for m in lending]
    draws = [DRAWN | {"seed": k} for k in range(1, BAGS + 1)]
    for i, meter in enumerate(short):
        score("persistence", i, [seasonal(1)] * 2)
        score("naive_day", i, [seasonal(DAY)] * 2)
        score("ridge", i, [ridge(meter), ridge(*refit([meter]))])
        score("lightgbm_lags", i, Trees([meter]).forecasts())
        score("lightgbm_pooled", i, pooled)
        score("lightgbm_others", i, others[i % TURNS])
        received = federated[i % TURNS]
        score("lightgbm_federated", i, received)
        bags = [Trees([meter], draw).forecasts() for draw in draws]
        bagged = [mean_of(stage) for stage in zip(*bags, strict=True)]
        score("lightgbm_bagged", i, bagged)
        stacks = [Trees([meter], draw, received=received).forecasts() for draw in draws]
        score("lightgbm_stacked", i, [mean_of(stage) for stage in zip(*stacks, strict=True)])
        own = [[ridge(meter), ridge(*refit([meter]))], bagged]
        free = [PublicTrees(model).forecast] * 2
        score("public", i, free)
        score("mean_received", i, [mean_of(stage) for stage in zip(received, free, strict=True)])
        for name, some in (
            ("combined", own),
            ("combined_received", [*own, received]),
            ("combined_public", [*own, free]),
        ):
            score(name, i, weighted(meter, [*zip(*some, strict=True)]))
        known = [*zip(*(other for j, other in enumerate(single) if j != i), strict=True)]
        stages = zip((meter, *refit([meter])), known, strict=True)
        score("lightgbm_mean", i, [mean_of_best(*stage) for stage in stages])
    return pd.DataFrame(rows)


def mean_of_best(meter: Meter, forecasts: tuple[Forecast, ...]) -> Forecast:
    """The mean of the half that is best in the last week of training."""
    rows = meter.rows("train")[-WEEK:]
    order = np.argsort([np.abs(meter.load[rows] - f(meter, rows)).mean() for f in forecasts])
    return mean_of([forecasts[j] for j in order[: -(-len(order) // 2)]])


def mean_of(forecasts: Sequence[Forecast]) -> Forecast:
    """The mean of forecasts."""
    return lambda meter, rows: np.mean([f(meter, rows) for f in forecasts], axis=0)


def weighted(meter: Meter, stages: list[tuple[Forecast, ...]]) -> Iterator[Forecast]:
    """The weighted mean of forecasts: each half of validation has the weights of the other half,
    and the test set those of both."""
    rows = meter.rows("validation")
    known, half = np.array([f(meter, rows) for f in stages[0]]), len(rows) // 2
    first, second = slice(None, half), slice(half, None)
    first_weights, second_weights, joint_weights = (
        best_weights(meter.load[rows][part], known[:, part])
        for part in (first, second, slice(None))
    )
    halves = np.concatenate([second_weights @ known[:, first], first_weights @ known[:, second]])
    yield lambda _, at: halves[np.searchsorted(rows, at)]
    yield lambda of, at: joint_weights @ np.array([f(of, at) for f in stages[1]])


def best_weights(truth: np.ndarray, forecasts: np.ndarray) -> np.ndarray:
    """Weights (K,) of two or three forecasts (K, W) with the least absolute error, by trying all
    corners: where as many errors or weights are 0 as there are free weights."""
    # In the plane of the first weights: errors and weights as lines a @ w = b.
    free = len(forecasts) - 1
    slopes = (forecasts[:-1] - forecasts[-1]).T
    a = np.concatenate([slopes, np.eye(free), np.ones((1, free))])
    b = np.concatenate([truth - forecasts[-1], np.zeros(free), [1.0]])
    best, least = np.full(free + 1, 1 / (free + 1)), np.inf
    for i in range(len(a) if free == 2 else 1):
        if free == 1:
            with np.errstate(all="ignore"):
                corners = (b / a[:, 0])[:, None]
        else:
            across = a[i, 0] * a[i + 1 :, 1] - a[i, 1] * a[i + 1 :, 0]
            with np.errstate(all="ignore"):
                corners = np.stack(
                    [
                        (b[i] * a[i + 1 :, 1] - a[i, 1] * b[i + 1 :]) / across,
                        (a[i, 0] * b[i + 1 :] - b[i] * a[i + 1 :, 0]) / across,
                    ],
                    axis=1,
                )
        shares = np.column_stack([corners, 1 - corners.sum(axis=1)])
        shares = shares[(shares >= -1e-12).all(axis=1)]
        if len(shares):
            errors = np.abs(truth - shares @ forecasts).mean(axis=1)
            if errors.min() < least:
                best, least = shares[errors.argmin()], errors.min()
    return np.asarray(best)


def errors(meter: Meter, part: str, forecast: Forecast) -> dict[str, Any]:
    """The errors of a set."""
    rows = meter.rows(part)
    error = meter.load[rows] - forecast(meter, rows)
    mae, scale = np.abs(error).mean(), np.abs(meter.load[rows] - meter.back(1)[rows]).mean()
    measures = {"mae": mae, "rmse": np.sqrt(np.square(error).mean()), "mase": mae / scale}
    return {"split": part, **{name: float(value) for name, value in measures.items()}}


# -- comparison ----------------------------------------------------------------------------------


def furthest(written: pd.DataFrame, computed: pd.DataFrame) -> pd.Series:
    """The greatest relative difference of each baseline's errors; infinite if one is missing."""
    keys = ["baseline", "split", "client"]
    both = [table.set_index(keys)[SCORES].sort_index() for table in (written, computed)]
    first, second = (table.reindex(both[0].index.union(both[1].index)) for table in both)
    gap = ((first - second).abs() / second.abs()).where(~(first.isna() & second.isna()), 0)
    return gap.fillna(np.inf).max(axis=1).groupby("baseline").max()


def check(folder: Path, models: Path, site: str, origin: str, weeks: int) -> bool:
    """Run and repeat a cell, and repeat the site's row of the public model; whether all agree."""
    table, model = table_of(folder, site), (models / f"without-{site}.xz").resolve()
    settings = study(site, origin, weeks, table, model)
    with tempfile.TemporaryDirectory() as work:
        Path(work, "study.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        results = Path(work, "results", settings["name"])
        plfl = [sys.executable, "-m", "plfl", "study", "study.yaml", "--cores", "all"]
        subprocess.run(
            [*plfl, str(results.relative_to(work) / "baselines.parquet")], cwd=work, check=True
        )
        written = pd.read_parquet(results / "baselines.parquet")
    short, whole = meters(table, origin, weeks), meters(table, origin, None)
    whole = [replace(w, held=m.held, chosen_on=m.held) for w, m in zip(whole, short, strict=True)]
    gaps = furthest(written, baselines(short, whole, model))
    print(
        f"\n{site}, {origin}, {weeks} weeks: {len(written)} rows of {len(gaps)} baselines, "
        f"greatest difference {gaps.max():.1e} ({gaps.idxmax()})"
    )
    computed, stated = published(folder, model, site, weeks)
    print(f"all meters and tests, {weeks} weeks, public: {computed:.4f}, docs: {stated:.4f}")
    return bool(gaps.max() <= LIMIT) and abs(computed - stated) < 1e-4


def main() -> int:
    """Check all cells; the status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="with SITE_2016_2017_hourly_kwh.parquet")
    parser.add_argument("models", type=Path, help="with without-SITE.xz")
    options = parser.parse_args()
    agreed = [check(options.folder, options.models, *cell) for cell in CELLS]
    print("all agree" if all(agreed) else "NOT all agree")
    return 0 if all(agreed) else 1


if __name__ == "__main__":
    sys.exit(main())
