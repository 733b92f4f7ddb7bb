"""The page `leakage.md` of a study: what single updates reveal, in plain words."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from plfl.config.study import Cell, Study
from plfl.experiments.leakage import OCCUPANCY, OTHER, OWN, SENDER, STUDY
from plfl.report.rendering import templates

THREAT = (
    "The server follows the protocol, but it looks at each update when it arrives, and knows the "
    "model, what it sent itself, and other updates whose sender and circumstances it has learned. "
    "It sees no readings, and nobody else sees an update."
)
"""Who the attacker is."""
TOLD = {
    SENDER: "which client an update comes from",
    **{question: f"whether its readings are of {question}" for question in OCCUPANCY},
    STUDY: "which of two stretches of readings the client has trained on",
    OWN: "which of two stretches it has used in a single step of training, if its personal "
    "parameters are known",
    OTHER: "which of two stretches it has used in a single step of training, if these are unknown",
}
"""What the server finds out, as a phrase for each question."""
CLEAR = 0.05
"""Guesses are clearly better than chance if they are better by this much for every seed."""


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """A row per question and a column per protection: mean over seeds (least to greatest)."""
    rows = []
    for (question, chance), asked in found.groupby(["question", "chance"], sort=False):
        row = {"question": question, "chance": f"{chance:.2f}"}
        for name, values in asked.groupby("protection", sort=False)["value"]:
            low, mean, high = values.min(), values.mean(), values.max()
            row[str(name)] = f"{mean:.2f} ({low:.2f}–{high:.2f})" if mean == mean else "–"
        rows.append(row)
    return pd.DataFrame(rows)


def page(study: Study, cell: Cell, found: pd.DataFrame) -> str:
    """The page, in Markdown; `found` is what `plfl.experiments.leakage.leakage` returns."""
    table = summary(found)
    rows = [table.columns, ["---"] * len(table.columns), *table.to_numpy()]
    return (
        templates()
        .get_template("leakage.md.jinja")
        .render(
            study=study,
            cell=cell,
            seeds=found["seed"].nunique(),
            threat=THREAT,
            told=_plainly(found),
            percent=round(100 * CLEAR),
            protected=_protected(found),
            rows=rows,
            noisy=any("noise" in name for name in table.columns),
        )
    )


def _plainly(found: pd.DataFrame) -> Iterator[str]:
    plain = found[found["protection"] == "nothing"].dropna()
    for question, words in TOLD.items():
        rows = plain[plain["question"] == question]
        if len(rows):
            right, chance = (round(100 * rows[name].mean()) for name in ("value", "chance"))
            degree = "clearly" if _is_clear(rows) else "hardly" if right > chance else "no"
            yield f"{words}: right in {right} of 100 cases, by chance in {chance} ({degree} better)"


def _protected(found: pd.DataFrame) -> Iterator[str]:
    """What can be guessed clearly in spite of each protection."""
    for name, protected in found.dropna().groupby("protection", sort=False):
        if name == "nothing":
            continue
        clear = [
            words
            for question, words in TOLD.items()
            if _is_clear(protected[protected["question"] == question])
        ]
        whom = " somebody who sees only the server's parameters" if "noise" in str(name) else " it"
        told = "; ".join(clear) or "none of this"
        yield f"With `{name}`,{whom} can still tell clearly: {told}."


def _is_clear(rows: pd.DataFrame) -> bool:
    """Whether the guesses about a question are clearly better than chance."""
    return len(rows) > 0 and bool((rows["value"] >= rows["chance"] + CLEAR).all())
