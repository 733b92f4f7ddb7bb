"""Fracast-0 beside public models and as a member of means, a day ahead: docs/public.md.

    python -m benchmarks.pretrained DATA OUT [--sites sydney] [--meters 12]

DATA and OUT are as for `benchmarks.public`, whose public models in OUT/models are used. Half of a
site is tested at its second origin, on forecasts made at midnight in four weeks; the other half
trains *others*. Weights, in tenths, are chosen on the last fifth of four weeks. Writes
`OUT/pretrained.csv`, the errors of each meter over those of yesterday's load.
"""

import argparse
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import public
from benchmarks.public import HOURS_PER_WEEK, OTHERS, OTHERS_ROWS, TEST
from plfl.public.inputs import Floats, HourlyLoads, Integers, inputs_of
from plfl.public.training import fit, gather

CONTEXT = 2048
"""Hours that Fracast-0 reads."""
TRAINED_ON = ("london", "fox", "panther", "bear")
"""Sites in its training data (LOTSA)."""
MEMBERS = [
    ("public", "fracast"), ("own", "fracast"), ("own", "public"), ("own", "others", "public"),
    ("own", "public", "fracast"), ("own", "others", "public", "fracast"),
]  # fmt: skip
"""Weighted means."""
LEADS = np.arange(1, 25)


@cache
def fracast() -> Any:
    from fracast import FracastModel

    return FracastModel.from_pretrained(weights="fp32")


def forecast_pretrained(load: Floats, last: Integers, first: int) -> Floats:
    """The medians (W, 24) after the rows `last` (W,) of a meter that knows its loads from the row
    `first` on."""
    rows = last[:, None] - np.arange(CONTEXT)[::-1]
    known = np.where(rows >= first, load[np.maximum(rows, 0)], np.nan)
    quantiles = np.asarray(fracast().forecast_batch(known, horizon=len(LEADS)))
    return quantiles[..., quantiles.shape[-1] // 2]


def midnights(loads: HourlyLoads, begin: int, end: int) -> Integers:
    """The last rows of days between two rows whose next day is before the second one."""
    last = np.arange(begin - 1, end - len(LEADS))
    return last[loads.hour[last] == 23]


def forecasts_of(
    loads: HourlyLoads, last: Integers, first: int, shared: dict[str, Any], own: list[Any]
) -> tuple[dict[str, Floats], Floats, Floats]:
    """Forecasts (W,) by name, targets and yesterday's loads, of windows after `last`."""
    rows, lead = np.repeat(last, len(LEADS)), np.tile(LEADS, len(last))
    inputs = inputs_of(loads, "day", rows, lead, first)
    found = {name: inputs.loads_of_outputs(model(inputs)) for name, model in shared.items()}
    if own:
        outputs = [public.outputs(model, inputs) for model in own]
        found["own"] = inputs.loads_of_outputs(np.mean(outputs, axis=0))
    found["fracast"] = forecast_pretrained(loads.load, last, first).ravel()
    return found, loads.load[rows + lead], loads.load[rows + lead - 24]


def errors_of(
    loads: HourlyLoads, begin: int, weeks: int, shared: dict[str, Any]
) -> dict[str, float]:
    """The errors of a meter, given the models that it receives; empty if too little is known."""
    first = begin - HOURS_PER_WEEK * weeks
    if not np.isfinite(loads.load[first:begin]).mean() > 0.8:
        return {}
    end, cut = min(begin + TEST, len(loads.load)), begin - (begin - first) // 5
    own, early = (fit_own(loads, first, until) for until in (begin, cut)) if weeks > 1 else ([], [])
    test, truth, naive = forecasts_of(loads, midnights(loads, begin, end), first, shared, own)
    test["public + others"] = (test["public"] + test["others"]) / 2
    test["public + fracast"] = (test["public"] + test["fracast"]) / 2
    test["public + others + fracast"] = (test["public"] + test["others"] + test["fracast"]) / 3
    if weeks > 1:
        late = midnights(loads, cut, begin)
        validation, late_truth, _ = forecasts_of(loads, late, first, shared, early)
        usable = np.isfinite(late_truth + sum(validation.values()))
        for members in MEMBERS:
            test["w " + ", ".join(members)] = public.weighted(
                [validation[name][usable] for name in members],
                [test[name] for name in members],
                late_truth[usable],
            )
    usable = np.isfinite(truth + naive + sum(test.values()))
    scale = np.abs(naive - truth)[usable].mean()
    return {name: np.abs(f - truth)[usable].mean() / scale for name, f in test.items()}


def fit_own(loads: HourlyLoads, first: int, end: int) -> list[Any]:
    """Bagged models of a meter, of its readings between two rows."""
    rows = np.arange(first + 24, end - 24)
    last, lead = np.repeat(rows, len(LEADS)), np.tile(LEADS, len(rows))
    some = np.linspace(0, len(last) - 1, public.OWN_ROWS).astype(int)
    inputs = inputs_of(loads, "day", last[some], lead[some], first)
    return public.bagged(
        inputs, inputs.outputs_of_loads(loads.load[last[some] + lead[some]]), weeks=4
    )


def rows_of(site: str, most: int) -> list[dict[str, Any]]:
    """A row for each tested meter of a site, with one and with four weeks."""
    loads, stamps, names = public.meters(site)
    begin = int(stamps.searchsorted(pd.Timestamp(public.ORIGINS[site][1]), "right"))
    others = fit(
        *gather(
            [public.until(one, begin) for one in loads[1::2]],
            "day",
            OTHERS_ROWS // len(loads[1::2]),
        ),
        OTHERS,
    )
    free = public.booster(public.public_of(site, "day").train())
    shared = {
        "public": lambda x: public.outputs(free, x),
        "others": lambda x: public.outputs(others, x),
    }
    rows = []
    for number in range(0, len(loads), 2)[:: max(1, len(loads) // (2 * most))][:most]:
        for weeks in (1, 4):
            if found := errors_of(loads[number], begin, weeks, shared):
                keys = {"site": site, "meter": names[number], "weeks": weeks}
                rows.append(keys | {"trained on": site in TRAINED_ON} | found)
    return rows


def main() -> None:
    """Judge the sites one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    sites = ["zonnedael", "sydney", "cambridge", *TRAINED_ON]
    parser.add_argument("--sites", nargs="+", choices=sites, default=sites)
    parser.add_argument("--meters", type=int, default=12)
    options = parser.parse_args()
    public.prepare(options.data, options.out / "models")
    rows: list[dict[str, Any]] = []
    for site in options.sites:
        rows += rows_of(site, options.meters)
        table = pd.DataFrame(rows)
        table.to_csv(options.out / "pretrained.csv", index=False, float_format="%.6g")
        means = table[table["site"] == site].drop(columns=["site", "meter"]).groupby("weeks").mean()
        print(f"{site}\n{means.round(3).T.to_string()}", flush=True)


if __name__ == "__main__":
    main()
