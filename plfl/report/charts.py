"""The interactive charts of the page, declared with Altair from the tables of a study.

Everything that a chart shows is computed here: means and intervals. In the browser,
Vega-Lite only filters rows by the controls above a chart and draws them. The data are in the page
once, as named data sets, which several charts can use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import vl_convert

from plfl.base.errors import PlflError
from plfl.base.files import user_cache, write_text
from plfl.data.meters.stamps import zone_of
from plfl.forecast.output import localise_stamps
from plfl.results.best import best_rows
from plfl.results.records import CELL, MODELS
from plfl.results.selection import best_baselines, contender_in_use, shown_cell
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.results.words import baseline_label, client_side, word_scheme
from plfl.study import Cell, Study

MOST_ROUNDS = 60
"""Largest number of rounds in a curve; if there are more, evenly spaced ones are kept."""
MOST_WEEKS = 45
"""Largest number of clients in the page with a week each, 13 kB or more; of more, the first."""
WEEK_COLOURS = {
    "persistence": "var(--hue-1)",
    "best baseline": "var(--hue-0)",
    "load": "var(--ink)",
    "forecast": "var(--hue-2)",
}
"""The lines of a week from back to front, and their colours: variables of the page's style, so that
they follow it from light to dark."""
CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": "system-ui, DejaVu Sans, sans-serif",
    "axis": {
        "labelColor": "var(--ink)",
        "titleColor": "var(--ink)",
        "domainColor": "var(--quiet)",
        "tickColor": "var(--quiet)",
        "gridColor": "var(--line)",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": {"expr": "containerSize()[0] < 500 ? 140 : 260"},
    },
    "legend": {
        "labelColor": "var(--ink)",
        "labelFontSize": 12,
        "labelLimit": 260,
        "orient": "top",
        "columns": 2,
        "symbolBaseFillColor": "var(--quiet)",
        "symbolBaseStrokeColor": "var(--quiet)",
        "title": None,
    },
    "range": {"category": [f"var(--hue-{i})" for i in range(10)]},
    "view": {"stroke": None},
}


def charts(variant: Variant) -> dict[str, Any]:
    """The charts as JSON values: `specs` are Vega-Lite specifications by name, `datasets` the rows
    that they name. The `description` of a specification is its caption."""
    tables = variant.tables
    declared: dict[str, Callable[[Variant], tuple[alt.TopLevelMixin, dict[str, Any]]]] = {
        "convergence": _convergence,
        "week": _week,
    }
    specs, datasets = {}, {"persistence": [{"mase": 1}]}
    for name, declare in declared.items():
        if name == "week" and not tables.keeps_forecasts:
            continue
        chart, chart_datasets = declare(variant)
        specs[name] = chart.to_dict()
        datasets |= chart_datasets
    return {"specs": specs, "datasets": datasets, "config": CONFIG}


def as_script(content: Any) -> str:
    """JSON values, safe to be placed in a `script` element of a page."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")


NOTICE = (
    "Vega, Vega-Lite and Vega-Embed, Copyright (c) 2015, University of Washington Interactive"
    " Data Lab. All rights reserved. BSD 3-Clause License:"
    " https://github.com/vega/vega/blob/main/LICENSE"
)
"""The notice that the licence of the embedded JavaScript asks for."""


@cache
def library() -> str:
    """Vega, Vega-Lite and Vega-Embed for a `script` element, as `vl_convert` brings them."""
    bundle = _bundle()
    # In a function of its own, so that its names are not those of the page.
    return f"/* {NOTICE} */\n(() => {{{bundle}\n}})();".replace("</script", "<\\/script")


def _bundle() -> str:
    """The JavaScript of these. `vl_convert` takes seconds to put it together, so that it is kept in
    the user's cache."""
    name = f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError, ValueError, RuntimeError):
        return (user_cache() / name).read_text(encoding="utf-8")
    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    with suppress(OSError, PlflError, RuntimeError):  # the page does not need the cache
        write_text(user_cache() / name, bundle)
    return bundle


