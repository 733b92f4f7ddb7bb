"""The page of a study: one HTML file with its tables and figures, readable offline."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from plfl.base.job_state import JobState
from plfl.base.minutes import MINUTES_PER_WEEK, MINUTES_PER_YEAR
from plfl.base.text import capitalise, count_in_words
from plfl.baselines import pretrained_names
from plfl.forecast.kept_errors import warn_of_sums
from plfl.report.answer import answer
from plfl.report.charts import as_script, charts, library
from plfl.report.comparison_plot import plot_comparisons
from plfl.report.error_tables import lead_time_errors, sum_rows
from plfl.report.rendering import figures_of, format_peak, link, score, write_page
from plfl.report.standings import standings
from plfl.results import comparisons, words
from plfl.results.dominance import notes
from plfl.results.overview import best_cells
from plfl.results.records import CELL
from plfl.results.selection import best_baselines, contender_in_use, shown_cell
from plfl.results.statistics import undecidable
from plfl.results.tables import Tables, refuse_contradictions
from plfl.results.variants import Variant
from plfl.results.words import baseline_label
from plfl.study import Cell, Study

log = logging.getLogger(__name__)

STUDY_FILES = {
    "summary.csv": "scores of every cell",
    "records.parquet": "scores, losses and bytes of every client and round",
    "baselines.parquet": "scores of every baseline and client",
    "clients.parquet": "the clients and their loads",
    "errors.parquet": "errors of every cell, baseline, client and day",
    "forecasts.parquet": "one week of forecasts of every cell",
    "baseline_forecasts.parquet": "forecasts of the same week by the baselines",
    comparisons.COMPARISONS_FILE: "all comparisons, with the verdicts on the study's claims",
    "study.json": "configuration, versions, and files of the data with their SHA-256",
}


def write(results: Path, figures: Path, path: Path) -> None:
    """Write the page of the study in folder `results`, with the SVGs in `figures`, to file `path`,
    which links to the tables by relative paths. The same results give the same bytes."""
    tables = Tables(results)
    study, variant = tables.study, Variant("", {}, tables)
    with refuse_contradictions(results):
        comparison_rows = comparisons.read(results, study, [variant])
        found, interactive = answer(study, [variant], comparison_rows), charts(variant)
        write_page(
            path,
            "page.html.jinja",
            tables.facts,
            tables=tables,
            one=study.client_word,
            study=study,
            source=source_of(study),
            standings=standings(
                best_cells(variant), pretrained=pretrained_names(study.baselines.further)
            ),
            few=[*notes(tables)],
            failed=_failed_baselines(tables),
            leads=lead_time_errors(results, study),
            sums=sum_rows(results, study),
            sum_warnings=warn_of_sums(results, study),
            best_baselines={
                state: baseline_label(name) for state, name in best_baselines(tables).items()
            },
            answer=found,
            has_use=has_use(variant),
            compared=plot_comparisons(study, comparison_rows),
            note=undecidable(study),
            tuning=describe_tuning(study, int(tables.summary["trials"].max())),
            schemes={
                sharing: words.describe_shared(study, sharing) for sharing in study.grid.sharing
            },
            clients=[client for state in study.data.states for client in _clients(variant, state)],
            gaps=_gaps(tables),
            short=_short_series(tables),
            idle=_idle(tables),
            figures=figures_of(tables, figures),
            keeps_models=tables.facts.get("engine", "simulator") == "simulator",
            charts=interactive["specs"],
            chart_data=Markup(as_script(interactive)),
            library=Markup(library()),
            files={
                name: (link(results / name, path), content)
                for name, content in STUDY_FILES.items()
                if (results / name).is_file()  # a deployed study has no baselines
            },
        )
    if found:
        tell_answer(found.summary)


def tell_answer(text: str) -> None:
    """Tell whoever shows the job of the page what it answers."""
    log.info("%s", text, extra=JobState(answer=text).as_extra())


def source_of(study: Study) -> str:
    """The origin of the data of a study, in one phrase."""
    data = study.data
    if data.source == "comstock":
        detail = f"release {data.comstock.release}, upgrade {data.comstock.upgrade}"
    elif data.source == "meters":
        exports = data.meters.exports
        paths = chain(*exports.values()) if isinstance(exports, dict) else exports
        raw = ", ".join(path.as_posix() for path in paths)
        detail = f"exports {raw}" if raw else f"folder {data.meters.folder.as_posix()}"
    else:
        detail = f"generated by plfl with seed {data.sample.seed}, not measured"
    return f"{capitalise(data.source_words)}, {detail}"


def describe_tuning(study: Study, count: int) -> str:
    """How the hyperparameters of a study were chosen, given the trials of a cell."""
    if count < 2:
        return "as configured"
    trials_text = f"{count} trials each, each trained for all rounds"
    if rounds := study.tuning.rounds:
        choices = count_in_words(count // len(rounds), "choice")
        tried_rounds = words.join_words([*map(str, rounds)])
        trials_text = (
            f"{count} trials each: {choices}, scored after {tried_rounds} rounds of one training"
        )
    return (
        "selected for each cell by validation MASE, mean over all seeds, separately for local and "
        f"global models; {trials_text}"
    )


def _failed_baselines(tables: Tables) -> dict[str, str]:
    """The error of each baseline that failed, by its label."""
    if "failed" not in (rows := tables.baselines):
        return {}
    failed = rows[rows["failed"] != ""].set_index("baseline")["failed"]
    return {baseline_label(str(name)): str(reason) for name, reason in failed.items()}


def _gaps(tables: Tables) -> str:
    """The numbers of windows that touch a gap and of their clients; empty if there are none."""
    clients = tables.clients
    if "skipped" not in clients or not (touched := clients[clients["skipped"] > 0]).size:
        return ""
    number = count_in_words(len(touched), tables.study.client_word)
    share = clients["skipped"].sum() / clients[["windows", "skipped"]].sum().sum()
    return (
        f"{clients['skipped'].sum():,} windows of {number} touch a gap in the readings and are "
        f"left out of training, validation and test, {share:.1%} of all."
    )


def _idle(tables: Tables) -> str:
    """How many trainings of a federation had no participant in any round; empty if all had one."""
    cells = tables.summary.drop_duplicates(CELL)
    # Clients that receive a model without taking part train nothing.
    cells = cells[~cells["sharing"].isin(tables.study.plan.schemes.joining_schemes)]
    count = int((cells["epochs"] == 0).sum()) if "epochs" in cells else 0
    if not count:
        return ""
    return (
        f"In {count} of {len(cells)} trainings nobody took part in any round, because nobody was "
        "drawn or available (federation.participation, federation.simulation). Their models are as "
        "at the beginning."
    )


def _short_series(tables: Tables) -> str:
    """The clients that have less than half of the readings of the longest series, or ""."""
    clients = tables.clients
    months = clients["rows"] * clients["interval"] / (MINUTES_PER_YEAR / 12)
    short = clients.assign(months=months)[months < months.max() / 2].sort_values("months")
    if short.empty:
        return ""
    client_texts = [f"{row['client']} of {row['months']:.1f}" for row in short.to_dict("records")]
    subject = words.join_words(
        [*client_texts[:3], *([f"{len(client_texts) - 3} more of few"] * (len(client_texts) > 3))]
    )
    return (
        f"The longest series has readings of {months.max():.1f} months, {subject}: less than "
        "half. Their errors rest on fewer forecasts."
    )


def has_use(variant: Variant) -> bool:
    """Whether something is in use in every state."""
    return all(contender_in_use(variant, state) for state in variant.tables.study.data.states)


def _clients(variant: Variant, state: str) -> Iterator[dict[str, Any]]:
    """The clients of a state with their test MASE: of what is in use, in the best cell of each
    sharing scheme, and of the best baseline."""
    tables = variant.tables
    study, state_clients = tables.study, tables.clients[tables.clients["state"] == state]
    columns: list[pd.Series[float] | None] = []
    use = contender_in_use(variant, state) if has_use(variant) else None
    if use is not None:
        columns.append(use.by_client("mase").reindex(state_clients["client"]))
    last = {"split": "test", "model": "local", "round": study.federation.rounds}
    for scheme in study.grid.sharing:
        cell = tables.best("local", state=state, sharing=scheme)
        if cell is None:
            columns.append(None)
            continue
        scores = tables.records(["client", "mase"], **last, **_drop_seed(cell))
        # Of a deployment, who was not connected at the last evaluation has no score.
        means = scores.groupby("client")["mase"].mean()
        columns.append(means.reindex(state_clients["client"]))
    if not tables.baselines.empty:
        rows = tables.baselines[tables.baselines["baseline"] == tables.best_baseline(state)]
        rows = rows[(rows["state"] == state) & (rows["split"] == "test")]
        columns.append(rows.set_index("client")["mase"].reindex(state_clients["client"]))
    peaks = _peaks(variant, state)
    for row in state_clients.to_dict("records"):
        yield {
            "state": state,
            "name": str(row["client"]),
            "scores": [
                "diverged" if column is None else score(column[row["client"]]) for column in columns
            ],
            "peak": peaks.get(row["client"], "n/a"),
            "weeks": f"{row['rows'] * row['interval'] / MINUTES_PER_WEEK:.1f}",
            **{name: f"{row[name]:#.4g}".rstrip(".") for name in ("mean", "std")},
        }


def _peaks(variant: Variant, state: str) -> dict[str, str]:
    """The errors of the daily peak of what is in use in a state, else of the cell that is shown for
    it, by client: mean over the whole days of the test set, and over seeds."""
    tables = variant.tables
    if tables.has_peaks and has_use(variant) and (use := contender_in_use(variant, state)):
        errors, distances = (use.by_client(name) for name in ("peak_error", "peak_hours"))
        return {
            str(client): format_peak(100 * errors[client], distances[client])
            for client in errors.dropna().index
        }
    cell = shown_cell(tables, state)
    if cell is None or not tables.has_peaks:
        return {}
    columns = ["peak_error", "peak_hours"]
    rows = tables.errors(["client", *columns], model="local", **_drop_seed(cell))
    means = rows.groupby("client")[columns].mean().dropna()
    return {
        str(client): format_peak(100 * error, hours) for client, error, hours in means.itertuples()
    }


def _drop_seed(cell: Cell) -> dict[str, str]:
    return {axis: value for axis, value in asdict(cell).items() if axis != "seed"}
