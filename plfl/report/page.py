"""The page of a study: one HTML file with its tables and figures, readable offline."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import jinja2
import numpy as np
import pandas as pd
import yaml
from markupsafe import Markup, escape

from plfl.baselines import BASELINE
from plfl.config.study import Cell, Study
from plfl.errors import ResultsError
from plfl.files import atomic
from plfl.report.chart_data import chart_data
from plfl.report.clients import HEIGHT, LEFT, MOST, WIDTH, baseline_mase, clients_shown, load, score
from plfl.report.extras import EXTRAS, extras
from plfl.report.figures import available, caption
from plfl.report.figures.nothing import EMPTY
from plfl.report.forest import forest, left_out
from plfl.report.intervals import MARGINS, SCORES, intervals, shares, sorted_by
from plfl.report.opening import sentences
from plfl.report.standings import of_cell, standings, without_seed
from plfl.results import audit, scarcity
from plfl.results.claims import verdicts
from plfl.results.findings import findings
from plfl.results.provenance import own_table
from plfl.results.records import MODELS, Model
from plfl.results.tables import (
    Tables,
    baseline_label,
    fitting,
    method_label,
    server_label,
    spaced,
)

FILES = {
    "summary.csv": "scores of every cell",
    "records.parquet": "scores, losses and bytes of every client and round",
    "baselines.parquet": "scores of every baseline and client",
    "clients.parquet": "the clients and their loads",
    "forecasts.parquet": "one week of forecasts of every cell",
    "baseline_forecasts.parquet": "forecasts of the same week by the baselines",
    "study.json": "configuration, versions and sources of the data",
}
MARKS = {"audit.csv": audit.mark, "scarcity.csv": scarcity.mark}
"""For each of the `EXTRAS`, the function that computes what its column `study` must hold."""
COLUMNS: list[tuple[Model, Literal["last", "best_validation"]]] = [
    ("local", "last"),
    ("local", "best_validation"),
    ("global", "last"),
    ("global", "best_validation"),
]
"""Model and round of each score of the grid, in the order of the columns."""
ZOOM = 1.9
"""CSS pixels per point of a figure: text of 7 pt becomes as large as that of the tables."""


def write(results: Path, figures: Path, out: Path) -> None:
    """Write the page of the study in folder `results`, with the SVGs in `figures`, to file `out`.

    The file contains the figures and links to the tables by relative paths. The same results give
    the same bytes.

    Raises:
        ResultsError: the results or figures are incomplete or have another format.
    """
    tables = Tables(results)
    environment = templates()
    environment.globals |= {"LEFT": LEFT, "WIDTH": WIDTH, "HEIGHT": HEIGHT, "MOST": MOST}
    with fitting(results):
        extra = {
            path.name: own_table(tables, path.name, MARKS[path.name]) for path in extras(results)
        }
        configuration = yaml.safe_dump(
            tables.about["study"], sort_keys=False, allow_unicode=True, width=100
        )
        found, judged = findings(tables), verdicts(tables)
        drawn = list(_figures(tables.study, figures))
        page = environment.get_template("page.html.jinja").render(
            tables=tables,
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
            sentences=sentences(tables, found),
            findings=forest(found.verdicts),
            claims=forest(judged),
            left_out=left_out(judged),
            choices=_choices(tables),
            trials=int(tables.summary["trials"].max()),
            grid=_grid(tables),
            traffic=_traffic(tables),
            clients=_clients(tables),
            gaps=_gaps(tables),
            clients_shown=clients_shown(tables),
            figures=[figure for figure in drawn if figure.drawings],
            keeps_models=tables.about.get("engine", "simulator") == "simulator",
            chart_data=Markup(chart_data(tables)),
            scripts=_scripts(),
            empty=[figure.name for figure in drawn if not figure.drawings],
            audit=_audit(extra.get("audit.csv")),
            scarcity=_scarcity(tables.study, extra.get("scarcity.csv"), figures),
            files={
                name: (quote(Path(os.path.relpath(results / name, out.parent)).as_posix()), content)
                for name, content in (FILES | _described(tables.study, extra)).items()
                if (results / name).is_file()  # a deployed study has no baselines
            },
        )
    with atomic(out) as temporary:
        temporary.write_text(page, encoding="utf-8")


def templates() -> jinja2.Environment:
    """The templates of the pages."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("plfl.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["number"] = spaced
    return environment


@dataclass(frozen=True)
class Choice:
    """The cell of lowest validation MASE in a state and sharing scheme."""

    optimisers: str
    hyperparameters: dict[Model, str]
    """The values selected for each model; empty if nothing was tuned."""
    trials: int
    steps: str
    """Local steps of all clients in all trials, per seed."""
    validation: str
    test: dict[Model, str]
    lowest: bool
    """Whether it has the lowest validation MASE of its state."""