def _convergence(variant: Variant) -> tuple[alt.TopLevelMixin, dict[str, Any]]:
    """Validation error over the rounds."""
    tables = variant.tables
    table = curves(tables)
    rounds = sorted(table["round"].unique().tolist())
    kept_rounds = np.linspace(0, len(rounds) - 1, min(len(rounds), MOST_ROUNDS)).round().astype(int)
    table = table[table["round"].isin([rounds[i] for i in kept_rounds])]
    marks = np.unique(np.linspace(rounds[0], rounds[-1], 9).round()).tolist()
    keys = ["state", "sharing", "optimiser", "server_opt", "model"]
    rows = [
        dict(zip(keys, key, strict=True))
        | {"round": cell_rows["round"].tolist(), "mase": _numbers(cell_rows["mase"])}
        for key, cell_rows in table.groupby(keys, sort=False)
    ]
    best, validation = best_baselines(tables), tables.baseline_scores["validation_mase"]
    lines = [
        {
            "state": state,
            "label": f"best baseline: {baseline_label(name)}",
            "mase": _number(validation[state, name]),
        }
        for state, name in best.items()
    ]
    study, states, schemes = tables.study, tables.study.data.states, tables.study.grid.sharing
    params, row_filter, scheme_filter = [], "true", "true"
    if len(states) > 1:
        params.append(_choice("state", states, states, "State"))
        row_filter = "datum.state === state"
    if len(schemes) > 1:
        labels = [word_scheme(study, name) for name in schemes]
        params.append(_choice("scheme", schemes, labels, "Sharing scheme"))
        scheme_filter = "datum.sharing === scheme"
    picked = alt.selection_point("picked", fields=["optimiser"], bind="legend")
    names = list(dict.fromkeys(table["optimiser"].astype(str)))
    dashes = alt.Scale(domain=list(MODELS), range=[[1, 0], [5, 3]])
    curve = (
        alt.Chart(alt.NamedData("curves"), name="curves")
        .transform_filter(f"{row_filter} && {scheme_filter}")
        .transform_flatten(["round", "mase"])
        .mark_line(point={"size": 30}, strokeWidth=1.8)
        .encode(
            x=alt.X("round:Q", title="Round", axis=alt.Axis(values=marks, format="d")),
            y=_errors([*table["mase"], *validation, 1.0], "Validation MASE"),
            color=alt.Color("optimiser:N", scale=alt.Scale(domain=names)),
            strokeDash=alt.StrokeDash("model:N", scale=dashes, legend=None),
            detail="server_opt:N",
            opacity=alt.condition(picked, alt.value(1), alt.value(0.15)),
            tooltip=[
                _tip("optimiser", "ClientOpt", "N"),
                _tip("server_opt", "ServerOpt", "N"),
                _tip("model", "Model", "N"),
                _tip("round", "Round"),
                _tip("mase", "Validation MASE"),
            ],
        )
        .add_params(picked)
    )
    rival = (
        alt.Chart(alt.NamedData("rivals"))
        .transform_filter(row_filter)
        .mark_rule(color="var(--ink)", strokeDash=[8, 3, 2, 3])
        .encode(y="mase:Q", tooltip=[_tip("label", "Rival", "N"), _tip("mase", "Validation MASE")])
    )
    caption = (
        f"Validation MASE over the rounds, mean over {tables.study.client_word}s and seeds, of each"
        " ClientOpt with the ServerOpt of lowest validation MASE at the last round. Solid: local"
        " models; dashed: global models; dash-dotted: the best baseline; dotted: persistence. A "
        "click on an entry"
        " of the legend picks its lines out."
    )
    rule = alt.Chart(alt.NamedData("persistence")).mark_rule(strokeDash=[1, 3])
    layers = [rival, curve, rule.encode(y="mase:Q", color=alt.value("var(--quiet)"))]
    return _chart(layers, params, caption, 300), {"curves": rows, "rivals": lines}


