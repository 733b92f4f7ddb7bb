"""The clusters that clustering methods assign the clients to."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from plfl.report.figures.style import COLOURS, COLUMN, PAGE, fit, heading, panels
from plfl.results.records import CELL
from plfl.results.tables import Tables
from plfl.results.words import client_label, method_label, server_label

OUTPUTS = ("clusters",)
CAPTION = (
    "Clusters of the clients after the last round, for the first seed: one column per combination"
    " of clustering method and optimisers, one row per client, sorted by building type and climate"
    " zone (ASHRAE 169-2006) where these are known. Clusters are numbered in the order of their"
    " first client, so equal columns are equal partitions. An empty square marks a client without a"
    " cluster."
)
_KNOWN = ("building type", "climate zone")
"""Facts about a client, from its data source, that may explain its cluster."""
_NAMED = 40
"""Largest number of clients per state whose names and clusters are written."""


def draw(tables: Tables) -> dict[str, Figure]:
    """One panel per state and sharing scheme."""
    table, states = memberships(tables), tables.study.data.states
    schemes = [s for s in tables.study.grid.sharing if s in set(table["sharing"])]
    heights = [
        min(table.loc[table["state"] == state, "client"].nunique(), _NAMED) for state in states
    ]
    figure, axes = panels(
        len(states),
        len(schemes),
        (PAGE if len(schemes) > 1 else COLUMN, 0.8 + sum(0.13 * h + 0.15 for h in heights)),
        sharex="col",
        sharey="row",
        height_ratios=heights,
    )
    for (i, state), (j, scheme) in product(enumerate(states), enumerate(schemes)):
        axis = axes[i, j]
        here = table[(table["state"] == state) & (table["sharing"] == scheme)]
        grid = here.pivot(index="row", columns="label", values="cluster")
        named = len(grid) <= _NAMED
        sns.heatmap(
            grid.loc[here["row"].unique(), here["label"].unique()],
            cmap=sns.color_palette(COLOURS, int(table["cluster"].max())),
            vmin=1,
            vmax=table["cluster"].max(),
            annot=named,
            annot_kws={"fontsize": 6},
            cbar=False,
            linewidths=0.5 if named else 0,
            xticklabels=True,
            yticklabels=True if named else "auto",
            ax=axis,
        )
        axis.tick_params(axis="x", rotation=40, length=0)
        axis.tick_params(axis="y", rotation=0, length=0)
        axis.set(xlabel="", ylabel="")
        if i == 0:
            axis.set_title(heading(tables, scheme, 120 // max(len(schemes), 3)))
    for axis, state, height in zip(axes[:, 0], states, heights, strict=True):
        axis.set_ylabel(fit(state, 12 + 2 * height, lines=2))
    return {"clusters": figure}


def memberships(tables: Tables) -> pd.DataFrame:
    """The clusters of every cell that has any, one row per cell and client.

    Columns: the cell without its seed, `label`, `client`, `cluster`, and `row`, the client with
    what is known of it. Clients are sorted by `_KNOWN`, then in the order of the study. Clusters
    are those of the last round and the first seed, numbered from 1 in the order of their first
    client; NaN for a client without a cluster.
    """
    study, axes = tables.study, CELL[:-1]
    last = {"round": study.federation.rounds, "split": "test", "model": "local"}
    rows = tables.records([*axes, "client", "cluster"], **last, seed=study.grid.seeds[0])
    clients = tables.clients[["state", "client"]].astype(str)
    sources = tables.about.get("sources", {})
    facts = [
        sources.get(state, {}).get("clients", {}).get(client, {})
        for state, client in clients.itertuples(index=False)
    ]
    for name in _KNOWN:
        clients[name] = [fact.get(name, "") for fact in facts]
    words = clients[[*_KNOWN, "client"]].itertuples(index=False)
    clients["row"] = [" · ".join(fit(word, 24) for word in row if word) for row in words]
    # Clients without known facts come last. A merge keeps the order of its left side.
    clients = clients.sort_values(
        list(_KNOWN), key=lambda words: words.where(words != "", "\uffff"), kind="stable"
    )
    table = clients.merge(rows.dropna(subset="cluster"), on=["state", "client"])
    table["cluster"] = table.groupby(axes, sort=False)["cluster"].transform(_numbered)
    order = {name: i for i, name in enumerate(study.grid.method)}
    table = table.sort_values("method", key=lambda names: names.map(order), kind="stable")
    label = table["method"].map(method_label)
    if len(study.grid.client_opt) > 1:
        label += " · " + table["client_opt"].map(client_label)
    if len(study.grid.server_opt) > 1:
        label += " · " + table["server_opt"].map(server_label)
    return table.assign(label=label.map(lambda text: fit(text, 30)))


def _numbered(clusters: pd.Series[float]) -> pd.Series[float]:
    """Clusters renumbered from 1 in the order of their first member; NaN for −1."""
    numbers, _ = pd.factorize(clusters.where(clusters >= 0))
    return pd.Series(np.where(numbers < 0, np.nan, numbers + 1.0), clusters.index)
