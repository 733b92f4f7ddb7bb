"""The audit of the authors' code: the studies that it compares, and its tables as text.

A *walk* is a sequence of studies, each with one change more than the one before. The first walk
removes the deviations of `methods.authors_code` from the paper, on the data of the study. The
second starts from the data as the authors' code prepares them, with the corrected algorithm
throughout. `plfl.experiments.audit` trains both.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from plfl.config.algorithms import ServerOpts, available
from plfl.config.study import Study
from plfl.results.labels import client_label, server_label, spread
from plfl.results.provenance import fingerprint
from plfl.results.records import MODELS

Walk = Literal["algorithm", "data"]
TITLES: dict[Walk, str] = {
    "algorithm": "From the authors' code to the algorithm",
    "data": "From the authors' data to the paper's and beyond, with the corrected algorithm",
}
TAKEN = ("rounds", "local_steps", "local_epochs", "batch_size")
"""Keys of `federation` that are taken from the study; the others have their defaults."""
PAIRS: dict[Walk, tuple[tuple[str, str], ...]] = {
    "algorithm": (
        ("adam", "fedavg"),
        ("prox", "fedavg"),
        ("adam", "fedadam"),
        ("adam", "fedavgadaptive"),
    ),
    "data": (("adam", "fedavg"), ("prox", "fedavg")),
}
"""Pairs of ClientOpt and ServerOpt of each walk; every deviation affects at least one of them."""
SERVER_LR = 0.01
"""Server learning rate in the authors' code; FedAvg needs 1 to hold the mean of the clients."""
_DEFAULTS = ServerOpts().model_dump(mode="json")

_QUIRKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("clients load the server's parameters", {"iterate": "loaded"}),
    ("proximal term on the shared parameters only", {"anchor": "shared"}),
    ("second moment begins at 0, not 1", {"v0": 0.0}),
    ("local moments re-created in every round", {"moments": "reset"}),
    ("adaptive servers apply their rate once", {"server": "once"}),
    ("FedAvgAdaptive's copies start alike", {"initial": "common"}),
)


PAIR = ["client_opt", "server_opt"]


@dataclass(frozen=True)
class Variant:
    """One row of an audit table."""

    walk: Walk
    step: int
    """Its position in the walk, from 0."""
    switch: str
    """What changes from the previous row, or what the walk starts from."""
    study: Study


def variants(study: Study) -> list[Variant]:
    """The rows of both walks in order; each has the changes of all earlier rows of its walk.

    States, clients, seeds, sharing schemes, model sizes and rounds are those of `study`. Learning
    rates are not tuned: the audit shows what the code does, not how well it could be tuned.
    """
    return [
        *_walk("algorithm", study, _algorithm()),
        *_walk("data", study, _data(study.data.source)),
    ]


def _algorithm() -> Iterator[tuple[str, dict[str, Any]]]:
    start = available("method")["authors_code"]().model_dump(mode="json")
    yield (
        f"the authors' code, server rate {SERVER_LR}",
        {
            "grid": {"method": ["authors_code"]},
            "hyperparameters": {
                "method": {"authors_code": start},
                "server_opt": {
                    "fedavg": {"lr": SERVER_LR},
                    "fedadam": {"lr": SERVER_LR, "beta1": 0.5, "beta2": 0.9, "tau": 1e-8, "v0": 1},
                    "fedavgadaptive": {"lr": SERVER_LR, "v0": 1},
                },
            },
        },
    )
    for switch, values in _QUIRKS:
        yield switch, _hyperparameters("method", authors_code=values)
    only_shared = "only shared parameters are sent, in single precision"
    yield only_shared, {"grid": {"method": ["fedopt"]}}
    yield "FedAvg's rate 1, the clients' mean", _hyperparameters("server_opt", fedavg={"lr": 1.0})
    yield (
        "the defaults of the adaptive servers (Reddi et al.; v₀ = 0)",
        _hyperparameters(
            "server_opt", **{name: _DEFAULTS[name] for name in ("fedadam", "fedavgadaptive")}
        ),
    )


def _hyperparameters(kind: str, **values: Any) -> dict[str, Any]:
    """Hyperparameters of algorithms of a kind, as a block of a study."""
    return {"hyperparameters": {kind: values}}


