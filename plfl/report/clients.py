"""The details of each client: facts, load, and scores in every combination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from plfl.baselines import BASELINE
from plfl.data.dataset import WEEK
from plfl.results.collect import SEASONS
from plfl.results.records import MODELS
from plfl.results.scores import AXES
from plfl.results.tables import Tables
from plfl.results.words import baseline_label, server_label

MOST = 60
"""Largest number of clients per state with details: a page with a thousand would open slowly."""


@dataclass(frozen=True)
class Score:
    """Test MASE of a client in one combination, mean over seeds, or of one baseline."""

    scheme: str
    client_opt: str
    server_opt: str
    local: str
    global_: str


@dataclass(frozen=True)
class ClientRow:
    """A client."""

    state: str
    number: int
    name: str
    facts: dict[str, str]
    scores: list[Score]

    @property
    def anchor(self) -> str:
        """Id of the client's element in the page."""
        return f"client-{self.state}-{self.number}"


def clients_shown(tables: Tables) -> list[ClientRow]:
    """The clients with details, in the order of the study.

    For a state with more than `MOST` clients, these are the clients of highest test MASE in the
    cell that the figure `week` shows.
    """
    study = tables.study
    scored = _scores(tables)
    below = {key: _below(row) for key, row in baseline_mase(tables).iterrows()}
    shown = []
    for state in study.data.states:
        known = tables.about.get("sources", {}).get(state, {}).get("clients", {})
        here = tables.clients[tables.clients["state"] == state]
        drawn = detailed(tables, state)
        for number, row in enumerate(here.to_dict("records"), 1):
            name = str(row["client"])
            if name not in drawn:
                continue
            facts = {**known.get(name, {}), **_facts(tables, row)}
            scores = scored[state, name] + (below[state, name] if below else [])
            shown.append(ClientRow(state, number, name, facts, scores))
    return shown


def baseline_mase(tables: Tables) -> pd.DataFrame:
    """Test MASE of the baselines, one column per baseline, by `state` and `client`.

    Empty for a study without baselines.
    """
    table = tables.baselines
    test = table[table["split"] == "test"]
    by_client = test.pivot(index=["state", "client"], columns="baseline", values="mase")
    return by_client[test["baseline"].unique()]


def _below(mase: pd.Series[float]) -> list[Score]:
    """Scores of the baselines, which have a single model."""
    return [
        Score(BASELINE, baseline_label(str(name)), "none", score(value), score(value))
        for name, value in mase.items()
    ]


def detailed(tables: Tables, state: str) -> set[str]:
    """The names of the clients of a state with details, see `clients_shown`."""
    clients = tables.clients.loc[tables.clients["state"] == state, "client"].astype(str).tolist()
    cell = tables.shown_cell(state)
    if len(clients) <= MOST or cell is None:
        return set(clients[:MOST])
    return set(tables.test_scores(cell).nlargest(MOST).index)


def score(value: float, sd: float = np.nan) -> str:
    """A MASE in print, with its standard deviation if there is one."""
    text = f"{value:.3f}" if np.isfinite(value) else "n/a"
    return f"{text} ± {sd:.3f}" if np.isfinite(sd) else text


def load(value: float) -> str:
    """A load in print."""
    return f"{value:#.4g}".rstrip(".")


def left_out(windows: float, skipped: float) -> str:
    """The numbers of windows that are used and of those that touch a gap."""
    return f"{windows:,.0f}; {skipped:,.0f} more touch a gap in the readings and are left out"


def _facts(tables: Tables, row: Mapping[Any, Any]) -> dict[str, str]:
    unit = tables.load_unit
    weeks = row["rows"] * row["interval"] / WEEK
    facts = {
        "series": f"{row['rows']:,.0f} rows of {row['interval']:.0f} min, {weeks:.1f} weeks",
        "load": f"mean {load(row['mean'])}, standard deviation {load(row['std'])} {unit}",
        **({"windows": left_out(row["windows"], row["skipped"])} if row.get("skipped") else {}),
        "MAE of persistence, test set": f"{load(row['persistence_mae_test'])} {unit}",
    }
    # In a deployed study the data stay with the clients, which report only these scores.
    for naive in SEASONS if tables.baselines.empty else ():
        value = row.get(f"{naive}_mase_test", np.nan)
        if np.isfinite(value):
            facts[f"test MASE of the load one {naive.removeprefix('naive_')} earlier"] = score(
                value
            )
    return facts


def _scores(tables: Tables) -> dict[tuple[str, str], list[Score]]:
    """Local and global MASE at the last round, by client; one row per training."""
    study = tables.study
    records = tables.records(
        ["state", "client", "model", *AXES, "mae", "mase"],
        split="test",
        round=study.federation.rounds,
    )
    # A diverged seed shows as "diverged"; a client without a MASE as "n/a".
    records["diverged"] = ~np.isfinite(records["mae"])
    by_axes = records.groupby(["state", "client", *AXES, "model"], sort=False)
    means = by_axes.agg(mase=("mase", "mean"), diverged=("diverged", "any"))
    texts = means["mase"].map(score).mask(means["diverged"], "diverged").unstack("model")
    scores: dict[tuple[str, str], list[Score]] = {}
    for row in texts.reset_index().to_dict("records"):
        scheme, method, client_opt, server_opt = (str(row[axis]) for axis in AXES)
        if study.combinations.repeats(scheme, method, client_opt, server_opt):
            continue
        alone = study.combinations.trains_alone(scheme, method)
        scores.setdefault((str(row["state"]), str(row["client"])), []).append(
            Score(
                scheme,
                tables.client_side(method, client_opt),
                "none" if alone else server_label(server_opt),
                *(str(row[model]) for model in MODELS),
            )
        )
    return scores
