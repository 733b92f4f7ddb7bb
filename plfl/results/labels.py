"""Names of algorithms and baselines, numbers and ± as tables and figures show them."""

from plfl import baselines, methods
from plfl.optimizers import client as clients
from plfl.optimizers import server as servers
from plfl.study import Study


def client_label(name: str) -> str:
    """The label of a ClientOpt, such as "SGD"."""
    return clients.available()[name].label


def server_label(name: str) -> str:
    """The label of a ServerOpt, such as "FedYogi"."""
    return servers.available()[name].label


def method_label(name: str) -> str:
    """The label of a method, such as "SCAFFOLD"."""
    return methods.available()[name].label


VALUE_LABELS = {"method": method_label, "client_opt": client_label, "server_opt": server_label}
"""Functions that give the label of a value on an axis. On other axes a value is its own label."""


def spaced(count: float) -> str:
    """A whole number in print, with narrow spaces between thousands."""
    return f"{count:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def baseline_label(name: str) -> str:
    """The label of a baseline, such as "Ridge, day and week lags"."""
    return baselines.find(name).label


def spread(study: Study) -> str:
    """The meaning of ± in the tables of a study."""
    seeds = len(study.grid.seeds)
    return f" ± standard deviation over {seeds} seeds" if seeds > 1 else " of one seed"
