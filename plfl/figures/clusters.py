"""Which clients a method puts together, of methods that sort the clients into clusters."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from plfl.figures.style import COLOURS, COLUMN, PAGE, fit, panels
from plfl.results.tables import Tables, client_label, method_label, server_label

OUTPUTS = ("clusters",)
CAPTION = (
    "Clusters of the clients after the last round, with the first seed: a column a method that has"
    " clusters, a row a client, in the order of building types and climate zones (ASHRAE 169-2006)"
    " where they are known. Clusters are numbered by their first client, so equal columns are equal"
    " partitions; a dash: in none yet."
)
_KNOWN = ("building type", "climate zone")
"""What the sources tell of a client that may explain its cluster."""
_NAMED = 40
"""Most clients of a state that are told by name."""


def draw(tables: Tables) -> dict[str, Figure]:
    """A panel per state and split; without any clusters a remark that says so."""
    found = memberships(tables)
    if found.empty:
        figure, axes = panels(1, 1, (COLUMN, 0.5))
        axes[0, 0].axis("off")
        axes[0, 0].text(0.5, 0.5, "no method of this study has clusters", ha="center", va="center")
        return {"clusters": figure}
    states = tables.study.data.states
    splits = [s for s in tables.study.grid.personalization if s in set(found["personalization"])]
    most = found.groupby("state")["client"].nunique().clip(upper=_NAMED)
    heights = [most.get(state, 1) for state in states]
    figure, axes = panels(
        len(states),
        len(splits),
        (PAGE if len(splits) > 1 else COLUMN, 0.8 + sum(0.13 * h + 0.15 for h in heights)),
        sharex="col",
        sharey="row",
        gridspec_kw={"height_ratios": heights},
    )
    for (i, state), (j, split) in product(enumerate(states), enumerate(splits)):
        here = found[(found["state"] == state) & (found["personalization"] == split)]
        grid = here.pivot(index="client", columns="label", values="cluster")
        _squares(axes[i, j], grid.loc[here["client"].unique(), here["label"].unique()])
        _rows(axes[i, j], here.drop_duplicates("client"))
        if i == 0:
            axes[i, j].set_title(f"{fit(split, 36)}\n{tables.split_label(split)}")
        if j == 0:
            axes[i, j].set_ylabel(fit(state, 12 + 2 * heights[i], lines=2), fontsize=8)
    return {"clusters": figure}


def memberships(tables: Tables) -> pd.DataFrame:
    """A row a client and cell that has clusters: the cell, `label`, `client`, `cluster`, `_KNOWN`.

    Clients are in the order of what is known of them (empty: nothing), else in that of the study.
    Clusters are those of the last round and the first seed, numbered from 1 by their first
    client; NaN for a client in none.
    """
    study = tables.study
    axes = ["state", "personalization", "method", "client_opt", "server_opt"]
    empty = pd.DataFrame(columns=[*axes, "client", "cluster", *_KNOWN, "label"])
    if "cluster" not in pq.read_schema(tables.folder / "records.parquet").names:
        return empty
    last = {"round": study.federation.rounds, "split": "test", "model": "local"}
    rows = tables.records([*axes, "client", "cluster"], **last, seed=study.grid.seeds[0])
    rows = rows.dropna(subset="cluster")
    if rows.empty:
        return empty
    # A merge keeps the order of its left side, that of the clients.
    rows = _clients(tables).merge(rows, on=["state", "client"])
    rows["cluster"] = rows.groupby(axes, sort=False)["cluster"].transform(_numbered)
    order = {name: i for i, name in enumerate(study.grid.method)}
    rows = rows.sort_values("method", key=lambda names: names.map(order), kind="stable")
    return rows.assign(label=[_name(tables, *row) for row in rows[axes[2:]].to_numpy()])


def _clients(tables: Tables) -> pd.DataFrame:
    """`state`, `client` and what is `_KNOWN` of each ("" if nothing), in the order of that."""
    clients = tables.clients[["state", "client"]].astype(str)
    sources = tables.about.get("sources", {})
    told = [
        sources.get(state, {}).get("clients", {}).get(client, {})
        for state, client in clients.itertuples(index=False)
    ]
    clients = clients.assign(**{name: [one.get(name, "") for one in told] for name in _KNOWN})
    # Those of whom nothing is known come last.
    return clients.sort_values(
        list(_KNOWN), key=lambda words: words.where(words != "", "\uffff"), kind="stable"
    )


def _numbered(clusters: "pd.Series[float]") -> "pd.Series[float]":
    """Clusters counted from 1 in the order of their first member; NaN for −1."""
    numbers, _ = pd.factorize(clusters.where(clusters >= 0))
    return pd.Series(np.where(numbers < 0, np.nan, numbers + 1.0), clusters.index)


def _name(tables: Tables, method: str, client_opt: str, server_opt: str) -> str:
    grid, named = tables.study.grid, [method_label(method)]
    if len(grid.client_opt) > 1:
        named.append(client_label(client_opt))
    if len(grid.server_opt) > 1:
        named.append(server_label(server_opt))
    return " · ".join(named)


def _squares(axis: Axes, grid: pd.DataFrame) -> None:
    values: Any = grid.to_numpy()
    named = len(values) <= _NAMED
    for (y, x), value in np.ndenumerate(values):
        known = np.isfinite(value)
        face = COLOURS[int(value - 1) % len(COLOURS)] if known else "0.92"
        axis.add_patch(Rectangle((x, y), 1, 1, facecolor=face, edgecolor="white", linewidth=0.5))
        if named:
            axis.text(
                x + 0.5,
                y + 0.5,
                f"{value:.0f}" if known else "–",
                ha="center",
                va="center_baseline",
                fontsize=6,
                color="white" if known else "0.3",
                weight="bold",
            )
    axis.set_xlim(0, max(values.shape[1], 1))
    axis.set_ylim(max(len(values), 1), 0)
    axis.set_xticks(
        np.arange(values.shape[1]) + 0.5,
        [fit(label, 30) for label in grid.columns],
        rotation=40,
        ha="right",
        rotation_mode="anchor",
    )
    axis.tick_params(length=0, pad=2)
    axis.spines[:].set_visible(False)


def _rows(axis: Axes, clients: pd.DataFrame) -> None:
    """Say which client each row is, or, of many, which rows are of one building type."""
    kinds = clients[_KNOWN[0]].to_numpy()
    ends = [*(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), len(kinds)]
    starts = [0, *ends[:-1]]
    if (kinds != "").any():
        axis.hlines(starts[1:], *axis.get_xlim(), color="0.3", linewidth=0.5)
    if len(clients) > _NAMED:
        middles = [(start + end) / 2 for start, end in zip(starts, ends, strict=True)]
        axis.set_yticks(middles, [fit(kinds[start], 24) for start in starts])
        return
    labels = [
        " · ".join(fit(word, 24) for word in words if word)
        for words in clients[[*_KNOWN, "client"]].itertuples(index=False)
    ]
    axis.set_yticks(np.arange(len(clients)) + 0.5, labels)
