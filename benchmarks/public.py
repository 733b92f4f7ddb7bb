"""What public meters of other places are worth: docs/public.md.

    python -m benchmarks.public DATA OUT [--cores 16] [--seconds 480] [--only homes]
        [--parts curves] [--weeks 1] [--sites fontana]

DATA has the tables of `benchmarks.originals` and those of Sydney and Zonnedael. OUT gets tables:
the errors of every meter, origin and length of history, and the curves.

Each meter of half a site gets: its own models (three bagged LightGBMs of its last W weeks), the
model of the site's other half (all readings before the test), the public one (of other sites), one
of the other half that grows on the errors of the public one, and means of them. Weights, in tenths,
are chosen on the last fifth of the W weeks. Tests are the four weeks after an origin: an hour ahead
all windows, a day ahead those made at midnight and at noon.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.public.inputs import (
    HOURS_PER_WEEK,
    LEAD_HOURS,
    Floats,
    HourlyLoads,
    Inputs,
    Integers,
    LeadTime,
    inputs_of,
)
from plfl.public.making import MEDIANS, gather_sites
from plfl.public.training import TreeSizes, fit, gather

TABLES = {
    "london": "lcl_homes/london_2013_halfhourly_kwh.parquet",
    "sydney": "ausgrid_homes/sydney_2010_2013_halfhourly_kwh.parquet",
    "zonnedael": "zonnedael_homes/zonnedael_2013h1_quarterhourly_kwh.parquet",
    "fontana": "fontana_homes/fontana_2016_2017_hourly_kwh.parquet",
    "fox": "bdg2_sites/fox_2016_2017_hourly_kwh.parquet",
    "panther": "bdg2_sites/panther_2016_2017_hourly_kwh.parquet",
    "bear": "bdg2_sites/bear_2016_2017_hourly_kwh.parquet",
    "cambridge": "cambridge/cambridge_2018_2019_hourly_kwh.parquet",
}
ORIGINS = {
    "london": ("2013-08-28", "2013-12-04"),
    "sydney": ("2012-07-15", "2013-01-13"),
    "zonnedael": ("2013-04-29", "2013-06-01"),
    "fontana": ("2017-01-15", "2017-06-18"),
    "fox": ("2017-07-16", "2017-12-03"),
    "panther": ("2017-07-16", "2017-12-03"),
    "bear": ("2017-07-16", "2017-12-03"),
    "cambridge": ("2019-07-14", "2019-12-01"),
}
KINDS = {
    "homes": ("london", "sydney", "zonnedael", "fontana"),
    "buildings": ("fox", "panther", "bear", "cambridge"),
}
JUDGES_ONLY = ("zonnedael", "fontana")
"""Sites on which no model that is shipped may be trained."""
AHEADS: tuple[LeadTime, ...] = ("hour", "day")
WEEKS = (1, 4, 16, 40)
TEST = 4 * HOURS_PER_WEEK
FEWER = (10, 30, 100)
"""Numbers of trees of smaller public models."""
FIRST_DAYS = HOURS_PER_WEEK
"""Hours of the test of a meter that has one day of readings."""
MOST_TESTED = 40
"""Meters of a site that are tested."""
OTHERS_ROWS = 150_000
OWN_ROWS = 6_000
PUBLIC, OTHERS, OWN = MEDIANS, TreeSizes(200, 63), TreeSizes(40, 15)
DATA = Path("data")
MODELS = Path("models")


def kind_of(site: str) -> str:
    """The kind of a site's meters."""
    return next(kind for kind, sites in KINDS.items() if site in sites)


def hourly(site: str, data: Path) -> pd.DataFrame:
    """The hourly kWh of a site, a column per meter, indexed by the end of the hour in standard
    time."""
    table = pd.read_parquet(data / TABLES[site]).astype(float)
    if not table.index.is_monotonic_increasing:
        sys.exit(f"{data / TABLES[site]}: its rows are not in order of time")
    if site == "sydney":  # ends of half hours in UTC
        table.index = pd.DatetimeIndex(table.index).tz_localize(None) + pd.Timedelta("9h30min")
    parts = {"london": 2, "sydney": 2, "zonnedael": 4}.get(site, 1)
    table = table.resample("1h").sum(min_count=parts)
    return table.set_axis(table.index + pd.Timedelta("1h"))


@lru_cache
def meters(site: str) -> tuple[list[HourlyLoads], pd.DatetimeIndex, list[str]]:
    """The loads of a site's meters, the ends of the hours, and the meters' names."""
    table = hourly(site, DATA)
    stamps = table.index.to_numpy("datetime64[s]")
    loads = [HourlyLoads.ending_at(stamps, table[name].to_numpy()) for name in table]
    return loads, pd.DatetimeIndex(table.index), list(map(str, table))