@dataclass(frozen=True)
class Combination:
    """A row of the grid: test scores in the order of `COLUMNS`."""

    scheme: str
    """`baseline` for a baseline, whose name is in `client_opt`."""
    client_opt: str
    server_opt: str
    scores: list[str]
    lowest: list[bool]
    """Which scores are the lowest of their column in the state, among cells or among baselines."""


@dataclass(frozen=True)
class Traffic:
    """Bytes of a sharing scheme and method per round and client."""

    scheme: str
    method: str
    """Its label; "none" where clients train alone."""
    down: int
    up: int
    share: str
    """Percentage of the row with most bytes."""


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


@dataclass(frozen=True)
class Walk:
    """One table of the audit."""

    title: str
    state: str
    optimisers: str
    schemes: list[str]
    rows: list[tuple[str, list[str]]]
    """What was changed; local and global MASE of each sharing scheme, then the bytes of each."""


@dataclass(frozen=True)
class Scarcity:
    """Scores by weeks of history."""

    drawing: Markup
    caption: str
    sentences: list[str]
    weeks: list[str]
    rows: list[tuple[str, str, str, list[str]]]
    """State, forecaster, model, and the MASE for each length of history."""


@dataclass(frozen=True)
class Shown:
    """A figure with its drawings in SVG."""

    name: str
    caption: str
    drawings: list[Markup]
    """Without those that have nothing to show in this study."""


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


def _choices(tables: Tables) -> list[tuple[str, str, Choice | None]]:
    """The best cell of each state and sharing scheme; None if every cell diverged."""
    rows: list[tuple[str, str, Choice | None]] = []
    for state, scheme in product(tables.study.data.states, tables.study.grid.sharing):
        cell = tables.best("local", state=state, sharing=scheme)
        rows.append((state, scheme, None if cell is None else _choice(tables, cell)))
    return rows


def _choice(tables: Tables, cell: Cell) -> Choice:
    rows = of_cell(tables.summary[tables.summary["chosen"] == "last"], cell)
    by_model = rows.groupby("model")
    means, deviations = by_model["mase_mean"].mean(), by_model["mase_mean"].std()
    # Hyperparameters are selected once for all seeds.
    first = by_model.first()
    return Choice(
        tables.optimisers(cell),
        {model: str(first["hyperparameters"][model]) for model in MODELS},
        int(first["trials"]["local"]),
        spaced(first["trial_steps"]["local"]),
        score(by_model["validation_mase"].mean()["local"]),
        {model: score(means[model], deviations[model]) for model in MODELS},
        lowest=cell == tables.best("local", state=cell.state),
    )


def _grid(tables: Tables) -> dict[str, list[Combination]]:
    """The rows of the grid of each state."""
    study = tables.study
    by_column = [tables.scores(model, chosen) for model, chosen in COLUMNS]
    axes = (
        study.grid.sharing,
        study.grid.method,
        study.grid.client_opt,
        study.grid.server_opt,
    )
    wanted = [key for key in product(*axes) if key[1:] not in study.refused]
    grid = {}
    for state in study.data.states:
        here = [table.loc[state].reindex(wanted) for table in by_column]
        values, deviations, diverged = (
            np.column_stack([table[column] for table in here])
            for column in ("mase_mean", "mase_sd", "diverged")
        )
        lowest = values == np.where(np.isnan(values), np.inf, values).min(axis=0)
        grid[state] = [
            Combination(
                scheme,
                tables.client_side(method, client_opt),
                "none" if study.trains_alone(scheme, method) else server_label(server_opt),
                [
                    "diverged" if lost else score(value, sd)
                    for value, sd, lost in zip(values[i], deviations[i], diverged[i], strict=True)
                ],
                lowest[i].tolist(),
            )
            for i, (scheme, method, client_opt, server_opt) in enumerate(wanted)
            if not study.repeats(scheme, method, client_opt, server_opt)
        ] + _baseline_rows(tables, state)
    return grid


def _baseline_rows(tables: Tables, state: str) -> list[Combination]:
    """The rows of the baselines, which have one model and no rounds: one score in all columns."""
    table = tables.baseline_scores["mase_mean"]
    here = table[table.index.get_level_values("state") == state].droplevel("state")
    count = len(COLUMNS)
    return [
        Combination(
            BASELINE,
            baseline_label(str(name)),
            "none",
            count * [score(value)],
            count * [value == here.min()],
        )
        for name, value in here.items()
    ]