def _week(variant: Variant) -> tuple[alt.TopLevelMixin, dict[str, Any]]:
    """Loads and forecasts of one week, client by client."""
    tables = variant.tables
    study, rows = tables.study, []
    ends = next(iter(tables.intervals.items()), None)
    columns = {"truth": "load", "local": "forecast", "baseline": "best baseline"}
    if ends:
        columns |= dict(zip(ends[1], ("low", "high"), strict=True))
    has_several_states, weeks_per_state = (
        len(study.data.states) > 1,
        MOST_WEEKS // len(study.data.states),
    )
    for state in study.data.states:
        cell = shown_cell(tables, state)
        if cell is None:
            continue
        state_forecasts = forecasts(variant, cell, tables.best_baseline(state))
        for client in sorted(state_forecasts["client"].unique())[: max(1, weeks_per_state)]:
            week = complete_intervals(
                state_forecasts[state_forecasts["client"] == client], study.data.interval
            )
            week = week.rename(columns=columns)
            rows.append(
                {"client": f"{state}: {client}" if has_several_states else str(client)}
                | {"start": f"{find_local_start(study, client, week['stamp']):%Y-%m-%dT%H:%M}"}
                | {"index": list(range(len(week)))}
                | {
                    name: _numbers(week[name])
                    for name in (*WEEK_COLOURS, "low", "high")
                    if name in week
                }
            )
    names = [name for name in WEEK_COLOURS if any(name in row for row in rows)]
    clients = [str(row["client"]) for row in rows] or [""]
    step = study.data.interval * 60_000
    base = (
        alt.Chart(alt.NamedData("weeks"))
        .transform_filter("datum.client === client")
        .transform_flatten([*names, *(["low", "high"] if ends else []), "index"])
        .transform_calculate(time=f"toDate(datum.start + 'Z') + datum.index * {step}")
    )
    time = alt.X(
        "time:T",
        scale=alt.Scale(type="utc", nice=False),
        title=None,
        axis=alt.Axis(format="%a %d %b", labelOverlap=True, tickCount="day"),
    )
    unit = alt.Axis(title=f"Load ({tables.load_unit})")
    lines = (
        base.transform_fold([*names], ["line", "value"])
        .transform_calculate(at="utcFormat(datum.time, '%a %d %b %H:%M')")
        .mark_line(strokeWidth=1.5, clip=True)
        .encode(
            x=time,
            y=alt.Y("value:Q", axis=unit),
            color=alt.Color(
                "line:N", scale=alt.Scale(domain=names, range=[WEEK_COLOURS[n] for n in names])
            ),
            tooltip=[_tip("line", "Line", "N"), _tip("at", "Time", "N"), _tip("value", "Load")],
        )
    )
    layers = [lines]
    if ends:
        band = base.mark_area(color=WEEK_COLOURS["forecast"], opacity=0.2)
        layers.insert(0, band.encode(x=time, y=alt.Y("low:Q", axis=unit), y2="high:Q"))
    is_local = study.data.source == "meters"
    clock = "local, by the clock as the week begins" if is_local else "local standard time"
    shaded = f" Shaded: the interval of {ends[0]} %." if ends else ""
    caption = (
        "First week of the test set: load, forecast of the forecaster in use, and the best baseline"
        " that sends no data. Where a window has several"
        f" targets, forecasts follow each other without overlap. Times are {clock}.{shaded}"
    )
    params = [_choice("client", clients, clients, study.client_word.capitalize())]
    return _chart(layers, params, caption, 280), {"weeks": rows}


def find_local_start(study: Study, client: str, stamps: pd.Series) -> pd.Timestamp:
    """The first of a client's stamps, with daylight saving time if its zone is known."""
    first, zone = pd.Timestamp(stamps.iloc[0]), zone_of(study.data, client)
    return first if zone is None else localise_stamps(first, zone)


def _choice(name: str, values: Sequence[str], labels: Sequence[str], title: str) -> alt.Parameter:
    """A control above a chart that chooses one of some values."""
    options = alt.binding_select(options=[*values], labels=[*labels], name=f"{title} ")
    return alt.param(name, value=values[0], bind=options)


def _chart(
    layers: Sequence[alt.Chart], params: Sequence[alt.Parameter], about: str, height: float
) -> alt.TopLevelMixin:
    """Layers as one chart that is as wide as the page, with a caption."""
    chart = alt.layer(*layers).add_params(*params)
    whole_chart: alt.TopLevelMixin = chart.properties(
        width="container", height=height, description=about
    )
    return whole_chart


