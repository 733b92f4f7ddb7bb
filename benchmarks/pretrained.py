"""Fracast-0 beside public models and as a member of means: docs/public.md.

    python -m benchmarks.pretrained DATA OUT [--sites sydney] [--meters 12] [--ahead hour]

DATA and OUT are as for `benchmarks.public`, whose public models in OUT/models are used. Half of a
site is tested at its second origin, on forecasts of four weeks, a day ahead made at midnight, an
hour ahead at every fifth hour (it is slow); the other half trains *others*. Weights, in tenths, are
chosen on all forecasts of the last fifth of four weeks. Writes `OUT/pretrained.csv`, the errors of
each meter over those of yesterday's load or, an hour ahead, of the last reading.
"""

import argparse
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import public
from benchmarks.public import (
    AHEADS,
    HOURS_PER_WEEK,
    LEAD_HOURS,
    OTHERS,
    OTHERS_ROWS,
    TEST,
    LeadTime,
)
from plfl.public.inputs import Floats, HourlyLoads, Integers, inputs_of
from plfl.public.training import fit, gather

CONTEXT = 2048
"""Hours that Fracast-0 reads."""
TRAINED_ON = ("london", "fox", "panther", "bear")
"""Sites in its training data (LOTSA)."""
EVERY: dict[LeadTime, int] = {"hour": 5, "day": 1}
"""Of how many forecasts one is tested; of every fifth hour all hours of the day have a turn."""
MEMBERS = [
    ("public", "fracast"), ("own", "fracast"), ("own", "public"), ("own", "others", "public"),
    ("own", "public", "fracast"), ("own", "others", "public", "fracast"),
]  # fmt: skip
"""Weighted means."""


@cache
def fracast() -> Any:
    from fracast import FracastModel

    return FracastModel.from_pretrained(weights="fp32")


def forecast_pretrained(load: Floats, last: Integers, first: int, ahead: LeadTime) -> Floats:
    """The medians (W, H) after the rows `last` (W,) of a meter that knows its loads from the row
    `first` on."""
    rows = last[:, None] - np.arange(CONTEXT)[::-1]
    known = np.where(rows >= first, load[np.maximum(rows, 0)], np.nan)
    quantiles = np.asarray(fracast().forecast_batch(known, horizon=LEAD_HOURS[ahead]))
    return quantiles[..., quantiles.shape[-1] // 2]


def last_rows(loads: HourlyLoads, begin: int, end: int, ahead: LeadTime) -> Integers:
    """The last rows known to forecasts whose targets are between two rows; a day ahead they are
    made at midnight."""
    last = np.arange(begin - 1, end - LEAD_HOURS[ahead])
    return last if ahead == "hour" else last[loads.hour[last] == 23]


def forecasts_of(
    loads: HourlyLoads,
    last: Integers,
    first: int,
    shared: dict[str, Any],
    own: list[Any],
    ahead: LeadTime,
) -> tuple[dict[str, Floats], Floats, Floats]:
    """Forecasts (W,) by name, targets and naive forecasts, of windows after `last`."""
    leads = np.arange(1, LEAD_HOURS[ahead] + 1)
    rows, lead = np.repeat(last, len(leads)), np.tile(leads, len(last))
    inputs = inputs_of(loads, ahead, rows, lead, first)
    found = {name: inputs.loads_of_outputs(model(inputs)) for name, model in shared.items()}
    if own:
        outputs = [public.outputs(model, inputs) for model in own]
        found["own"] = inputs.loads_of_outputs(np.mean(outputs, axis=0))
    found["fracast"] = forecast_pretrained(loads.load, last, first, ahead).ravel()
    naive = loads.load[rows if ahead == "hour" else rows + lead - 24]
    return found, loads.load[rows + lead], naive


def errors_of(
    loads: HourlyLoads, begin: int, weeks: int, shared: dict[str, Any], ahead: LeadTime
) -> dict[str, float]:
    """The errors of a meter, given the models that it receives; empty if too little is known."""
    first = begin - HOURS_PER_WEEK * weeks
    if not np.isfinite(loads.load[first:begin]).mean() > 0.8:
        return {}
    end, cut = min(begin + TEST, len(loads.load)), begin - (begin - first) // 5
    own, early = [], []
    if weeks > 1:
        own, early = (fit_own(loads, first, until, ahead) for until in (begin, cut))
    last = last_rows(loads, begin, end, ahead)[:: EVERY[ahead]]
    test, truth, naive = forecasts_of(loads, last, first, shared, own, ahead)
    test["public + others"] = (test["public"] + test["others"]) / 2
    test["public + fracast"] = (test["public"] + test["fracast"]) / 2
    test["public + others + fracast"] = (test["public"] + test["others"] + test["fracast"]) / 3
    if weeks > 1:
        late = last_rows(loads, cut, begin, ahead)
        validation, late_truth, _ = forecasts_of(loads, late, first, shared, early, ahead)
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


def fit_own(loads: HourlyLoads, first: int, end: int, ahead: LeadTime) -> list[Any]:
    """Bagged models of a meter, of its readings between two rows."""
    leads = np.arange(1, LEAD_HOURS[ahead] + 1)
    rows = np.arange(first + 24, end - len(leads))
    last, lead = np.repeat(rows, len(leads)), np.tile(leads, len(rows))
    some = np.linspace(0, len(last) - 1, min(len(last), public.OWN_ROWS)).astype(int)
    inputs = inputs_of(loads, ahead, last[some], lead[some], first)
    return public.bagged(
        inputs, inputs.outputs_of_loads(loads.load[last[some] + lead[some]]), weeks=4
    )


def rows_of(site: str, most: int, ahead: LeadTime) -> list[dict[str, Any]]:
    """A row for each tested meter of a site, with one and with four weeks."""
    loads, stamps, names = public.meters(site)
    begin = int(stamps.searchsorted(pd.Timestamp(public.ORIGINS[site][1]), "right"))
    others = fit(
        *gather(
            [public.until(one, begin) for one in loads[1::2]],
            ahead,
            OTHERS_ROWS // len(loads[1::2]),
        ),
        OTHERS,
    )
    free = public.booster(public.public_of(site, ahead).train())
    shared = {
        "public": lambda x: public.outputs(free, x),
        "others": lambda x: public.outputs(others, x),
    }
    rows = []
    for number in range(0, len(loads), 2)[:: max(1, len(loads) // (2 * most))][:most]:
        for weeks in (1, 4):
            if found := errors_of(loads[number], begin, weeks, shared, ahead):
                keys = {"ahead": ahead, "site": site, "meter": names[number], "weeks": weeks}
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
    parser.add_argument("--ahead", choices=AHEADS, default="day")
    options = parser.parse_args()
    public.prepare(options.data, options.out / "models")
    rows: list[dict[str, Any]] = []
    for site in options.sites:
        rows += rows_of(site, options.meters, options.ahead)
        table = pd.DataFrame(rows)
        table.to_csv(options.out / "pretrained.csv", index=False, float_format="%.6g")
        means = table[table["site"] == site].drop(columns=["ahead", "site", "meter"])
        means = means.groupby("weeks").mean()
        print(f"{site}\n{means.round(3).T.to_string()}", flush=True)


if __name__ == "__main__":
    main()
