"""A row of docs/public.md without plfl: a model of public meters forecasts those of another place.

    python examples/public_model.py PUBLIC.parquet JUDGED.parquet 2012-07-15 2013-01-13

Tables have hourly kWh by the beginnings of the hours, a column for each meter. Of these a week is
known before a date. Prints the mean error of the four weeks after it over that of the last reading.
"""

import sys
import warnings

import lightgbm
import numpy as np
import pandas as pd

DAY, WEEK, CONTEXT = 24, 7 * 24, 28 * 24
KNOWN = [2 * DAY, 4 * DAY, WEEK, WEEK, 2 * WEEK, CONTEXT, CONTEXT, CONTEXT]
SETTINGS = {"objective": "l1", "num_leaves": 63, "learning_rate": 0.08, "max_bin": 63, "seed": 1}
SETTINGS |= {"min_data_in_leaf": 50, "bagging_fraction": 0.8, "bagging_freq": 1, "verbosity": -1}
SETTINGS |= {"feature_fraction": 0.6, "deterministic": True, "force_row_wise": True}
mean = np.nanmean


def read(load, times, last, first):
    """Features, base and scale for a meter that knows its loads between the rows `first`, `last`"""
    last, first = last[:, None], np.maximum(first, last + 1 - CONTEXT)[:, None]

    def at(rows, series=load):
        known = series[np.clip(rows, 0, len(load) - 1)]
        return np.where((rows >= first) & (rows <= last), known, np.nan)

    def quantile(values, share):  # the nearest known value
        most = np.maximum(np.isfinite(values).sum(axis=1) - 1, 0)
        return np.sort(values)[np.arange(len(values)), np.rint(share * most).astype(int)]

    days, target, week = np.arange(1, 29), last + 1, last - np.arange(WEEK)
    same, recent = at(target - DAY * days), at(last - np.arange(DAY))
    context, moved = at(last - np.arange(CONTEXT)), same - at(last - DAY * days)
    hour, weekday = times.hour.to_numpy()[target], times.dayofweek.to_numpy()[target]
    count = np.isfinite(context).sum(axis=1)
    level = base = np.where(count < DAY, np.nan, mean(context, 1))
    scale = np.where(level > 0, level, np.nan)
    for column in (same[:, 6], same[:, 0], recent[:, 0]):
        base = np.where(np.isnan(column), base, column)
    alike = np.where(((weekday - days) % 7 > 4) == (weekday > 4), same, np.nan)
    blocks = [recent[:, :12], same[:, :7], same[:, [13, 20, 27]]]
    blocks += [at(target - lag + k) for lag in (24, 48, 168) for k in (-2, -1, 1, 2)]
    blocks += [mean(recent, 1), mean(at(week), 1), level, np.nanmin(recent, 1)]
    blocks += [np.nanmax(recent, 1), mean(same[:, :7], 1), mean(same, 1), mean(alike, 1)]
    blocks += [mean(same[:, 6::7], 1), *(quantile(same, share) for share in (0.1, 0.5, 0.9))]
    moves = np.abs(np.diff(load, prepend=np.nan))
    sizes = [mean(moved[:, :7], 1), mean(moved, 1), quantile(moved[:, :14], 0.5)]
    sizes += [np.nanstd(at(week), 1), mean(at(week, moves), 1)]
    sizes += [mean(np.abs(same[:, :7] - same[:, 1:8]), 1), base]
    relative = (np.column_stack(blocks) - base[:, None]) / scale[:, None]
    columns = [relative, np.column_stack(sizes) / scale[:, None], count, hour, weekday]
    columns += [weekday > 4, (weekday - 1) % 7 > 4]
    return np.column_stack(columns).astype(np.float32), base, scale


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # means of nothing are NaN
    public, judged = map(pd.read_parquet, sys.argv[1:3])
    random, features, targets, errors = np.random.default_rng(1), [], [], []
    for load in public.to_numpy().T:
        rows = np.flatnonzero(np.isfinite(load) & (np.arange(len(load)) > DAY))
        count = min(400_000 // public.shape[1], len(rows))
        last = np.sort(random.choice(rows, count, replace=False)) - random.integers(1, 2, count)
        first = last + 1 - random.choice(KNOWN, count)
        last, first = last[first >= 0], first[first >= 0]
        x, base, scale = read(load, public.index, last, first)
        features, targets = [*features, x], [*targets, (load[last + 1] - base) / scale]
    x, y = np.concatenate(features), np.concatenate(targets)
    model = lightgbm.train(SETTINGS, lightgbm.Dataset(x[np.isfinite(y)], y[np.isfinite(y)]), 300)
    for load in judged.to_numpy().T:
        for begin in judged.index.searchsorted(pd.DatetimeIndex(sys.argv[3:])):
            last = np.arange(begin - 1, min(begin + 4 * WEEK, len(load)) - 1)
            x, base, scale = read(load, judged.index, last, np.full(len(last), begin - WEEK))
            pair = np.abs([base + scale * model.predict(x), load[last]] - load[last + 1])
            pair = pair[:, np.isfinite(pair.sum(axis=0) + load[last - 23])]
            errors.append(np.divide(*pair.mean(axis=1)))
    print(f"{len(errors)} tests: {np.mean(errors):.4f}")
