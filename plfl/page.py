"""The study's page: one HTML file with its tables and figures, readable without a network."""

import base64
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import jinja2
import numpy as np
import pandas as pd
import yaml
from markupsafe import Markup, escape

from plfl import audit, scarcity
from plfl.errors import ResultsError
from plfl.figures import available, caption
from plfl.files import atomic
from plfl.portraits import HEIGHT, LEFT, MOST, WIDTH, load, portraits, score
from plfl.results.claims import describe, verdicts
from plfl.results.tables import MODELS, Model, Tables, fitting, server_label
from plfl.study import Cell, Study

FILES = {
    "summary.csv": "scores of every cell",
    "records.parquet": "scores, losses and bytes of every client and round",
    "clients.parquet": "what is known of the clients",
    "forecasts.parquet": "a week of forecasts",
    "study.json": "configuration, versions, sources of the data",
}
EXTRAS = {
    "audit.csv": "what each departure of the authors' code does",
    "scarcity.csv": "scores by weeks of history",
}
"""Files of a results folder that are shown when they are there and of its study."""
MARKS = {"audit.csv": audit.mark, "scarcity.csv": scarcity.mark}
"""What the column `study` of each of them says if they are."""
COLUMNS: list[tuple[Model, Literal["last", "best_validation"]]] = [
    ("local", "last"),
    ("local", "best_validation"),
    ("global", "last"),
    ("global", "best_validation"),
]
"""Test scores of a combination, in the order of the table's columns."""
ZOOM = 1.9
"""CSS pixels a point of a figure: its letters of 7 pt become as large as those of the tables."""


def extras(results: Path) -> list[Path]:
    """The files that the page shows or tells of when they are there, and are."""
    return [path for name in EXTRAS if (path := results / name).is_file()]


def write(results: Path, figures: Path, out: Path) -> None:
    """Write the page of the study in folder `results`, with the SVGs in `figures`, to file `out`.

    The pictures are part of the file; the tables' own files are linked relative to it. The same
    results give the same bytes.

    Raises:
        ResultsError: the results or figures are incomplete or of another format.
    """
    tables = Tables(results)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("plfl"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"LEFT": LEFT, "WIDTH": WIDTH, "HEIGHT": HEIGHT, "MOST": MOST}
    with fitting(results):
        extra = {path.name: _own(tables, path.name) for path in extras(results)}
        configuration = yaml.safe_dump(
            tables.about["study"], sort_keys=False, allow_unicode=True, width=100
        )
        page = environment.get_template("page.html.jinja").render(
            tables=tables,
            study=tables.study,
            about=tables.about,
            source=_source(tables.study),
            sources=_sources(tables),
            configuration=configuration,
            encoded=base64.b64encode(configuration.encode()).decode("ascii"),
            verdicts=[
                (verdict, verdict.reason if verdict.effect is None else describe(verdict))
                for verdict in verdicts(tables)
            ],
            choices=_choices(tables),
            tried=int(tables.summary["tried"].max()),
            grid=_grid(tables),
            traffic=_traffic(tables),
            clients=_clients(tables),
            portraits=portraits(tables),
            figures=[
                Shown(
                    name,
                    caption(name),
                    [_drawing(figures / f"{stem}.svg", caption(name)) for stem in stems],
                )
                for name, stems in available().items()
            ],
            audit=_audit(extra.get("audit.csv")),
            scarcity=_scarcity(tables.study, extra.get("scarcity.csv"), figures),
            scarcity_caption=scarcity.CAPTION,
            files={
                name: (quote(Path(os.path.relpath(results / name, out.parent)).as_posix()), content)
                for name, content in (FILES | _told(tables.study, extra)).items()
            },
        )
    with atomic(out) as temporary:
        temporary.write_text(page, encoding="utf-8")


@dataclass(frozen=True)
class Choice:
    """The cell that validation chose for a state and split, None when every one diverged."""

    state: str
    split: str
    cell: Cell | None
    optimisers: str
    rates: str
    """Those that were chosen for it, if any were."""
    validation: str
    test: dict[Model, str]
    lowest: bool
    """Whether it has the least validation MASE of its state."""


@dataclass(frozen=True)
class Combination:
    """A row of the grid: test scores in the order of `COLUMNS`."""

    split: str
    client_opt: str
    server_opt: str
    scores: list[str]
    lowest: list[bool]
    """Which of the scores are the least of their column and state."""


@dataclass(frozen=True)
class Traffic:
    """Bytes of a split per round and client."""

    split: str
    down: int
    up: int
    share: str
    """Of the split that sends most."""


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
    """Test MASE in the chosen cell of each split."""