def _errors(values: Sequence[float], title: str) -> alt.Y:
    """An axis of errors: logarithmic if they are more than a factor of ten apart."""
    finite_values = np.array([value for value in values if 0 < value < np.inf])
    wide = finite_values.max() > 10 * finite_values.min()
    scale = alt.Scale(type="log", nice=False) if wide else alt.Scale(zero=False)
    return alt.Y("mase:Q", title=title, scale=scale)


def _tip(field: str, title: str, kind: str = "Q") -> alt.Tooltip:
    number: dict[str, Any] = {"format": ".4~g"} if kind == "Q" else {}
    return alt.Tooltip(f"{field}:{kind}", title=title, **number)


def _numbers(values: Sequence[float] | pd.Series[float]) -> list[float | None]:
    return [_number(value) for value in values]


def _number(value: float) -> float | None:
    """A number with four digits; None if it is not finite."""
    return float(f"{value:.4g}") if np.isfinite(value) else None


def curves(tables: Tables) -> pd.DataFrame:
    """Validation MASE over the rounds of each ClientOpt with its best ServerOpt, by `state`,
    `sharing`, `optimiser` (method and ClientOpt in print), `model` and `round`.

    `mase` is the mean over clients and seeds; NaN from the round in which a client's error is not
    finite. A client whose persistence error is zero has no MASE and is left out. `server_opt` is
    the one of lowest validation MASE of the local models at the last round. Where clients train
    alone, there are local models only.
    """
    study, keys = tables.study, [*CELL[:-1], "model", "round"]
    records = tables.records([*CELL, "model", "round", "mae", "mase"], split="validation")
    rounds = records.assign(finite=np.isfinite(records["mae"])).groupby(keys)
    table = rounds["mase"].mean().where(rounds["finite"].all()).reset_index()
    names = [name for name in CELL[:-1] if name != "server_opt"]
    best = best_rows(tables.scores("local").reset_index(), names)
    table = best[CELL[:-1]].merge(table, on=CELL[:-1])  # in the order of the study
    local_cells = [
        study.plan.combinations.trains_alone(*pair)
        for pair in table[["sharing", "method"]].itertuples(index=False)
    ]
    table = table[~(np.array(local_cells, bool) & (table["model"] == "global"))]
    sides = table[["method", "client_opt"]].itertuples(index=False)
    return table.assign(optimiser=[client_side(study, *side) for side in sides])


def forecasts(variant: Variant, cell: Cell, baseline: str | None) -> pd.DataFrame:
    """A week of all clients of a cell's state: `client`, `stamp`, the lines that there are, and the
    ends of intervals. `local` is what is in use for a client or, if nothing is, of the cell; a
    baseline that is in use has no intervals here."""
    tables = variant.tables
    columns = [column for pair in tables.intervals.values() for column in pair]
    column_names = ["client", "stamp", "persistence", "truth", "local", *columns]
    week = tables.forecasts(column_names, **asdict(cell))
    for part, clients in (
        use.contenders_with_clients if (use := contender_in_use(variant, cell.state)) else ()
    ):
        place, is_meant = ["client", "stamp"], week["client"].isin(clients)
        if part.forecaster.is_baseline:
            name = part.forecaster.combination.method
            rows = tables.baseline_forecasts(
                [*place, "forecast"], state=cell.state, baseline=name
            ).rename(columns={"forecast": "local"})
        else:
            equal = asdict(cell) | part.forecaster.combination._asdict()
            rows = tables.forecasts([*place, "local", *columns], **equal)
        lines = ["local", *columns]
        new = (
            week.loc[is_meant, place]
            .merge(rows, on=place, how="left")
            .reindex(columns=[*place, *lines])
        )
        week.loc[is_meant, lines] = new[lines].to_numpy()
    if baseline is None:
        return week
    columns = ["client", "stamp", "forecast"]
    baseline_table = tables.baseline_forecasts(columns, state=cell.state, baseline=baseline)
    baseline_table = baseline_table.rename(columns={"forecast": "baseline"})
    return week.merge(baseline_table, on=["client", "stamp"], how="left")


def complete_intervals(week: pd.DataFrame, minutes: int) -> pd.DataFrame:
    """A week with a row for every interval, so that lines stop where windows touch a gap."""
    return week.set_index("stamp").asfreq(f"{minutes}min").reset_index()
