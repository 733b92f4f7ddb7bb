"""The data of the page's charts: the study's tables as one JSON object.

The charts (`charts/charts.js`) contain no names of axes or scores; they take them from this object.
The object is small enough to be part of the page: scores of every client at the last round, curves
that are means over clients, and forecasts of one week for some clients.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from plfl.baselines import BASELINE
from plfl.report import intervals
from plfl.report.answer import KINDS, compared
from plfl.report.clients import detailed
from plfl.report.standings import without_seed
from plfl.results.contest import Contest
from plfl.results.labels import VALUE_LABELS, baseline_label
from plfl.results.ranking import widest
from plfl.results.records import CELL, MODELS
from plfl.results.scores import scores
from plfl.results.statistics import ALPHA
from plfl.results.tables import Tables
from plfl.study import Cell

AXES = [axis for axis in CELL if axis != "seed"]
"""Columns that name a cell with all its seeds."""
AXIS_LABELS = {
    "state": "State",
    "sharing": "Sharing scheme",
    "method": "Method",
    "client_opt": "ClientOpt",
    "server_opt": "ServerOpt",
}
"""Labels of axes; other axes have their names in the tables."""
SCORES = {
    "mase": "MASE",
    "seasonal_mase": "in-sample MASE",
    "mae": "MAE",
    "rmse": "RMSE",
    "nrmse": "NRMSE",
    "crps": "CRPS",
    "scaled_crps": "scaled CRPS",
}
"""Columns of records and baselines that the charts can show, if the tables have them. For all of
them, less is better."""
IN_KWH = ("mae", "rmse", "crps")
"""Scores in kWh per interval; the others have no unit."""
MOST_ROUNDS = 60
"""Largest number of rounds in a curve; if there are more, evenly spaced ones are kept."""
MOST_POINTS = 130_000
"""Largest number of forecasts in the page, about two bytes each; one week of a client is 672."""
_LEVELS = 64 * 64 - 1
_DIGITS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"))


def chart_data(tables: Tables) -> str:
    """The JSON object, safe to be placed in a `script` element of a page."""
    forecasters: list[dict[str, Any]] = []
    for state in tables.study.data.states:
        forecasters += _cells(tables, state)
        forecasters += _baselines(tables, state)
    _add_blocks(tables, forecasters)
    keys = _scores(tables)
    data = {
        "axes": [{"key": axis, "label": AXIS_LABELS.get(axis, axis)} for axis in AXES],
        "labels": _labels(tables),
        "scores": [
            {"key": key, "label": SCORES[key], "unit": tables.load_unit if key in IN_KWH else ""}
            for key in keys
        ],
        "models": list(MODELS),
        "seeds": len(tables.study.grid.seeds),
        "first_seed": tables.study.grid.seeds[0],
        "rounds": tables.study.federation.rounds,
        "clients": {
            state: tables.clients.loc[tables.clients["state"] == state, "client"].tolist()
            for state in tables.study.data.states
        },
        "forecasters": forecasters,
        "weeks": _weeks(tables, forecasters),
        "unit": tables.load_unit,
        "participant": tables.study.participant,
        "sample": tables.is_sample,
        "t": _t(forecasters),
        "q": _q(len(forecasters)),
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")


def _scores(tables: Tables) -> list[str]:
    """The keys of `SCORES` that are in the table of records."""
    present = tables.record_columns
    return [key for key in SCORES if key in present]


def _labels(tables: Tables) -> dict[str, dict[str, str]]:
    """Labels of the values of the axes, if they differ from the values."""
    used = pd.DataFrame([without_seed(cell) for cell in tables.study.cells])
    return {
        axis: {value: label(value) for value in used[axis].unique()}
        for axis, label in VALUE_LABELS.items()
    }


def _cells(tables: Tables, state: str) -> Iterator[dict[str, Any]]:
    """The cells of a state with all their seeds; those that repeat another one are left out."""
    study, keys = tables.study, _scores(tables)
    columns = [*CELL, "model", "round", "client", *keys]
    last = tables.records(columns, split="test", state=state, round=study.federation.rounds)
    sound = np.isfinite(last["mae"]).groupby([last[axis] for axis in AXES]).all()
    clients = tables.clients.loc[tables.clients["state"] == state, "client"].tolist()
    tests = _along(last, "client", clients, keys)
    over_clients = last.groupby([*AXES, "model"], sort=False)[keys].mean()
    means = {name: _row(row) for name, row in over_clients.iterrows()}
    by_seed = _along(last, "seed", study.grid.seeds, keys)
    curves = _curves(tables, state, keys)
    summary = tables.summary
    summary = summary[(summary["state"] == state) & (summary["chosen"] == "last")]
    by_axes = summary.groupby([*AXES, "model"])
    validation = by_axes["validation_mase"].mean()
    sent = by_axes[["bytes_down", "bytes_up"]].mean().sum(axis=1) / len(clients) / 1e6
    seconds = by_axes["seconds"].mean() if "seconds" in summary else None
    for values in dict.fromkeys(tuple(without_seed(cell).values()) for cell in study.cells):
        if values[0] != state or study.combinations.repeats(*values[1:]):
            continue
        cell = Cell(**dict(zip(AXES, values, strict=True)), seed=study.grid.seeds[0])
        alone = study.is_alone(cell)
        local = (*values, "local")
        found: dict[str, Any] = {
            "axes": list(values),
            "name": tables.name(cell),
            "kind": "alone" if alone else "federated",
            "mb": _short(sent[local]),
            "validation": _short(validation[local]),
        }
        if seconds is not None:
            found["hours"] = _short(seconds[local] / 3600)
        if not sound[values]:
            found["diverged"] = True
        for model in MODELS[:1] if alone else MODELS:
            found[model] = tests[(*values, model)]
            found[f"{model}_mean"] = means[(*values, model)]
            if len(study.grid.seeds) > 1:
                found[f"{model}_seeds"] = by_seed[(*values, model)]
            found[f"{model}_curve"] = curves[(*values, model)]
        yield found


def _curves(tables: Tables, state: str, keys: Sequence[str]) -> dict[Any, dict[str, Any]]:
    """Validation scores over the rounds, means over clients and seeds, by cell and model."""
    table = tables.records([*CELL, "model", "round", *keys], split="validation", state=state)
    table = table.replace([np.inf, -np.inf], np.nan)
    lost = table["mae"].isna().groupby([table[c] for c in (*AXES, "model", "round")])
    table.loc[lost.transform("any"), list(keys)] = np.nan
    rounds = sorted(table["round"].unique().tolist())
    kept = [rounds[i] for i in _spaced(len(rounds), MOST_ROUNDS)]
    curves = _along(table, "round", kept, keys)
    return {name: {"round": kept} | curve for name, curve in curves.items()}


def _along(
    table: pd.DataFrame, column: str, order: Sequence[Any], keys: Sequence[str]
) -> dict[Any, dict[str, list[float | None]]]:
    """Mean scores for each of the values `order` of a column, by cell and model."""
    means = table.groupby([*AXES, "model", column], sort=False)[list(keys)].mean()
    found: dict[Any, dict[str, list[float | None]]] = {}
    for key in keys:
        wide = means[key].unstack(column).reindex(columns=list(order))
        for name, row in zip(wide.index, wide.to_numpy(float), strict=True):
            found.setdefault(name, {})[key] = _list(row)
    return found


def _spaced(count: int, most: int) -> list[int]:
    """Indices of all of `count` things, or of `most` evenly spaced ones including both ends."""
    wanted = np.linspace(0, count - 1, min(count, most)).round().astype(int)
    return list(dict.fromkeys(wanted.tolist()))


def _baselines(tables: Tables, state: str) -> Iterator[dict[str, Any]]:
    """The baselines of a state; their single model takes the place of the local model."""
    table, means = tables.baselines, tables.baseline_scores
    clients = tables.clients.loc[tables.clients["state"] == state, "client"].tolist()
    keys = [key for key in _scores(tables) if key in table]
    test = table[(table["state"] == state) & (table["split"] == "test")]
    for name, rows in test.groupby("baseline", sort=False):
        here = rows.set_index("client").reindex(clients)
        (row,) = means.loc[[(state, str(name))]].to_dict("records")
        axes = dict.fromkeys(AXES, "none")
        axes |= {"state": state, "sharing": BASELINE, "method": str(name)}
        yield {
            "axes": list(axes.values()),
            "name": baseline_label(str(name)),
            "kind": BASELINE,
            "mb": _short(row["bytes"] / len(clients) / 1e6),
            "validation": _short(row["validation_mase"]),
            "local": {key: _list(here[key]) for key in keys},
            "local_mean": _row(here[keys].mean()),
        }


def _weeks(tables: Tables, forecasters: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Forecasts of the first week of the test set, by state.

    Every client with details has the forecasts of `_chief`. Some clients, at evenly spaced ranks of
    test MASE, have those of all forecasters: as many clients as `MOST_POINTS` allows, but at least
    the median one, with the forecasters of lowest validation MASE. Empty if the study keeps no
    forecasts.
    """
    weeks = {}
    states = tables.study.data.states
    for state in states if tables.keeps_forecasts else []:
        cell = tables.shown_cell(state)
        if cell is None:
            continue
        own = _forecasts(tables, state)
        length = max(int(own.groupby("client")["stamp"].nunique().max()), 1)
        lines = MOST_POINTS // len(states) // length
        here = [i for i, one in enumerate(forecasters) if one["axes"][0] == state]
        here = [i for i in here if "diverged" not in forecasters[i]]
        count = max((lines - 2) // max(len(here), 1), 1)
        here = sorted(here, key=lambda i: _last_if_none(forecasters[i]["validation"]))
        here = here[: max(lines - 2, 2)]
        ranked = tables.test_scores(cell).sort_values(kind="stable").index.tolist()
        whole = [ranked[i] for i in _ranks(len(ranked), count)]
        kind = "federation" if cell.sharing in tables.study.federated else "alone"
        chief = _chief(compared(tables, state), {KINDS[kind]: cell}, forecasters)
        some = dict.fromkeys([*whole, *sorted(detailed(tables, state))])
        wanted = {client: here if client in whole else chief.values() for client in some}
        week = _week(tables, state, own, wanted, forecasters)
        for client, ends in _ends(tables, cell, list(some)).items():
            week[client]["lines"] |= ends
        weeks[state] = {"clients": week, "chief": chief, "middle": whole[(len(whole) - 1) // 2]}
    return weeks


def _chief(
    found: Contest | None, shown: dict[str, Cell], forecasters: Sequence[dict[str, Any]]
) -> dict[str, int]:
    """The numbers, by name, of the forecasters that the answer compares; without an answer, of
    those `shown`."""
    axes = {name: list(without_seed(cell).values()) for name, cell in shown.items()}
    if found:
        chosen = dict(zip(KINDS, found.pairs[0], strict=True))
        axes |= {
            KINDS[kind]: [one.forecaster.state, *one.forecaster.axes]
            for kind, one in chosen.items()
        }
    places = [one["axes"] for one in forecasters]
    return {name: places.index(wanted) for name, wanted in axes.items()}


def _ranks(count: int, wanted: int) -> list[int]:
    """`wanted` evenly spaced ranks of `count`; a single one is the lower median."""
    return [(count - 1) // 2] if wanted == 1 else _spaced(count, wanted)


def _last_if_none(value: float | None) -> float:
    return np.inf if value is None else value


def _forecasts(tables: Tables, state: str) -> pd.DataFrame:
    columns = [*AXES, "client", "stamp", "truth", "persistence", "local"]
    seed = tables.study.grid.seeds[0]
    return tables.forecasts(columns, state=state, seed=seed)


def _week(
    tables: Tables,
    state: str,
    own: pd.DataFrame,
    wanted: Mapping[str, Iterable[int]],
    forecasters: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """The weeks of some clients, each with the forecasters that are `wanted`, by number."""
    other = tables.baseline_forecasts(["baseline", "client", "stamp", "forecast"], state=state)
    weeks: dict[str, Any] = {}
    for client, numbers in wanted.items():
        mine = own[own["client"] == client]
        truth = mine.drop_duplicates("stamp").sort_values("stamp")
        cells = mine.pivot(index="stamp", columns=AXES, values="local")
        rest = other[other["client"] == client]
        baselines = rest.pivot(index="stamp", columns="baseline", values="forecast")
        stamps = pd.DatetimeIndex(truth["stamp"])
        minutes = ((stamps - stamps[0]) / pd.Timedelta(minutes=1)).astype(int).tolist()
        steps = set(np.diff(minutes).tolist())
        lines = {"load": truth["truth"], "persistence": truth["persistence"]}
        for i in numbers:
            one = forecasters[i]
            if one["kind"] == BASELINE:
                name = one["axes"][AXES.index("method")]
                lines[str(i)] = baselines.reindex(index=stamps, columns=[name])[name]
            elif (key := tuple(one["axes"])) in cells:
                lines[str(i)] = cells[key]
        weeks[client] = {
            "start": f"{stamps[0]:%Y-%m-%dT%H:%M}",
            "minutes": steps.pop() if len(steps) == 1 else minutes,
            "lines": {name: packed(line.to_numpy(float)) for name, line in lines.items()},
        }
    return weeks


def _ends(tables: Tables, cell: Cell, clients: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The ends of the intervals that a cell forecasts for clients, packed.

    The ends of the 90 % interval are `q5` and `q95`, whether or not they are quantiles.
    """
    places = {
        column: f"q{50 + sign * float(percent) / 2:g}"
        for percent, pair in intervals.columns(tables).items()
        for sign, column in zip((-1, 1), pair, strict=True)
        if column in tables.forecast_columns
    }
    if not places:
        return {}
    table = tables.forecasts(["client", "stamp", *places], **asdict(cell)).sort_values("stamp")
    return {
        str(client): {key: packed(rows[column].to_numpy(float)) for column, key in places.items()}
        for client, rows in table[table["client"].isin(clients)].groupby("client")
    }


def packed(values: NDArray[np.float64]) -> list[Any]:
    """Numbers as [offset, step, digits]: value = offset + step × n, two digits to base 64 per n.

    The largest n stands for a number that is not finite.
    """
    finite = np.isfinite(values)
    low, high = (values[finite].min(), values[finite].max()) if finite.any() else (0.0, 0.0)
    step = (high - low) / (_LEVELS - 1) or 1.0
    n = np.full(len(values), _LEVELS)
    n[finite] = np.round((values[finite] - low) / step).astype(int)
    digits = np.column_stack([_DIGITS[n // 64], _DIGITS[n % 64]])
    return [float(f"{low:.6g}"), float(f"{step:.6g}"), "".join(digits.ravel().tolist())]


def _add_blocks(tables: Tables, forecasters: Sequence[dict[str, Any]]) -> None:
    """Add the MASE of each block of the test set, mean over clients and seeds, as `local_blocks`
    and `global_blocks`."""
    for model in MODELS:
        found = scores(tables, model, baselines=True)
        for one in forecasters:
            of_state, key = found[one["axes"][0]], tuple(one["axes"][1:])
            if model not in one or key not in of_state.combinations:
                continue
            weekly = of_state.weekly[of_state.combinations.index(key)]
            scored = weekly[:, np.isfinite(weekly).all(axis=(0, 2))]
            blocks = scored.mean(axis=(0, 1)) * weekly.shape[-1] if scored.size else []
            one[f"{model}_blocks"] = [_short(value, 6) for value in blocks]


def _t(forecasters: Sequence[dict[str, Any]]) -> list[float | None]:
    """Quantiles of Student's t for 95 % intervals, by degrees of freedom from 0."""
    keys = ("local", "local_blocks", "local_seeds")
    most = max((sum(len(_any(one.get(key, []))) for key in keys) for one in forecasters), default=1)
    return [None, *(_short(special.stdtrit(df, 1 - ALPHA / 2)) for df in range(1, most + 1))]


def _any(values: Any) -> Sequence[Any]:
    """A list; of a dictionary, one of its lists, which all have the same length."""
    return next(iter(values.values()), []) if isinstance(values, dict) else values


def _q(most: int) -> list[float | None]:
    """Quantiles of Nemenyi's test for 0, 1, … forecasters (Demšar 2006, table 5)."""
    counts = range(2, max(most, 2) + 1)
    return [None, None, *(_short(widest(1 - ALPHA, count) / np.sqrt(2)) for count in counts)]


def _row(scores: pd.Series[float]) -> dict[str, float | None]:
    """Scores by their keys, with more digits than those of clients."""
    return {str(key): _short(value, 6) for key, value in scores.items()}


def _list(values: Iterable[float]) -> list[float | None]:
    return [_short(value) for value in values]


def _short(value: float, digits: int = 4) -> float | None:
    """A number rounded to `digits` digits; None if it is not finite."""
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None
