"""The page of a study: one HTML file with its tables and figures, readable offline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from plfl.data.dataset import WEEK, YEAR
from plfl.report.answer import KINDS, answer
from plfl.report.charts import as_script, charts, library
from plfl.report.forest import forest
from plfl.report.rendering import figures_of, link, score, write_page
from plfl.report.standings import standings
from plfl.results import comparisons, words
from plfl.results.claims import in_sentences
from plfl.results.collect import SEASONS
from plfl.results.contest import Variant
from plfl.results.overview import best_cells
from plfl.results.statistics import undecidable
from plfl.results.tables import Tables, fitting
from plfl.results.words import baseline_label
from plfl.study import Cell, Study

WIDTHS = {
    "none": "Intervals are as the models learnt them.",
    "personal": "Intervals have widths that every client computed from its own validation set.",
    "adaptive": "Intervals have widths that every client computed from its own validation set. In "
    "the test set they follow its loads: wider after a load outside, narrower after one inside.",
    "shared": "Intervals of federations have widths that the server chose among those of the "
    "clients; baselines, and clients that train alone, have their own.",
}
"""What the page says about `task.conformal`."""
FILES = {
    "summary.csv": "scores of every cell",
    "records.parquet": "scores, losses and bytes of every client and round",
    "baselines.parquet": "scores of every baseline and client",
    "clients.parquet": "the clients and their loads",
    "errors.parquet": "errors of every cell, baseline, client and day",
    "forecasts.parquet": "one week of forecasts of every cell",
    "baseline_forecasts.parquet": "forecasts of the same week by the baselines",
    comparisons.FILE: "all comparisons, with the verdicts on the study's claims",
    "study.json": "configuration, versions and sources of the data",
}


def write(results: Path, figures: Path, out: Path) -> None:
    """Write the page of the study in folder `results`, with the SVGs in `figures`, to file `out`.

    The file contains the figures and links to the tables by relative paths. The same results give
    the same bytes.
    """
    tables = Tables(results)
    study, variant = tables.study, Variant("", {}, tables)
    with fitting(results):
        compared = comparisons.read(results, study, [variant])
        interactive = charts(tables)
        seen = dict.fromkeys(tables.have_seen_the_data, ", trained on these data before")
        write_page(
            out,
            "page.html.jinja",
            tables.about,
            tables=tables,
            one=study.participant,
            study=study,
            source=source_of(study),
            sources=[
                (state, path, digest)
                for state, receipt in tables.about.get("sources", {}).items()
                for path, digest in receipt["files"].items()
            ],
            standings=standings(best_cells(variant), seen=seen),
            failed=_failed(tables),
            best_baselines={
                state: baseline_label(name) for state, name in tables.best_baselines.items()
            },
            widths=WIDTHS[study.task.widening],
            answer=answer(variant, compared),
            kinds=KINDS,
            compared=forest(study, compared),
            dated=in_sentences(study, results),
            note=undecidable(study),
            trials=int(tables.summary["trials"].max()),
            schemes=[words.scheme(study, sharing) for sharing in study.grid.sharing],
            references=list(_naive(tables).values())
            + ["Best baseline"] * (not tables.baselines.empty),
            clients=[client for state in study.data.states for client in _clients(tables, state)],
            gaps=_gaps(tables),
            short=_short_series(tables),
            figures=figures_of(tables, figures),
            keeps_models=tables.about.get("engine", "simulator") == "simulator",
            charts=interactive["specs"],
            chart_data=Markup(as_script(interactive)),
            library=Markup(library()),
            files={
                name: (link(results / name, out), content)
                for name, content in FILES.items()
                if (results / name).is_file()  # a deployed study has no baselines
            },
        )


def source_of(study: Study) -> str:
    """The origin of the data of a study, in one phrase."""
    data = study.data
    if data.source == "comstock":
        of = f"release {data.comstock.release}, upgrade {data.comstock.upgrade}"
    elif data.source == "meters":
        raw = ", ".join(path.as_posix() for path in data.meters.exports)
        of = f"exports {raw}" if raw else f"folder {data.meters.folder.as_posix()}"
    else:
        of = f"generated by plfl with seed {data.sample.seed}, not measured"
    return f"{data.origin[0].upper()}{data.origin[1:]}, {of}"


def _failed(tables: Tables) -> dict[str, str]:
    """The error of each baseline that failed, by its label."""
    if "failed" not in (rows := tables.baselines):
        return {}
    failed = rows[rows["failed"] != ""].set_index("baseline")["failed"]
    return {baseline_label(str(name)): str(said) for name, said in failed.items()}


def _gaps(tables: Tables) -> str:
    """The numbers of windows that touch a gap and of their clients; empty if there are none."""
    clients = tables.clients
    if "skipped" not in clients or not (touched := clients[clients["skipped"] > 0]).size:
        return ""
    number = f"{len(touched)} {tables.study.participant}{'s' * (len(touched) > 1)}"
    share = clients["skipped"].sum() / clients[["windows", "skipped"]].sum().sum()
    return (
        f"{clients['skipped'].sum():,} windows of {number} touch a gap in the readings and are "
        f"left out of training, validation and test, {share:.1%} of all."
    )


def _short_series(tables: Tables) -> str:
    """The clients that have less than half of the readings of the longest series; empty if there
    are none."""
    clients = tables.clients
    months = clients["rows"] * clients["interval"] / (YEAR / 12)
    short = clients.assign(months=months)[months < months.max() / 2].sort_values("months")
    if short.empty:
        return ""
    named = [f"{row['client']} of {row['months']:.1f}" for row in short.to_dict("records")]
    listed = words.listed([*named[:3], *([f"{len(named) - 3} more of few"] * (len(named) > 3))])
    return (
        f"The longest series has readings of {months.max():.1f} months, {listed}: less than half. "
        "Their errors rest on fewer forecasts."
    )


def _clients(tables: Tables, state: str) -> Iterator[dict[str, Any]]:
    """The clients of a state with their test MASE in the best cell of each sharing scheme, then of
    the best baseline."""
    study, here = tables.study, tables.clients[tables.clients["state"] == state]
    columns: list[pd.Series[float] | None] = []
    for scheme in study.grid.sharing:
        cell = tables.best("local", state=state, sharing=scheme)
        columns.append(None if cell is None else _over_seeds(tables, cell))
    if tables.baselines.empty:
        by_name = here.set_index("client")
        columns += [by_name[f"{name}_mase_test"] for name in _naive(tables)]
    else:
        rows = tables.baselines[tables.baselines["baseline"] == tables.best_baseline(state)]
        rows = rows[(rows["state"] == state) & (rows["split"] == "test")]
        columns.append(rows.set_index("client")["mase"].reindex(here["client"]))
    peaks = _peaks(tables, state)
    for row in here.to_dict("records"):
        yield {
            "state": state,
            "name": str(row["client"]),
            "scores": [
                "diverged" if column is None else score(column[row["client"]]) for column in columns
            ],
            "peak": peaks.get(row["client"], "n/a"),
            "weeks": f"{row['rows'] * row['interval'] / WEEK:.1f}",
            **{name: f"{row[name]:#.4g}".rstrip(".") for name in ("mean", "std")},
        }


def _naive(tables: Tables) -> dict[str, str]:
    """The forecasts that the clients of a deployed study report, whose data stay with them, and
    their headings."""
    named = {name: f"Load a {name.removeprefix('naive_')} before" for name in SEASONS}
    known = {name: text for name, text in named.items() if f"{name}_mase_test" in tables.clients}
    return known if tables.baselines.empty else {}


def _over_seeds(tables: Tables, cell: Cell) -> pd.Series[float]:
    """Test MASE of each client's own model at the last round, mean over seeds."""
    last = {"split": "test", "model": "local", "round": tables.study.federation.rounds}
    scores = tables.records(["client", "mase"], **last, **_of_all_seeds(cell))
    return scores.groupby("client")["mase"].mean()


def _peaks(tables: Tables, state: str) -> dict[str, str]:
    """The errors of the daily peak in the cell that is shown for a state, by client: mean over the
    whole days of the test set, and over seeds."""
    cell = tables.shown_cell(state)
    if cell is None or not tables.has_peaks:
        return {}
    columns = ["peak_error", "peak_hours"]
    rows = tables.errors(["client", *columns], model="local", **_of_all_seeds(cell))
    means = rows.groupby("client")[columns].mean().dropna()
    return {
        str(client): f"{100 * error:.1f}\N{NO-BREAK SPACE}%, {hours:.1f}\N{NO-BREAK SPACE}h"
        for client, error, hours in means.itertuples()
    }


def _of_all_seeds(cell: Cell) -> dict[str, str]:
    return {axis: value for axis, value in asdict(cell).items() if axis != "seed"}