@dataclass(frozen=True)
class Source:
    """A file that a state's series were read from."""

    state: str
    path: str
    sha256: str


@dataclass(frozen=True)
class Walk:
    """One table of the audit."""

    title: str
    state: str
    optimisers: str
    splits: list[str]
    rows: list[tuple[str, list[str]]]
    """What was switched; local and global MASE of each split, then its bytes."""


@dataclass(frozen=True)
class Scarcity:
    """Scores by weeks of history."""

    drawing: Markup
    sentences: list[str]
    weeks: list[str]
    rows: list[tuple[str, str, str, list[str]]]
    """State, forecaster, model, and MASE at each history."""


@dataclass(frozen=True)
class Shown:
    """A figure with its drawings, which are SVG."""

    name: str
    caption: str
    drawings: list[Markup]


def _source(study: Study) -> str:
    data = study.data
    if data.source == "comstock":
        return f"NREL ComStock, release {data.comstock.release}, upgrade {data.comstock.upgrade}"
    if data.source == "meters":
        return f"Own meters, folder {data.meters.folder.as_posix()}"
    return f"Sample data, generated by plfl with seed {data.sample.seed}; not measured anywhere"


def _sources(tables: Tables) -> list[Source]:
    return [
        Source(state, path, digest)
        for state, receipt in tables.about.get("sources", {}).items()
        for path, digest in receipt["files"].items()
    ]


def _choices(tables: Tables) -> list[Choice]:
    rows = []
    for state, split in product(tables.study.data.states, tables.study.grid.personalization):
        cell = tables.best("local", state=state, personalization=split)
        if cell is None:
            rows.append(Choice(state, split, None, "", "", "", {}, lowest=False))
            continue
        last = tables.summary[tables.summary["chosen"] == "last"]
        for axis, value in asdict(cell).items():
            last = last[last[axis] == value]
        of_model = last.set_index("model")
        rows.append(
            Choice(
                state,
                split,
                cell,
                tables.optimisers(cell),
                _rates(tables.study, last[last["model"] == "local"].iloc[0]),
                score(of_model["validation_mase"]["local"]),
                {model: score(of_model["mase_mean"][model]) for model in MODELS},
                lowest=cell == tables.best("local", state=state),
            )
        )
    return rows


def _rates(study: Study, row: "pd.Series[Any]") -> str:
    """The rates that were chosen for a cell among several."""
    tuned = {"lr": "client_lr", "server_lr": "server_lr", "mu": "mu"}
    chosen = [
        f"{name.replace('_', ' ')} {row[name]:g}"
        for name, key in tuned.items()
        if getattr(study.tuning, key) and np.isfinite(row[name])
    ]
    return ", ".join(chosen)


def _grid(tables: Tables) -> dict[str, list[Combination]]:
    """The rows of each state's table."""
    study = tables.study
    by_column = [tables.scores(model, chosen) for model, chosen in COLUMNS]
    axes = (
        study.grid.personalization,
        study.grid.method,
        study.grid.client_opt,
        study.grid.server_opt,
    )
    wanted = [key for key in product(*axes) if key[1:] not in study.refused]
    grid = {}
    for state in study.data.states:
        here = [table.loc[state].reindex(wanted) for table in by_column]
        values = np.column_stack([table["mase_mean"] for table in here])
        diverged = np.column_stack([table["diverged"] for table in here])
        lowest = values == np.where(np.isnan(values), np.inf, values).min(axis=0)
        grid[state] = [
            Combination(
                split,
                tables.client_side(method, client_opt),
                "none" if study.trains_alone(split, method) else server_label(server_opt),
                [
                    "diverged" if lost else score(value)
                    for value, lost in zip(values[i], diverged[i], strict=True)
                ],
                lowest[i].tolist(),
            )
            for i, (split, method, client_opt, server_opt) in enumerate(wanted)
            if not study.repeats(split, method, client_opt, server_opt)
        ]
    return grid


def _traffic(tables: Tables) -> list[Traffic]:
    traffic = tables.traffic
    most = traffic.sum(axis=1).max()
    return [
        Traffic(
            split, round(down), round(up), f"{100 * (down + up) / most:.2f} %" if most else "n/a"
        )
        for split, down, up in traffic.itertuples()
    ]


def _clients(tables: Tables) -> list[Client]:
    return [client for state in tables.study.data.states for client in _clients_of(tables, state)]


def _clients_of(tables: Tables, state: str) -> Iterator[Client]:
    study = tables.study
    columns = []
    for split in study.grid.personalization:
        cell = tables.best("local", state=state, personalization=split)
        columns.append(None if cell is None else tables.test_scores(cell))
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


