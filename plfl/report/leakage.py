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
LIMITS = (
    "These are three attacks, not the best ones: a value near chance does not prove that nothing "
    "is revealed. Only ε is a bound (`plfl privacy`)."
)
NOISE = (
    "The server adds the noise to the sum of the updates, so it sees itself what stands under "
    "`clip` without noise. With noise: what somebody learns who sees only the server's parameters, "
    "and knows the updates of all other clients."
)
TOLD = {
    OWN: "which of two windows of readings the client has used, if it takes one step of SGD and "
    "its personal parameters are known",
    OTHER: "the same, if they are not known",
    STUDY: "the same after the study's own training, if they are known",
    SENDER: "which client has sent it",
    **{question: f"whether it comes from readings of {question}" for question in OCCUPANCY},
}
"""What the server finds out, in words, by question."""


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
    noise = f"\n{NOISE}\n" if any("noise" in name for name in table.columns) else ""
    about = (
        f"Cell `{cell}` of the study `{study.name}`; data: {study.data.origin}. Mean of "
        f"{found['seed'].nunique()} seeds (least–greatest). 1 means always right, *chance* a guess "
        "without the update."
    )
    return (
        f"# What one update reveals\n\n**Threat model.** {THREAT}\n\n{about}\n\n"
        f"{lines}{noise}\n## In plain words\n\n"
        "A server that looks at a single update without protection is right\n\n"
        + "".join(f"- {line}\n" for line in _told(found))
        + f"\n{LIMITS}\n"
    )


def _told(found: pd.DataFrame) -> Iterator[str]:
    plain = found[found["protection"] == "nothing"].dropna()
    for question, rows in plain.groupby("question", sort=False):
        right, chance = (round(100 * rows[name].mean()) for name in ("value", "chance"))
        yield f"in {right} of 100 cases (by chance {chance}) about {TOLD[str(question)]};"
