"""The page of a study: one HTML file with its tables and figures, readable offline."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pandas as pd
import yaml
from markupsafe import Markup

from plfl.base.files import atomic
from plfl.config.study import Cell, Study
from plfl.report.answer import answer
from plfl.report.chart_data import chart_data
from plfl.report.clients import MOST, baseline_mase, clients_shown, load, score
from plfl.report.forest import forest, left_out
from plfl.report.grid import grid
from plfl.report.intervals import MARGINS, SCORES, intervals, shares, sorted_by
from plfl.report.named import named_claims
from plfl.report.opening import sentences
from plfl.report.rendering import figures_of, templates
from plfl.report.standings import standings, without_seed
from plfl.results import contrasts
from plfl.results.claims import verdicts
from plfl.results.findings import findings
from plfl.results.labels import baseline_label, method_label
from plfl.results.tables import Tables, fitting

FILES = {
    "summary.csv": "scores of every cell",
    "records.parquet": "scores, losses and bytes of every client and round",
    "baselines.parquet": "scores of every baseline and client",
    "clients.parquet": "the clients and their loads",
    "errors.parquet": "errors of every cell, baseline, client and day",
    "forecasts.parquet": "one week of forecasts of every cell",
    "baseline_forecasts.parquet": "forecasts of the same week by the baselines",
    "study.json": "configuration, versions and sources of the data",
}


def write(results: Path, figures: Path, out: Path) -> None:
    """Write the page of the study in folder `results`, with the SVGs in `figures`, to file `out`.

    The file contains the figures and links to the tables by relative paths. The same results give
    the same bytes.
    """
    tables = Tables(results)
    with fitting(results):
        configuration = yaml.safe_dump(
            tables.about["study"], sort_keys=False, allow_unicode=True, width=100
        )
        found, judged = findings(tables), verdicts(tables)
        drawn = list(figures_of(tables.study, figures))
        page = (
            templates()
            .get_template("page.html.jinja")
            .render(
                tables=tables,
                one=tables.study.participant,
                MOST=MOST,
                study=tables.study,
                about=tables.about,
                source=source_of(tables.study),
                sources=_sources(tables),
                configuration=configuration,
                encoded=base64.b64encode(configuration.encode()).decode("ascii"),
                standings=standings(tables),
                best_baselines={
                    state: baseline_label(name) for state, name in tables.best_baselines.items()
                },
                intervals=intervals(tables),
                shares=shares(tables),
                sorted_by=SCORES[sorted_by(tables)],
                margins=MARGINS[tables.study.task.margins],
                answer=answer(tables, found),
                sentences=sentences(tables, found),
                findings=forest(found.verdicts),
                claims=forest(judged),
                left_out=left_out(judged),
                claims_named=named_claims(
                    contrasts.table(contrasts.of_folder(results, tables.study), results), results
                ),
                trials=int(tables.summary["trials"].max()),
                grid=grid(tables),
                traffic=_traffic(tables),
                clients=_clients(tables),
                gaps=_gaps(tables),
                clients_shown=clients_shown(tables),
                figures={figure.name: figure for figure in drawn if figure.drawings},
                keeps_models=tables.about.get("engine", "simulator") == "simulator",
                chart_data=Markup(chart_data(tables)),
                scripts=_scripts(),
                empty=[figure.name for figure in drawn if not figure.drawings],
                files={
                    name: (
                        quote(Path(os.path.relpath(results / name, out.parent)).as_posix()),
                        content,
                    )
                    for name, content in FILES.items()
                    if (results / name).is_file()  # a deployed study has no baselines
                },
            )
        )
    with atomic(out) as temporary:
        temporary.write_text(page, encoding="utf-8")


@dataclass(frozen=True)
class TrafficRow:
    """Bytes of a sharing scheme and method per round and client."""

    scheme: str
    method: str
    """Its label; "none" where clients train alone."""
    down: int
    up: int


@dataclass(frozen=True)
class Client:
    """A row of the table of clients."""

    state: str
    number: int
    name: str
    rows: int
    mean: str
    std: str
    scores: list[str]
    """Test MASE in the best cell of each sharing scheme, then of the best baseline if any."""


@dataclass(frozen=True)
class Source:
    """A file that the series of a state were read from."""

    state: str
    path: str
    sha256: str


def source_of(study: Study) -> str:
    """Where the data of a study come from, in one phrase."""
    data = study.data
    if data.source == "comstock":
        of = f"release {data.comstock.release}, upgrade {data.comstock.upgrade}"
    elif data.source == "meters":
        raw = ", ".join(path.as_posix() for path in data.meters.exports)
        of = f"exports {raw}" if raw else f"folder {data.meters.folder.as_posix()}"
    else:
        of = f"generated by plfl with seed {data.sample.seed}, not measured"
    return f"{data.origin[0].upper()}{data.origin[1:]}, {of}"


def _sources(tables: Tables) -> list[Source]:
    return [
        Source(state, path, digest)
        for state, receipt in tables.about.get("sources", {}).items()
        for path, digest in receipt["files"].items()
    ]


def _traffic(tables: Tables) -> list[TrafficRow]:
    return [
        TrafficRow(
            scheme,
            "none"
            if tables.study.combinations.trains_alone(scheme, method)
            else method_label(method),
            round(down),
            round(up),
        )
        for (scheme, method), down, up in tables.traffic.itertuples()
    ]


def _clients(tables: Tables) -> list[Client]:
    of_baselines = baseline_mase(tables)
    states = tables.study.data.states
    return [client for state in states for client in _clients_of(tables, state, of_baselines)]


def _gaps(tables: Tables) -> str:
    """How many windows of how many clients touch a gap; empty without any."""
    clients = tables.clients
    if "skipped" not in clients or not (touched := clients[clients["skipped"] > 0]).size:
        return ""
    number = f"{len(touched)} {tables.study.participant}{'s' * (len(touched) > 1)}"
    share = clients["skipped"].sum() / clients[["windows", "skipped"]].sum().sum()
    return (
        f"{clients['skipped'].sum():,} windows of {number} touch a gap in the readings and are "
        f"left out of training, validation and test, {share:.1%} of all."
    )


def _clients_of(tables: Tables, state: str, of_baselines: pd.DataFrame) -> Iterator[Client]:
    study = tables.study
    columns = []
    for scheme in study.grid.sharing:
        cell = tables.best("local", state=state, sharing=scheme)
        columns.append(None if cell is None else _over_seeds(tables, cell))
    if not of_baselines.empty:
        here, best = of_baselines.loc[state], tables.best_baseline(state)
        columns.append(here[best] if best else pd.Series(np.nan, here.index))
    here = tables.clients[tables.clients["state"] == state]
    for number, row in enumerate(here.to_dict("records"), 1):
        scores = [
            "diverged" if column is None else score(column[row["client"]]) for column in columns
        ]
        yield Client(
            state,
            number,
            str(row["client"]),
            int(row["rows"]),
            load(row["mean"]),
            load(row["std"]),
            scores,
        )


def _over_seeds(tables: Tables, cell: Cell) -> pd.Series[float]:
    """Test MASE of the local model of each client at the last round, mean over seeds."""
    last = tables.study.federation.rounds
    table = tables.records(
        ["client", "mase"], split="test", model="local", round=last, **without_seed(cell)
    )
    return table.groupby("client")["mase"].mean()


def _scripts() -> dict[str, Markup]:
    """The script of the charts and the library that it uses."""
    folder = resources.files("plfl.report") / "charts"
    return {
        name: Markup((folder / f"{name}.js").read_text(encoding="utf-8"))
        for name in ("plot", "charts")
    }