def _told(study: Study, extra: dict[str, pd.DataFrame | None]) -> dict[str, str]:
    """What is said of each of the `EXTRAS` that are there."""
    return {
        name: EXTRAS[name]
        if table is not None
        else Markup(
            "not shown, since it is of another study or of an earlier form of this one; "
            "<code>plfl {} {}.yaml</code> makes it anew."
        ).format(Path(name).stem, study.name)
        for name, table in extra.items()
    }


def _audit(table: pd.DataFrame | None) -> list[Walk]:
    """The walks of `plfl audit`, a table for each state and pair of optimisers."""
    if table is None:
        return []
    walks = []
    titles = {str(walk): title for walk, title in audit.TITLES.items()}
    for keys, part in table.groupby(["walk", "state", *audit.PAIR], sort=False):
        walk, state, *pair = map(str, keys)
        splits = part["personalization"].unique().tolist()
        rows = []
        for switch, row in part.groupby("switch", sort=False):
            by_model = row.set_index(["personalization", "model"])
            shown = by_model["mase"].map(score).mask(by_model["diverged"], "diverged")
            scores = [str(shown[split, model]) for split in splits for model in MODELS]
            traffic = [f"{by_model['bytes'][split, 'local']:,.0f}" for split in splits]
            rows.append((str(switch), [*scores, *(t.replace(",", "\u202f") for t in traffic)]))
        walks.append(Walk(titles[walk], state, audit.pair_label(*pair), splits, rows))
    return walks


def _scarcity(study: Study, table: pd.DataFrame | None, figures: Path) -> Scarcity | None:
    """What `plfl scarcity` has found; its figure is drawn anew if it is gone."""
    if table is None:
        return None
    drawing = figures / "scarcity.svg"
    if not drawing.is_file():
        scarcity.illustrate(study, table, figures)
    summary = scarcity.summarise(table)
    weeks = sorted(summary["weeks"].dropna().unique())
    rows = []
    for keys, part in summary.groupby(["state", "forecaster", "model"], sort=False):
        state, forecaster, model = map(str, keys)
        by_weeks = part.set_index("weeks")["mase"]
        # What learns nothing is the same at every history.
        values = [
            by_weeks.get(w, by_weeks.iloc[0] if model == "baseline" else np.nan) for w in weeks
        ]
        rows.append((state, scarcity.label(forecaster), model, [score(value) for value in values]))
    return Scarcity(
        _drawing(drawing, scarcity.CAPTION),
        scarcity.crossings(table),
        [f"{w:g}" for w in weeks],
        rows,
    )


def _own(tables: Tables, name: str) -> pd.DataFrame | None:
    """One of the `EXTRAS`, None if it is not of the study as it is."""
    path = Path(tables.folder) / name
    # A state may be called "NA", a client "01"; a digest may look like a number.
    kinds = dict.fromkeys(("state", "client", "study"), str)
    try:
        table = pd.read_csv(path, dtype=kinds, keep_default_na=False, na_values=[""])
    except (ValueError, OSError) as error:
        raise ResultsError(f"{path}: cannot be read ({error}); make it again") from None
    is_own = tables.study.data.source == "meters"
    readings = [file.sha256 for file in _sources(tables) if is_own]
    return table if set(table.get("study", ())) == {MARKS[name](tables.study, readings)} else None


_RULES = re.compile(r"<defs>\s*<style.*?</defs>\s*", re.DOTALL)
_NAME = re.compile(r'(\bid="|url\(#|href="#)')
_SIZE = re.compile(r'width="([\d.]+)pt" height="([\d.]+)pt"')


def _drawing(path: Path, text: str) -> Markup:
    """An SVG of ours as a part of the page: its names are its own, and a screen reader has some."""
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ResultsError(
            f"{path}: the figure is missing; draw the study's figures, then write its page"
        ) from None
    svg = content[content.index("<svg") :]  # an XML prolog has no place in a page
    svg = _RULES.sub("", svg, count=1)  # they would be rules for the whole page, which has them
    svg = _NAME.sub(rf"\g<1>{path.stem}-", svg)
    size = _SIZE.search(svg)
    assert size is not None, "matplotlib gives every SVG its size"
    width, height = (round(ZOOM * float(points)) for points in size.groups())
    label = escape(f"Figure {path.stem}: {text.split('.')[0]}.")
    svg = svg.replace(
        size[0], f'role="img" aria-label="{label}" width="{width}" height="{height}"', 1
    )
    return Markup(svg)