def until(loads: HourlyLoads, end: int) -> HourlyLoads:
    """Loads before a row."""
    return HourlyLoads(loads.load[:end], loads.hour[:end], loads.weekday[:end])


def spread_over(meters: Sequence[Any], most: int) -> list[Any]:
    """At most this number of meters, at equal distances in their order."""
    some = np.unique(np.linspace(0, len(meters) - 1, min(most, len(meters))).astype(int))
    return [meters[i] for i in some]


@dataclass(frozen=True)
class PublicModel:
    """What a public model is trained on."""

    sites: tuple[str, ...]
    ahead: LeadTime
    most_meters: int = 10_000
    sizes: TreeSizes = PUBLIC
    seed: int = 1

    @property
    def file(self) -> Path:
        """Where it is kept."""
        size = f"{self.most_meters}-{self.sizes.trees}-{self.sizes.leaves}"
        size += f"-seed{self.seed}" if self.seed != 1 else ""
        return MODELS / f"{'+'.join(self.sites)}-{self.ahead}-{size}.txt"

    def loads(self, site: str) -> list[HourlyLoads]:
        """The meters of a site on which it is trained."""
        return spread_over(meters(site)[0], max(1, self.most_meters // len(self.sites)))

    def count(self) -> int:
        """How many meters it is trained on."""
        return sum(len(self.loads(site)) for site in self.sites)

    def train(self) -> str:
        """Train it and keep it."""
        if not self.file.exists():
            windows = gather_sites([self.loads(site) for site in self.sites], self.ahead)
            booster = fit(*windows, self.sizes, seed=self.seed)
            self.file.parent.mkdir(parents=True, exist_ok=True)
            booster.save_model(str(self.file))
        return str(self.file)


@lru_cache
def booster(file: str) -> Any:
    """A model that is kept."""
    import lightgbm

    return lightgbm.Booster(model_file=file)


def public_of(site: str, ahead: LeadTime) -> PublicModel:
    """The public model of a site: of the other sites of its kind that may be shipped."""
    sites = KINDS[kind_of(site)]
    return PublicModel(tuple(s for s in sites if s != site and s not in JUDGES_ONLY), ahead)


def windows(begin: int, hours: int, ahead: LeadTime, hour: np.ndarray) -> tuple[Any, Any]:
    """Last known rows and leads of the windows that are made in `hours` hours, the first before
    row `begin`, with targets in these hours."""
    last = np.arange(begin - 1, begin + hours - LEAD_HOURS[ahead])
    if ahead == "day":
        last = last[np.isin(hour[last], (11, 23))]  # ends of these hours: noon and midnight
    lead = np.arange(1, LEAD_HOURS[ahead] + 1)
    return np.repeat(last, len(lead)), np.tile(lead, len(last))


def weighted(validation: Sequence[Floats], test: Sequence[Floats], truth: Floats) -> Floats:
    """The mean of forecasts whose weights, in tenths, are best on validation."""
    grid = itertools.product(range(11), repeat=len(test))
    weights = [np.array(tenths) / 10 for tenths in grid if sum(tenths) == 10]
    errors = [np.abs(w @ np.stack(validation) - truth).mean() for w in weights]
    return np.asarray(weights[int(np.argmin(errors))] @ np.stack(test))


def outputs(model: Any, inputs: Inputs) -> Floats:
    """What a booster predicts."""
    return np.asarray(model.predict(inputs.features, num_threads=1))


def bagged(inputs: Inputs, targets: Floats, weeks: int) -> list[Any]:
    """The own models of a meter."""
    some = np.flatnonzero(np.isfinite(targets))
    some = some[:: max(1, -(-len(some) // OWN_ROWS))]
    least = {"min_data_in_leaf": 5 if weeks == 1 else 20}
    return [
        fit(inputs.features[some], targets[some], OWN, seed=seed, **least) for seed in (1, 2, 3)
    ]


@dataclass(frozen=True)
class Judged:
    """Half of a site that is tested, at one origin."""

    site: str
    origin: int
    half: int
    ahead: LeadTime
    weeks: tuple[int, ...] = (0, *WEEKS)
    """The lengths of history; zero weeks are one day."""

    def results(self) -> list[dict[str, Any]]:
        """A row for each meter and length of history."""
        loads, stamps, names = meters(self.site)
        begin = int(stamps.searchsorted(pd.Timestamp(ORIGINS[self.site][self.origin]), "right"))
        train = [until(one, begin) for one in loads[1 - self.half :: 2]]
        features, targets = gather(train, self.ahead, OTHERS_ROWS // len(train))
        public = booster(str(public_of(self.site, self.ahead).file))
        kinds = [sites for kind, sites in KINDS.items() if self.site not in sites]
        across = tuple(site for site in kinds[0] if site not in JUDGES_ONLY)
        others = fit(features, targets, OTHERS)
        far = booster(str(PublicModel(across, self.ahead).file))
        shared = {
            "public": partial(outputs, public),
            "others": partial(outputs, others),
            "across": partial(outputs, far),
        }
        start = np.asarray(public.predict(features, num_threads=1))
        grown = fit(features, targets - start, OTHERS)
        shared["others on public"] = lambda x: outputs(public, x) + outputs(grown, x)
        rows = []
        numbers = list(range(self.half, len(loads), 2))
        few = np.linspace(0, len(numbers) - 1, min(MOST_TESTED // 2, len(numbers))).astype(int)
        for i in [numbers[k] for k in np.unique(few)]:
            for weeks in self.weeks:
                errors = self._errors(loads[i], begin, weeks, shared)
                if errors:
                    keys = {"site": self.site, "origin": self.origin, "ahead": self.ahead}
                    rows.append({**keys, "meter": names[i], "weeks": weeks, **errors})
        return rows

    def _errors(
        self, loads: HourlyLoads, begin: int, weeks: int, shared: dict[str, Any]
    ) -> dict[str, float]:
        """Mean absolute errors of a meter by forecaster; empty if it has too few readings."""
        first = begin - (HOURS_PER_WEEK * weeks or 24)
        known = loads.load[max(first, 0) : begin]
        if first < 0 or np.isfinite(known).mean() < 0.8 or not np.nanmean(known) > 0:
            return {}
        hours = TEST if weeks else FIRST_DAYS
        last, lead = windows(begin, min(hours, len(loads.load) - begin), self.ahead, loads.hour)
        inputs = inputs_of(loads, self.ahead, last, lead, first)
        naive = {"last": loads.load[last], "yesterday": loads.load[last + lead - 24]}
        naive["last week"] = loads.load[last + lead - HOURS_PER_WEEK]
        truth = loads.load[last + lead]
        usable = np.isfinite(truth) & np.isfinite(inputs.scale)
        usable &= np.isfinite(naive["last"]) & np.isfinite(naive["yesterday"])
        test = {name: predict(inputs) for name, predict in shared.items()}
        test["public + others"] = (test["public"] + test["others"]) / 2
        if weeks:
            test |= self._with_own(loads, begin, first, weeks, shared, inputs, test)
        forecasts = {name: inputs.loads_of_outputs(f) for name, f in test.items()} | naive
        errors = {
            name: float(np.nanmean(np.abs(f - truth)[usable])) for name, f in forecasts.items()
        }
        errors |= {"load": float(np.abs(truth[usable]).mean()), "windows": int(usable.sum())}
        return {**errors, **self._first_week(loads, begin, first, weeks, shared)}

    def _with_own(
        self,
        loads: HourlyLoads,
        begin: int,
        first: int,
        weeks: int,
        shared: dict[str, Any],
        inputs: Inputs,
        test: dict[str, Floats],
    ) -> dict[str, Floats]:
        """Outputs for the test of the own models, and of weighted means with them."""
        cut = begin - max(24, (begin - first) // 5)
        lead = np.arange(1, LEAD_HOURS[self.ahead] + 1)
        last = np.arange(first + 24, begin - 1)
        last, lead = np.repeat(last, len(lead)), np.tile(lead, len(last))
        last, lead = last[last + lead < begin], lead[last + lead < begin]
        if len(last) > 4 * OWN_ROWS:
            some = np.linspace(0, len(last) - 1, 4 * OWN_ROWS).astype(int)
            last, lead = last[some], lead[some]
        history = inputs_of(loads, self.ahead, last, lead, first)
        targets = history.outputs_of_loads(loads.load[last + lead])
        is_early = last + lead < cut
        is_late = np.flatnonzero((last + 1 >= cut) & np.isfinite(targets))
        is_late = is_late[:: max(1, len(is_late) // 1500)]
        early = bagged(history, np.where(is_early, targets, np.nan), weeks)
        whole = bagged(history, targets, weeks)
        late = Inputs(history.features[is_late], history.base[is_late], history.scale[is_late])
        own = np.mean([outputs(model, inputs) for model in whole], axis=0)
        validation = {"own": np.mean([outputs(model, late) for model in early], axis=0)}
        validation |= {name: shared[name](late) for name in ("public", "others")}
        truth, result = targets[is_late], {"own": own}
        for members in (
            ("own", "others"), ("own", "public"), ("public", "others"), ("own", "others", "public"),
        ):  # fmt: skip
            result["w " + ", ".join(members)] = weighted(
                [validation[m] for m in members], [{**test, "own": own}[m] for m in members], truth
            )
        return result

    def _first_week(
        self, loads: HourlyLoads, begin: int, first: int, weeks: int, shared: dict[str, Any]
    ) -> dict[str, float]:
        """Of one week of readings: the errors of the public and the others' model in it, and its
        shape."""
        if weeks != 1:
            return {}
        last, lead = windows(first + 48, begin - first - 48, self.ahead, loads.hour)
        inputs = inputs_of(loads, self.ahead, last, lead, first)
        truth, load = loads.load[last + lead], loads.load[first:begin]
        errors = {
            f"week {name}": np.abs(inputs.loads_of_outputs(shared[name](inputs)) - truth)
            for name in ("public", "others")
        }
        errors["week last"] = np.abs(loads.load[last] - truth)
        errors["week yesterday"] = np.abs(loads.load[last + lead - 24] - truth)
        profile = np.nanmean(load.reshape(-1, 24), axis=0) / np.nanmean(load)
        hours = np.roll(profile, int(loads.hour[first]))  # by hour of the day
        steps = np.abs(np.diff(load)) / np.nanmean(load)
        shape = {f"profile {h}": float(hours[h]) for h in range(24)}
        shape |= {"switched": float(np.nanmean(steps > 1.5)), "steps": float(np.nanmean(steps))}
        return {name: float(np.nanmean(e)) for name, e in errors.items()} | shape


@dataclass(frozen=True)
class Tested:
    """The windows of a meter in the four weeks after an origin, with so many weeks of readings."""

    weeks: int
    origin: int
    meter: str
    loads: HourlyLoads
    windows: tuple[Integers, Integers, int]
    """Last known rows (W,), leads (W,), and the first row that the meter knows."""
    inputs: Inputs
    usable: NDArray[np.bool_]
    """Windows (W,) that count."""
    naive: float
    """Mean absolute error of the last reading (an hour ahead) or of yesterday's load."""

    def error_of(self, outputs: Floats) -> float:
        """The mean absolute error of a model's outputs (W,), over that of the naive forecast."""
        last, lead, _ = self.windows
        wrong = np.abs(self.inputs.loads_of_outputs(outputs) - self.loads.load[last + lead])
        return float(wrong[self.usable].mean() / self.naive)

    @property
    def keys(self) -> dict[str, Any]:
        """What tells its rows apart."""
        return {"weeks": self.weeks, "origin": self.origin, "meter": self.meter}


def tested(site: str, ahead: LeadTime, some: slice = slice(None)) -> Iterator[Tested]:
    """What public models are tested on: some meters of a site, with one and with four weeks."""
    loads, stamps, names = meters(site)
    named = spread_over([*zip(names, loads, strict=True)][some], MOST_TESTED)
    for weeks, (number, origin) in itertools.product((1, 4), enumerate(ORIGINS[site])):
        begin = int(stamps.searchsorted(pd.Timestamp(origin), "right"))
        first = begin - HOURS_PER_WEEK * weeks
        for name, one in named:
            last, lead = windows(begin, min(TEST, len(one.load) - begin), ahead, one.hour)
            inputs = inputs_of(one, ahead, last, lead, first)
            truth = one.load[last + lead]
            base = one.load[last] if ahead == "hour" else one.load[last + lead - 24]
            usable = np.isfinite(truth) & np.isfinite(base) & np.isfinite(inputs.scale)
            if usable.sum() > 100:
                naive = float(np.abs(base - truth)[usable].mean())
                yield Tested(weeks, number, name, one, (last, lead, first), inputs, usable, naive)


@dataclass(frozen=True)
class Curve:
    """A public model that is tested on the meters of a site, with one and with four weeks."""

    site: str
    model: PublicModel
    fewer: tuple[int, ...] = ()
    """Numbers of its first trees with which it is tested, too."""

    def results(self) -> list[dict[str, Any]]:
        """A row for each number of weeks, number of trees, origin and meter."""
        trained = booster(self.model.train())
        ahead, rows = self.model.ahead, []
        lengths = {
            trees: len(trained.model_to_string(num_iteration=trees))
            for trees in (*self.fewer, self.model.sizes.trees)
        }
        keys = {"site": self.site, "ahead": ahead, "sites": "+".join(self.model.sites)}
        keys |= {"meters": self.model.count(), "leaves": self.model.sizes.leaves}
        for test in tested(self.site, ahead):
            for trees, length in lengths.items():
                out = trained.predict(test.inputs.features, num_iteration=trees, num_threads=1)
                size = {"trees": trees, "bytes": length}
                error = {"error": test.error_of(np.asarray(out))}
                rows.append({**keys, **size, **test.keys, **error})
        return rows


def curves(kinds: Sequence[str]) -> Iterator[Curve]:
    """How much is enough: by number of meters, of places, and of trees and leaves."""
    pairs = [*itertools.product(kinds, AHEADS)]
    targets = {"homes": ("zonnedael", "sydney"), "buildings": ("cambridge",)}
    judges = {"homes": JUDGES_ONLY, "buildings": ("cambridge",)}
    for kind, ahead in pairs:
        sources = ("london",) if kind == "homes" else public_of("cambridge", ahead).sites
        for count in (10, 30, 100, 10_000):
            for target in targets[kind]:
                yield Curve(target, PublicModel(sources, ahead, count))
    for (kind, ahead), leaves in itertools.product(pairs, (63, 8, 31)):
        for target in judges[kind]:
            sizes = TreeSizes(PUBLIC.trees, leaves)
            model = PublicModel(public_of(target, ahead).sites, ahead, sizes=sizes)
            yield Curve(target, model, FEWER)
    for kind, ahead in pairs:
        for target in judges[kind]:
            sources = public_of(target, ahead).sites
            for count in range(1, len(sources)):  # all of them are above
                for some in itertools.combinations(sources, count):
                    yield Curve(target, PublicModel(some, ahead))


def prepare(data: Path, models: Path) -> None:
    """Tell a process where files are."""
    global DATA, MODELS
    DATA, MODELS = data, models


def main() -> None:
    """Run everything that is possible in the given time."""
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="by default there is no limit")
    parser.add_argument("--only", choices=[*KINDS])
    parser.add_argument("--parts", nargs="+", choices=("errors", "curves"), default=())
    parser.add_argument("--weeks", nargs="+", type=int, choices=(0, *WEEKS), default=(0, *WEEKS))
    parser.add_argument("--sites", nargs="+", choices=[*TABLES], help="those that are tested")
    options = parser.parse_args()
    started = time.monotonic()
    kinds = [options.only] if options.only else list(KINDS)
    parts = options.parts or ("errors", "curves")
    options.out.mkdir(parents=True, exist_ok=True)
    prepare(options.data, options.out / "models")

    def run(pool: ProcessPoolExecutor, jobs: Sequence[Any], work: str, file: str) -> None:
        futures = [pool.submit(getattr(type(job), work), job) for job in jobs]
        rows: list[dict[str, Any]] = []
        try:
            left = options.seconds and max(1.0, options.seconds - (time.monotonic() - started))
            for done, future in enumerate(as_completed(futures, timeout=left), 1):
                result = future.result()
                if isinstance(result, list):
                    rows += result
                    pd.DataFrame(rows).to_csv(options.out / file, index=False, float_format="%.6g")
                seconds = time.monotonic() - started
                print(f"{file}: {done} of {len(futures)}, {seconds:.0f} s", flush=True)
        except TimeoutError:
            print(f"{file}: the time is over, {len(rows)} rows", flush=True)
            for future in futures:
                future.cancel()

    sites = options.sites or [site for kind in kinds for site in KINDS[kind]]
    public = [public_of(site, ahead) for site in sites for ahead in AHEADS]
    for kind, ahead in itertools.product(KINDS, AHEADS):
        public.append(PublicModel(tuple(s for s in KINDS[kind] if s not in JUDGES_ONLY), ahead))
    judged = [
        Judged(site, origin, half, ahead, tuple(options.weeks))
        for ahead, origin in itertools.product(("day", "hour"), (0, 1))
        for site in sites
        for half in (0, 1)
    ]
    with ProcessPoolExecutor(options.cores, initializer=prepare,
                             initargs=(options.data, options.out / "models")) as pool:  # fmt: skip
        if "errors" in parts:
            run(pool, list(dict.fromkeys(public)), "train", "models")
            run(pool, judged, "results", "errors.csv")
        if "curves" in parts:
            run(pool, [c for c in curves(kinds) if c.site in sites], "results", "curves.csv")


if __name__ == "__main__":
    main()