def _traffic(tables: Tables) -> list[Traffic]:
    traffic = tables.traffic
    most = traffic.sum(axis=1).max()
    return [
        Traffic(
            scheme,
            "none" if tables.study.trains_alone(scheme, method) else method_label(method),
            round(down),
            round(up),
            f"{100 * (down + up) / most:.2f} %" if most else "n/a",
        )
        for (scheme, method), down, up in traffic.itertuples()
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
    number = "1 client" if len(touched) == 1 else f"{len(touched)} clients"
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


def _described(study: Study, extra: dict[str, pd.DataFrame | None]) -> dict[str, str]:
    """What the page says about each of the `EXTRAS` in `extra`."""
    return {
        name: EXTRAS[name]
        if table is not None
        else Markup(
            "not shown because it belongs to another study or to an earlier version of this one; "
            "run <code>plfl {} {}.yaml</code> to make it again"
        ).format(Path(name).stem, study.name)
        for name, table in extra.items()
    }


def _audit(table: pd.DataFrame | None) -> list[Walk]:
    """The results of `plfl audit`: one table per walk, state and pair of optimisers."""
    if table is None:
        return []
    walks = []
    titles = {str(walk): title for walk, title in audit.TITLES.items()}
    for keys, part in table.groupby(["walk", "state", *audit.PAIR], sort=False):
        walk, state, *pair = map(str, keys)
        schemes = part["sharing"].unique().tolist()
        rows = []
        for switch, row in part.groupby("switch", sort=False):
            by_model = row.set_index(["sharing", "model"])
            shown = by_model["mase"].map(score).mask(by_model["diverged"], "diverged")
            scores = [str(shown[scheme, model]) for scheme in schemes for model in MODELS]
            traffic = [spaced(by_model["bytes"][scheme, "local"]) for scheme in schemes]
            rows.append((str(switch), [*scores, *traffic]))
        walks.append(Walk(titles[walk], state, audit.pair_label(*pair), schemes, rows))
    return walks


def _scarcity(study: Study, table: pd.DataFrame | None, figures: Path) -> Scarcity | None:
    """The results of `plfl scarcity`; its figure is drawn again if it is missing."""
    if table is None:
        return None
    # Imported here because most pages need no figure from it, and matplotlib is slow to import.
    from plfl.report import scarcity as figure

    picture = figures / "scarcity.svg"
    if not picture.is_file():
        figure.illustrate(study, table, figures)
    summary = scarcity.summarise(table)
    weeks = sorted(summary["weeks"].dropna().unique())
    rows = []
    for keys, part in summary.groupby(["state", "forecaster", "model"], sort=False):
        state, forecaster, model = map(str, keys)
        by_weeks = part.set_index("weeks")["mase"]
        # A forecaster that learns nothing has the same score for every length of history.
        otherwise = by_weeks.iloc[0] if by_weeks.index.isna().all() else np.nan
        values = [by_weeks.get(w, otherwise) for w in weeks]
        rows.append((state, scarcity.label(forecaster), model, [score(value) for value in values]))
    return Scarcity(
        drawing(picture, figure.CAPTION),
        figure.CAPTION,
        scarcity.crossings(table),
        [f"{w:g}" for w in weeks],
        rows,
    )


def _scripts() -> dict[str, Markup]:
    """The script of the charts and the library that it uses."""
    folder = resources.files("plfl.report") / "charts"
    return {
        name: Markup((folder / f"{name}.js").read_text(encoding="utf-8"))
        for name in ("plot", "charts")
    }


def _figures(study: Study, folder: Path) -> Iterator[Shown]:
    for name, stems in available(study).items():
        text = caption(name, study)
        drawings = [drawing(folder / f"{stem}.svg", text) for stem in stems]
        yield Shown(name, text, [shown for shown in drawings if shown])


_RULES = re.compile(r"<defs>\s*<style.*?</defs>\s*", re.DOTALL)
_NAME = re.compile(r'(\bid="|url\(#|href="#)')
_BETWEEN = re.compile(r">\s*(?:<!--.*?-->\s*)*<", re.DOTALL)
_BREAK = re.compile(r"\s*\n\s*")
_DECIMALS = re.compile(r"(scale\([^)]*\))|(\d\.\d\d)\d+")
_SIZE = re.compile(r'width="([\d.]+)pt" height="([\d.]+)pt"')


def drawing(path: Path, text: str) -> Markup:
    """An SVG to embed in the page, with unique ids and a label for screen readers.

    Empty if the figure has nothing to show.
    """
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ResultsError(
            f"{path}: the figure is missing; run the study again to draw it"
        ) from None
    if f'id="{EMPTY}"' in content:
        return Markup()
    svg = content[content.index("<svg") :]  # HTML allows no XML prolog
    svg = _RULES.sub("", svg, count=1)  # they would apply to the whole page, which has its own
    svg = _NAME.sub(rf"\g<1>{path.stem}-", svg)
    svg = _BREAK.sub(" ", _BETWEEN.sub("><", svg))
    svg = _DECIMALS.sub(r"\1\2", svg)  # hundredths of a point are enough, except for factors
    size = _SIZE.search(svg)
    assert size is not None, "matplotlib writes the size of every SVG"
    width, height = (round(ZOOM * float(points)) for points in size.groups())
    label = escape(f"Figure {path.stem}: {text.split('.')[0]}.")
    svg = svg.replace(
        size[0], f'role="img" aria-label="{label}" width="{width}" height="{height}"', 1
    )
    return Markup(svg)
