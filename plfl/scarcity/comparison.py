"""What the scores of the scarcity study say: means with intervals, and who is better when."""

import itertools
from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.audit import spread
from plfl.results.statistics import interval
from plfl.study import Study

CENTRALISED = "centralised"
"""One model trained on the windows of all clients together."""
CALIBRATED = "calibrated"
"""A client that joined late: the head of the others' last global model, trained on its history."""
PERSISTENCE = "persistence"
BASELINES = (PERSISTENCE, "naive_day", "naive_week")
_LABELS = {
    CALIBRATED: "calibrated (head only)",
    "naive_day": "seasonal naive, day",
    "naive_week": "seasonal naive, week",
}


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Means over clients and seeds of what `measure` gave, with intervals.

    One row a state, forecaster, model and history: `mase`; `std` over seeds of the mean over
    clients; `low` and `high`, the bootstrap interval over clients of their means over seeds;
    `clients`, those that have a MASE; `seeds`. A mean with a diverged client is NaN.
    """
    rows = []
    keys = ["state", "forecaster", "model", "weeks"]
    for values, part in _scored(table).groupby(keys, sort=False, dropna=False):
        wide = _by_client(part)
        by_client = wide.mean(axis=1)
        finite = bool(np.isfinite(by_client).all())
        low, high = interval([by_client]) if finite else (np.nan, np.nan)
        means = wide.mean(axis=0)
        rows.append(
            dict(zip(keys, values, strict=True))
            | {
                "mase": by_client.mean(),
                "std": means.std(ddof=1) if len(means) > 1 else np.nan,
                "low": low,
                "high": high,
                "clients": len(by_client),
                "seeds": len(means),
            }
        )
    return pd.DataFrame(rows)


def _scored(table: pd.DataFrame) -> pd.DataFrame:
    """Without the clients whose persistence errs nowhere, which have no MASE."""
    base = table[table["forecaster"] == PERSISTENCE].set_index(["state", "client"])["mase"]
    return table[table.set_index(["state", "client"]).index.isin(base.index[base.notna()])]


def _by_client(part: pd.DataFrame) -> NDArray[np.float64]:
    """MASE (clients, seeds) of one forecaster at one history; clients in the order of names."""
    wide = part.assign(seed=part["seed"].fillna(-1)).pivot_table(
        index="client", columns="seed", values="mase", dropna=False
    )
    return wide.to_numpy(float)


def crossings(table: pd.DataFrame) -> list[str]:
    """In words: which forecaster is better at which histories, for every two that are compared.

    Compared are the local models of the splits, and of clients that joined late, with each other,
    with the centralised model and with persistence, client by client. Between two histories the
    crossing is put where a straight line over log weeks between the mean differences is 0. A
    difference is clear where its bootstrap interval over clients leaves out 0.
    """
    lines = []
    for state, of_state in _scored(table).groupby("state", sort=False):
        shown = of_state[(of_state["model"] == "local") | (of_state["forecaster"] == CENTRALISED)]
        names = shown["forecaster"].unique().tolist()
        grouped = shown.groupby(["forecaster", "weeks"], sort=False)
        by_client = {key: _by_client(part).mean(axis=1) for key, part in grouped}
        weeks = sorted(shown["weeks"].unique().tolist())
        for a, b in (*itertools.combinations(names, 2), *((n, PERSISTENCE) for n in names)):
            # Persistence has a MASE of one by definition.
            differences = [by_client[a, w] - by_client.get((b, w), 1.0) for w in weeks]
            lines.append(f"{state}: {_sentence(a, b, weeks, differences)}")
    return lines


def _sentence(a: str, b: str, weeks: list[float], differences: list[NDArray[np.float64]]) -> str:
    means = np.array([d.mean() for d in differences])
    if not np.isfinite(means).all():
        return f"{a} and {b} cannot be compared: one of them diverged."
    if all((d == 0).all() for d in differences):
        return f"{a} and {b} are the same at every history."
    better = [a if mean < 0 else b for mean in means]
    turns = [
        (better[i], _crossing(*np.log(weeks[i : i + 2]), *means[i : i + 2]))
        for i in range(len(weeks) - 1)
        if better[i] != better[i + 1]
    ]
    clear = [_excludes_zero(d) for d in differences]
    if not any(clear):
        near = f" (the means cross near {in_weeks(at for _, at in turns)})" if turns else ""
        return f"{a} and {b} cannot be told apart at any history{near}."
    (first, at), *others = turns or [(better[0], np.nan)]
    text = f"{first} is better than {b if first == a else a}"
    if not turns:
        return (
            f"{text} at every history; clearly so at {in_weeks(itertools.compress(weeks, clear))}."
        )
    text += f" up to about {in_weeks([at])}"
    text += "".join(f", {name} up to about {in_weeks([at])}" for name, at in others)
    surely = "; ".join(
        f"{name} at {in_weeks(itertools.compress(weeks, sure))}"
        for name in (a, b)
        if any(sure := [c and n == name for c, n in zip(clear, better, strict=True)])
    )
    return f"{text}, {better[-1]} beyond; clearly so: {surely}."


def in_weeks(values: Iterable[float]) -> str:
    """Numbers of weeks in words."""
    *others, last = (f"{value:.2g}" for value in values)
    return (
        f"{', '.join(others)} and {last} weeks" if others else f"{last} week{'s' * (last != '1')}"
    )


def _excludes_zero(difference: NDArray[np.float64]) -> bool:
    low, high = interval([difference])
    return bool(low > 0 or high < 0)


def _crossing(x0: float, x1: float, y0: float, y1: float) -> float:
    """Weeks at which the line through (log weeks, difference) is 0."""
    return float(np.exp(x0 + (x1 - x0) * y0 / (y0 - y1)))


def as_text(study: Study, table: pd.DataFrame) -> str:
    """The scores as tables, and the crossing points in words."""
    sample = " (sample data)" if study.is_sample else ""
    lines = [
        f"{study.name}{sample}: test MASE by weeks of history, mean over clients{spread(study)}"
    ]
    summary = summarise(table)
    for state, part in summary.groupby("state", sort=False):
        baselines = part[part["model"] == "baseline"].set_index("forecaster")
        # Where nothing is shared the global models are the local ones.
        alone = part["forecaster"].map(
            lambda name: name in study.personalization and study.shares_nothing(name)
        )
        trained = part[(part["model"] != "baseline") & ~(alone & (part["model"] == "global"))]
        trained = trained.assign(
            forecaster=trained["forecaster"].map(label),
            text=[_text(m, s) for m, s in zip(trained["mase"], trained["std"], strict=True)],
        )
        wide = trained.pivot_table(
            index=["forecaster", "model"],
            columns="weeks",
            values="text",
            aggfunc="first",
            sort=False,
        )
        wide.columns = [f"{weeks:g} wk" for weeks in wide.columns]
        lines += ["", f"{state}{sample}", wide.to_string()]
        lines += [f"{label(name)}: {baselines['mase'].get(name, np.nan):.3f}" for name in BASELINES]
    return "\n".join([*lines, "", *(f"- {line}" for line in crossings(table))])


def label(forecaster: str) -> str:
    """A forecaster in print."""
    return _LABELS.get(forecaster, forecaster)


def _text(mase: float, std: float) -> str:
    return f"{mase:.3f} ± {std:.3f}" if np.isfinite(std) else f"{mase:.3f}"
