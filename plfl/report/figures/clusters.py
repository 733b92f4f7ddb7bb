"""The clusters that clustering methods assign the clients to."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from plfl.report.figures.style import COLOURS, COLUMN, PAGE, empty, fit, panels, scheme_title
from plfl.results.labels import client_label, method_label, server_label
from plfl.results.records import CELL
from plfl.results.tables import Tables

OUTPUTS = ("clusters",)
CAPTION = (
    "Clusters of the clients after the last round, for the first seed: one column per combination"
    " of clustering method and optimisers, one row per client, sorted by building type and climate"
    " zone (ASHRAE 169-2006) where these are known. Clusters are numbered in the order of their"
    " first client, so equal columns are equal partitions. A dash marks a client without a"
    " cluster."
)
_KNOWN = ("building type", "climate zone")
"""Facts about a client, from its data source, that may explain its cluster."""
_NAMED = 40
"""Largest number of clients per state whose names are shown."""


def draw(tables: Tables) -> dict[str, Figure]:
    """One panel per state and sharing scheme; without any clusters, a note that says so."""
    found = memberships(tables)
    if found.empty:
        return {"clusters": empty("no method of this study forms clusters")}
    states = tables.study.data.states
    schemes = [s for s in tables.study.grid.sharing if s in set(found["sharing"])]
    most = found.groupby("state")["client"].nunique().clip(upper=_NAMED)
    heights = [most.get(state, 1) for state in states]
    figure, axes = panels(
        len(states),
        len(schemes),
        (PAGE if len(schemes) > 1 else COLUMN, 0.8 + sum(0.13 * h + 0.15 for h in heights)),
        sharex="col",
        sharey="row",
        gridspec_kw={"height_ratios": heights},
    )
    for (i, state), (j, scheme) in product(enumerate(states), enumerate(schemes)):
        here = found[(found["state"] == state) & (found["sharing"] == scheme)]
        grid = here.pivot(index="client", columns="label", values="cluster")
        _squares(axes[i, j], grid.loc[here["client"].unique(), here["label"].unique()])
        _rows(axes[i, j], here.drop_duplicates("client"))
        if i == 0:
            shared = tables.scheme_label(scheme)
            axes[i, j].set_title(scheme_title(scheme, shared, len(schemes)))
        if j == 0:
            axes[i, j].set_ylabel(fit(state, 12 + 2 * heights[i], lines=2), fontsize=8)
    return {"clusters": figure}


def memberships(tables: Tables) -> pd.DataFrame:
    """The clusters of every cell that has any, one row per cell and client.

    Columns: the cell without its seed, `label`, `client`, `cluster`, and `_KNOWN` ("" if unknown).
    Clients are sorted by `_KNOWN`, then in the order of the study. Clusters are those of the last
    round and the first seed, numbered from 1 in the order of their first client; NaN for a client
    without a cluster.
    """
    study = tables.study
    axes = CELL[:-1]
    empty = pd.DataFrame(columns=[*axes, "client", "cluster", *_KNOWN, "label"])
    if "cluster" not in pq.read_schema(tables.folder / "records.parquet").names:
        return empty
    last = {"round": study.federation.rounds, "split": "test", "model": "local"}
    rows = tables.records([*axes, "client", "cluster"], **last, seed=study.grid.seeds[0])
    rows = rows.dropna(subset="cluster")
    if rows.empty:
        return empty
    # A merge keeps the order of its left side: the order of the clients.
    rows = _clients(tables).merge(rows, on=["state", "client"])
    rows["cluster"] = rows.groupby(axes, sort=False)["cluster"].transform(_numbered)
    order = {name: i for i, name in enumerate(study.grid.method)}
    rows = rows.sort_values("method", key=lambda names: names.map(order), kind="stable")
    return rows.assign(label=[_name(tables, *row) for row in rows[axes[2:]].to_numpy()])


def _clients(tables: Tables) -> pd.DataFrame:
    """`state`, `client` and `_KNOWN` of every client ("" if unknown), sorted by `_KNOWN`."""
    clients = tables.clients[["state", "client"]].astype(str)
    sources = tables.about.get("sources", {})
    told = [
        sources.get(state, {}).get("clients", {}).get(client, {})
        for state, client in clients.itertuples(index=False)
    ]
    clients = clients.assign(**{name: [one.get(name, "") for one in told] for name in _KNOWN})
    # Clients without known facts come last.
    return clients.sort_values(
        list(_KNOWN), key=lambda words: words.where(words != "", "\uffff"), kind="stable"
    )


def _numbered(clusters: pd.Series[float]) -> pd.Series[float]:
    """Clusters renumbered from 1 in the order of their first member; NaN for −1."""
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
    """Label the rows with the clients, or, if there are many, with their building types."""
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
