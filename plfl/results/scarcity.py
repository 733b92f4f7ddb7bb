"""Results of `plfl scarcity`: means with intervals, and which forecaster is better when."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl.config.study import Study
from plfl.results.labels import spread
from plfl.results.provenance import fingerprint
from plfl.results.statistics import interval

CENTRALISED = "centralised"
"""One model trained on the windows of all clients together."""
CALIBRATED = "calibrated"
"""A client that joins late: the last global model of the others, head trained on its history."""
PERSISTENCE = "persistence"
NAIVE = ("naive_day", "naive_week", "naive_mean")
"""Forecasters without training, besides persistence."""
LIGHTGBM = "lightgbm"
"""LightGBM with day and week lags, trained by each client on its own history."""
LIGHTGBM_POOLED = "lightgbm_pooled"
"""One LightGBM on the histories of all clients, which must send their raw data."""
RIDGE = "ridge_lags"
"""Ridge regression with day and week lags, trained by each client on its own history."""
_LABELS = {
    CALIBRATED: "calibrated (head only)",
    LIGHTGBM: "LightGBM per client",
    LIGHTGBM_POOLED: "LightGBM, pooled (raw data sent)",
    RIDGE: "ridge per client",
    "naive_day": "seasonal naive, day",
    "naive_week": "seasonal naive, week",
    "naive_mean": "seasonal naive, mean of day and week",
}


def mark(study: Study, readings: Sequence[str]) -> str:
    """Digest of everything that `plfl scarcity` trains for a study; its table carries it."""
    return fingerprint([study], readings)


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Means of the scores over clients and seeds, with intervals.

    One row per state, forecaster, model and history: `mase`; `std` over seeds of the mean over
    clients; `low` and `high`, the bootstrap interval over clients of their means over seeds;
    `clients`, the number of clients with a MASE; `seeds`. Means with a diverged client are NaN.
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
    """The rows of clients with a MASE; it is undefined where the persistence error is zero."""
    base = table[table["forecaster"] == PERSISTENCE].set_index(["state", "client"])["mase"]
    return table[table.set_index(["state", "client"]).index.isin(base.index[base.notna()])]


def _by_client(part: pd.DataFrame) -> NDArray[np.float64]:
    """MASE (clients, seeds) of one forecaster at one history; clients sorted by name."""
    wide = part.assign(seed=part["seed"].fillna(-1)).pivot_table(
        index="client", columns="seed", values="mase", dropna=False
    )
    return wide.to_numpy(float)


def crossings(table: pd.DataFrame) -> list[str]:
    """Which forecaster is better at which histories: one sentence per pair of forecasters.

    The local models of the sharing schemes, those of clients that join late and the centralised
    model are compared with each other, with LightGBM on the same data (the pooled one for the
    centralised model) and with persistence, client by client. Between two histories, mean
    differences are interpolated linearly over log weeks to find the crossing. A difference is clear
    if its bootstrap interval over clients does not contain 0.
    """
    lines = []
    for state, of_state in _scored(table).groupby("state", sort=False):
        shown = of_state[(of_state["model"] == "local") | (of_state["forecaster"] == CENTRALISED)]
        names = shown["forecaster"].unique().tolist()
        weeks = sorted(shown["weeks"].unique().tolist())
        learnt = pd.concat([shown, of_state[of_state["model"] == "baseline"]])
        grouped = learnt.dropna(subset="weeks").groupby(["forecaster", "weeks"], sort=False)
        by_client = {key: _by_client(part).mean(axis=1) for key, part in grouped}
        # The MASE of persistence is 1 by definition.
        by_client |= {(PERSISTENCE, w): np.float64(1) for w in weeks}
        for a, b in _pairs(names, set(learnt["forecaster"])):
            differences = [by_client[a, w] - by_client[b, w] for w in weeks]
            lines.append(f"{state}: {_sentence(label(a), label(b), weeks, differences)}")
    return lines


def _pairs(names: list[str], available: set[str]) -> list[tuple[str, str]]:
    """The compared pairs: those among `names`, and each of them with LightGBM and persistence."""
    trees = ((name, LIGHTGBM_POOLED if name == CENTRALISED else LIGHTGBM) for name in names)
    return [
        *itertools.combinations(names, 2),
        *(pair for pair in trees if pair[1] in available),
        *((name, PERSISTENCE) for name in names),
    ]


def _sentence(a: str, b: str, weeks: list[float], differences: list[NDArray[np.float64]]) -> str:
    means = np.array([d.mean() for d in differences])
    if not np.isfinite(means).all():
        return f"{a} and {b} cannot be compared: one of them diverged."
    if all((d == 0).all() for d in differences):
        return f"{a} and {b} are equal at every history."
    better = [a if mean < 0 else b for mean in means]
    turns = [
        (better[i], _crossing(*np.log(weeks[i : i + 2]), *means[i : i + 2]))
        for i in range(len(weeks) - 1)
        if better[i] != better[i + 1]
    ]
    clear = [_excludes_zero(d) for d in differences]
    if not any(clear):
        near = f" (the means cross near {in_weeks(at for _, at in turns)})" if turns else ""
        return f"{a} and {b} do not differ clearly at any history{near}."
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
    """Numbers of weeks in print."""
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
    """The scores as tables, then the sentences of `crossings`."""
    sample = study.data.sample_suffix
    lines = [
        f"{study.name}{sample}: test MASE by weeks of history, mean over clients{spread(study)}"
    ]
    summary = summarise(table)
    for state, part in summary.groupby("state", sort=False):
        fixed = part[part["weeks"].isna()]
        # Where nothing is shared the global models are the local ones.
        alone = part["forecaster"].map(
            lambda name: name in study.sharing and study.combinations.shares_nothing(name)
        )
        trained = part[part["weeks"].notna() & ~(alone & (part["model"] == "global"))]
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
        lines += [
            f"{label(name)}: {mase:.3f}"
            for name, mase in zip(fixed["forecaster"], fixed["mase"], strict=True)
        ]
    return "\n".join([*lines, "", *(f"- {line}" for line in crossings(table))])


def label(forecaster: str) -> str:
    """A forecaster in print."""
    return _LABELS.get(forecaster, forecaster)


def _text(mase: float, std: float) -> str:
    return f"{mase:.3f} ± {std:.3f}" if np.isfinite(std) else f"{mase:.3f}"
