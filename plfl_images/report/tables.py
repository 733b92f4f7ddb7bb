"""Common parts of the figures and the pages of studies of classifiers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from plfl.results.tables import Tables
from plfl.results.words import client_label, method_label, server_label
from plfl_images.results.variants import Results

ABOUT_BASELINES = (
    "Three baselines need no federation: each client's most frequent label (majority), a logistic"
    " regression on its own images (logistic own), and one on the images of all clients together"
    " (logistic pooled)."
)
"""The text of the pages about the rows of baselines."""


def results_in(folder: Path) -> Results:
    """The results of a study without axes, or of a single variant."""
    return Results("", {}, Tables(folder))


def label(row: Mapping[str, str], rows: Sequence[Mapping[str, str]]) -> str:
    """A short name of a row of the grid among `rows`, such as `FedADC+` or `SlowMo`.

    It contains only what differs among them.
    """
    method, server, client = row["method"], row["server_opt"], row["client_opt"]
    name = method_label(method)
    if method == "fedopt":
        name = "FedAvg" if server == "fedavg" else server_label(server)
    elif server != "fedavg":
        name += f" + {server_label(server)}"
    if len({other["client_opt"] for other in rows}) > 1:
        name += f", {client_label(client)}"
    for axis in ("state", "sharing"):
        if len({other[axis] for other in rows}) > 1:
            name += f" ({row[axis]})"
    return name
