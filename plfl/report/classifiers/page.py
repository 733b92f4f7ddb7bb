"""The page of a study of classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from plfl.files import atomic
from plfl.report.classifiers import CAPTIONS, paper
from plfl.report.classifiers.tables import Results
from plfl.report.page import drawing, templates
from plfl.results import classification


@dataclass(frozen=True)
class Standing:
    """One row of the grid, with accuracies in per cent."""

    name: str
    tuned: str
    quarter: str
    half: str
    tail: str
    own: str
    rounds: str
    megabytes: str
    published: str


@dataclass(frozen=True)
class Comparison:
    """A claim that one row is more accurate than another."""

    claim: str
    difference: str
    seeds: int
    verdict: str


CLAIMS = (
    ("A", ("fedopt", "slowmo"), ("fedopt", "fedavg")),
    ("A", ("fedadc", "fedavg"), ("fedopt", "fedavg")),
    ("A", ("fedadc", "fedavg"), ("fedopt", "slowmo")),
)
"""Of FedADC (arXiv 2012.09102): its name, and what is more accurate than what, by method and
server. Claim D adds FedADC+ against every other row."""


def write(results: Path, figures: Path, out: Path) -> None:
    """Write the page of a results folder, with the figures of folder `figures`, to `out`.

    Raises:
        PlflError: the file cannot be written.
        ResultsError: the results folder is incomplete or has another format.
    """
    found = Results(results)
    text = (
        templates()
        .get_template("classifiers.html.jinja")
        .render(
            study=found.study,
            about=found.tables.about,
            column=paper.column_of(found.study),
            standings=_standings(found, "global"),
            local=_standings(found, "local"),
            baselines=_baselines(found),
            comparisons=_comparisons(found),
            tail=classification.TAIL,
            drawings=[
                (drawing(figures / f"{stem}.svg", caption), caption)
                for stem, caption in CAPTIONS.items()
            ],
            configuration=yaml.safe_dump(found.tables.about["study"], sort_keys=False),
        )
    )
    with atomic(out) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _standings(found: Results, model: str) -> list[Standing]:
    table = classification.standings(found.summary[found.summary["model"] == model])
    # The paper's numbers, and the way to a target, are those of the server's model.
    column, rows = paper.column_of(found.study) if model == "global" else None, []
    for row in table.to_dict("records"):
        published = column and paper.accuracy(column, row["method"], row["server_opt"])
        reached = row["reached"] if model == "global" else 0
        price = row["bytes_to_target"]
        rows.append(
            Standing(
                name=found.label({axis: row[axis] for axis in classification.GROUP}),
                tuned=row.get("hyperparameters") or "–",
                **{
                    key: percent(row[score], row[f"{score}_std"])
                    for key, score in (
                        ("quarter", "accuracy_quarter"),
                        ("half", "accuracy_half"),
                        ("tail", "accuracy_tail"),
                        ("own", "own_accuracy"),
                    )
                },
                rounds=f"{row['rounds_to_target']:.0f} ({reached} of {row['seeds']})"
                if reached
                else "–",
                megabytes=f"{price / 1e6:.1f}" if reached else "–",
                published=f"{published[0]:.2f} ± {published[1]:.2f}" if published else "–",
            )
        )
    return rows


def _baselines(found: Results) -> list[tuple[str, str, str]]:
    rows = classification.summarise_baselines(found.baselines).to_dict("records")
    return [
        (
            row["baseline"].replace("_", " "),
            percent(row["accuracy"], row["accuracy_std"]),
            percent(row["own_accuracy"], row["own_accuracy_std"]),
        )
        for row in rows
    ]


def _comparisons(found: Results) -> list[Comparison]:
    """The claims whose rows the study has."""
    by_name = {(row["method"], row["server_opt"]): row for row in reversed(found.rows)}
    plus = ("fedadc_plus", "fedavg")
    wanted = [*CLAIMS, *(("D", plus, other) for other in reversed(by_name) if other != plus)]
    rows = []
    for claim, one, other in wanted:
        if one not in by_name or other not in by_name:
            continue
        sides = by_name[one], by_name[other]
        for score, what in (("accuracy_tail", "at the end"), ("accuracy_quarter", "at a quarter")):
            tested = classification.paired(found.summary, *sides, score)
            text = f"{claim}: {found.label(sides[0])} > {found.label(sides[1])}, {what}"
            shown = f"{100 * tested['difference']:+.1f}"
            if np.isfinite(tested["low"]):
                shown += f" [{100 * tested['low']:+.1f}, {100 * tested['high']:+.1f}]"
            verdict = classification.verdict(tested)
            rows.append(Comparison(text, shown, int(tested["seeds"]), verdict))
    return rows


def percent(mean: float, spread: float) -> str:
    """A share in per cent, with its standard deviation if it is known."""
    if not np.isfinite(mean):
        return "–"
    text = f"{100 * mean:.1f}"
    return f"{text} ± {100 * spread:.1f}" if np.isfinite(spread) else text