def _data(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield (
        "the authors' data: weather by position, the last 18 % tested, 5 steps ahead, pooled"
        " scaling, abs"
        if source != "meters"
        else "the authors' windows: the last 18 % tested, 5 steps ahead, pooled scaling, abs",
        {
            "data": {"comstock": {"join": "position"}},
            # The authors test on all of the last fifth; our records need a validation set.
            "windows": {"look_ahead": 5, "scaling": "pooled", "split": [0.8, 0.02, 0.18]},
            "model": {"output": "abs"},
            "grid": {"method": ["fedopt"]},
            **_hyperparameters("server_opt", fedavg={"lr": 1.0}),
        },
    )
    yield "a tenth validates, a tenth is tested", {"windows": {"split": [0.8, 0.1, 0.1]}}
    if source != "meters":
        yield "weather joined by true time", {"data": {"comstock": {"join": "utc"}}}
    yield "4 steps ahead, as the paper says", {"windows": {"look_ahead": 4}}
    yield "every client scaled by itself", {"windows": {"scaling": "per_client"}}
    yield "linear output", {"model": {"output": "linear"}}


def _walk(
    walk: Walk, study: Study, steps: Iterator[tuple[str, dict[str, Any]]]
) -> Iterator[Variant]:
    raw, default = study.model_dump(mode="json"), Study().model_dump(mode="json")
    raw |= {key: default[key] for key in ("hyperparameters", "tuning")}
    raw["federation"] = default["federation"] | {key: raw["federation"][key] for key in TAKEN}
    client_opts, server_opts = map(dict.fromkeys, zip(*PAIRS[walk], strict=True))
    # The tables show the last round only.
    fixed = {
        "grid": {"client_opt": list(client_opts), "server_opt": list(server_opts)},
        "federation": {"evaluate_every": study.federation.rounds},
    }
    raw = _merged(raw, fixed)
    for step, (switch, change) in enumerate(steps):
        raw = _merged(raw, change)
        yield Variant(walk, step, switch, Study.parse(raw, f"{study.name}: audit, {switch}"))


def _merged(raw: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`raw` overridden by the values of `change`, block by block."""
    both = {
        key: _merged(raw[key], value) if isinstance(value, Mapping) else value
        for key, value in change.items()
    }
    return {**raw, **both}


def as_markdown(study: Study, table: pd.DataFrame) -> str:
    """The tables of both walks as Markdown, one per state and pair of optimisers."""
    sample = study.data.sample_suffix
    settings = study.federation
    lines = [
        f"# Audit of {study.name}{sample}",
        "",
        "Test MASE of the local / global models at the last round, mean over clients"
        f"{spread(study)}, after {settings.rounds} rounds of {settings.local_work}."
        " Each row adds one change to those of all rows above it. kB: per client and"
        " round, both directions together.",
    ]
    for walk, title in TITLES.items():
        lines += ["", f"## {title}"]
        if walk == "data":
            lines += [
                "",
                "A change of the test set or of the look-ahead also changes the error of"
                " persistence: the MASE above and below such a row are not comparable.",
            ]
        for keys, part in table[table["walk"] == walk].groupby(["state", *PAIR], sort=False):
            state, *pair = map(str, keys)
            lines += ["", f"### {state}, {pair_label(*pair)}", ""]
            lines += _rows(part, study.grid.sharing)
    return "\n".join(lines) + "\n"


def pair_label(client_opt: str, server_opt: str) -> str:
    """Labels of two optimisers, as the tables show them."""
    return f"{client_label(client_opt)} + {server_label(server_opt)}"


def _rows(part: pd.DataFrame, schemes: list[str]) -> Iterator[str]:
    heads = [*schemes, *(f"kB {scheme}" for scheme in schemes)]
    yield f"| change | {' | '.join(heads)} |"
    yield "|---|" + "---:|" * len(heads)
    for switch, row in part.groupby("switch", sort=False):
        cells = zip(row["sharing"], row["model"], map(_score_text, row.itertuples()), strict=True)
        scores = {(scheme, model): text for scheme, model, text in cells}
        bytes_ = row.groupby("sharing")["bytes"].first()
        shown = [" / ".join(scores[scheme, model] for model in MODELS) for scheme in schemes]
        traffic = [f"{bytes_[scheme] / 1000:,.1f}" for scheme in schemes]
        yield f"| {switch} | {' | '.join([*shown, *traffic])} |"


def _score_text(cell: Any) -> str:
    if cell.diverged:
        return "diverged"
    spread = f" ± {cell.std:.3f}" if np.isfinite(cell.std) else ""
    return f"{cell.mase:.3f}{spread}"


def mark(study: Study, readings: Sequence[str]) -> str:
    """Digest of everything that the audit of a study trains; its table carries it."""
    return fingerprint((variant.study for variant in variants(study)), readings)
