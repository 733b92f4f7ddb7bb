"""The page `leakage.md` of a study: what single updates reveal, in plain words."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from plfl.config.study import Cell, Study
from plfl.experiments.leakage import OCCUPANCY, OTHER, OWN, SENDER, STUDY

THREAT = (
    "The server follows the protocol, but it looks at each update when it arrives, and knows the "
    "model, what it sent itself, and other updates whose sender and circumstances it has learned. "
    "It sees no readings, and nobody else sees an update."
)
"""Who attacks."""
UPDATES = (
    "The clients of this study, each of them a meter, keep their readings. What they send are "
    "updates: by how much training on their readings has changed the numbers of a forecasting "
    "model, its parameters. Single updates were attacked as a curious server could attack them."
)
FOLLOWS = """\
- Whoever can tell nights from days, or weekends from weekdays, may learn when a building is
  occupied.
- What is told clearly is told by every update. Protect updates as you protect readings: they should
  cross encrypted, and only those who may see readings should run the server.
- Whoever only gets the model sees no update. How much the model tells of any one client is limited
  by ε, if the study has `clip` and `noise` (`plfl privacy` prints ε).
- These are three attacks, not the best ones: a value near chance does not prove that nothing is
  revealed. Only ε is a bound.
"""
NOISE = (
    "\nNoise is added to the sum of the updates, by the server: it sees itself what stands under "
    "`clip` without noise. The columns with noise are for somebody who sees only the server's "
    "parameters, and knows the updates of all other clients.\n"
)
TERMS = (
    "The value is the share of guesses that are right, mean of all seeds (least–greatest); of "
    "windows, the probability that of a window that was used and one that was not, the right one "
    "is named. *Chance* is a guess without the update. A window is a few hours of readings in a "
    "row; personal parameters are the part of a model that stays with its client; SGD is the "
    "simplest way of training. Codecs, such as `ef21+q3`, make messages shorter and are not meant "
    "to protect; `clip` limits the length of an update."
)
TOLD = {
    SENDER: "which client an update comes from",
    **{question: f"whether its readings are of {question}" for question in OCCUPANCY},
    STUDY: "which of two stretches of readings the client has trained on",
    OWN: "which of two stretches it has used in a single step of training, if its personal "
    "parameters are known",
    OTHER: "which of two stretches it has used in a single step of training, if these are unknown",
}
"""What the server finds out, in words, by question."""
CLEAR = 0.05
"""Guesses are clearly better than chance if they are by so much in every seed."""


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
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    seeds = found["seed"].nunique()
    about = f"Study `{study.name}`, cell `{cell}`; data: {study.data.origin}; "
    about += f"{seeds} seed{'s' * (seeds > 1)}."
    doubt = "" if seeds > 2 else ", which so few seeds may be by chance"
    return (
        f"# What one update reveals\n\n{UPDATES}\n\n{about}\n\n**Who looks.** {THREAT}\n\n"
        "## In plain words\n\nOf a single update without protection, the server can tell\n\n"
        + "".join(f"- {line}\n" for line in _told(found))
        + f"\nClearly: in every seed by at least {100 * CLEAR:.0f} of 100{doubt}.\n\n"
        + "".join(f"- {line}\n" for line in _protected(found))
        + f"\n## What follows\n\n{FOLLOWS}\n## The numbers\n\n{TERMS}\n\n{lines}"
        + (NOISE if any("noise" in name for name in table.columns) else "")
    )


def _told(found: pd.DataFrame) -> Iterator[str]:
    plain = found[found["protection"] == "nothing"].dropna()
    for question, words in TOLD.items():
        rows = plain[plain["question"] == question]
        if len(rows):
            right, chance = (round(100 * rows[name].mean()) for name in ("value", "chance"))
            degree = "clearly" if _is_clear(rows) else "hardly" if right > chance else "no"
            yield f"{words}: right in {right} of 100 cases, by chance in {chance} ({degree} better)"


def _protected(found: pd.DataFrame) -> Iterator[str]:
    """What is told clearly in spite of each protection."""
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
