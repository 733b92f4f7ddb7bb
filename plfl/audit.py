"""What each departure of the authors' code does: a walk to the corrected algorithm.

Two walks are trained in process. One turns the quirks of `methods.authors_code` off, one after the
other, on the data of the study as they are; the other starts at the data as the authors' code made
them, with the corrected algorithm throughout.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from plfl.data.windows import Dataset
from plfl.experiment import train
from plfl.files import atomic
from plfl.methods.authors_code import AuthorsCode
from plfl.results.collect import summarise
from plfl.results.marks import fingerprint, readings
from plfl.results.records import CELL, write_csv
from plfl.results.tables import MODELS, client_label, server_label
from plfl.study import ServerOpts, Study

Walk = Literal["algorithm", "data"]
Load = Callable[[Study, str], Dataset]
"""The dataset of a state, as a study's `data` and `windows` want it."""
Progress = Callable[[str, int, int], None]
"""Is told what is trained, how many rounds are done and how many there are in all."""

TITLES: dict[Walk, str] = {
    "algorithm": "From the authors' code to the algorithm",
    "data": "From the authors' data to the paper's and beyond, with the corrected algorithm",
}
TAKEN = ("rounds", "local_steps", "batch_size")
"""What of `federation` is the configuration's own."""
PAIRS: dict[Walk, tuple[tuple[str, str], ...]] = {
    "algorithm": (
        ("adam", "fedavg"),
        ("prox", "fedavg"),
        ("adam", "fedadam"),
        ("adam", "fedavgadaptive"),
    ),
    "data": (("adam", "fedavg"), ("prox", "fedavg")),
}
"""ClientOpt and ServerOpt of what each walk trains: such that every quirk shows somewhere."""
SERVER_LR = 0.01
"""The servers' rate in the authors' code; with FedAvg 1 makes the server hold the clients' mean."""
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
    """Its place in the walk, from 0."""
    switch: str
    """What was turned since the row before, or what the walk starts from."""
    study: Study


def variants(study: Study) -> list[Variant]:
    """Both walks, in order; every study has all switches of its walk turned up to its own.

    States, clients, seeds, splits, model sizes and rounds are those of `study`. Rates are not
    tuned: the walk is about what the code does, not about what could be chosen for it.
    """
    return [
        *_walk("algorithm", study, _algorithm()),
        *_walk("data", study, _data(study.data.source)),
    ]


def _algorithm() -> Iterator[tuple[str, dict[str, Any]]]:
    start = AuthorsCode().model_dump(mode="json")
    yield (
        f"the authors' code, server rate {SERVER_LR}",
        {
            "grid": {"method": ["authors_code"]},
            "method": {"authors_code": start},
            "server_opt": {
                "fedavg": {"lr": SERVER_LR},
                "fedadam": {"lr": SERVER_LR, "beta1": 0.5, "beta2": 0.9, "tau": 1e-8, "v0": 1},
                "fedavgadaptive": {"lr": SERVER_LR, "v0": 1},
            },
        },
    )
    for switch, values in _QUIRKS:
        yield switch, {"method": {"authors_code": values}}
    only_shared = "only shared parameters are sent, in single precision"
    yield only_shared, {"grid": {"method": ["fedopt"]}}
    yield "FedAvg's rate 1, the clients' mean", {"server_opt": {"fedavg": {"lr": 1.0}}}
    yield (
        "the defaults of the adaptive servers (Reddi et al.; v₀ = 0)",
        {"server_opt": {name: _DEFAULTS[name] for name in ("fedadam", "fedavgadaptive")}},
    )


def _data(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield (
        "the authors' data: weather by position, the last 18 % tested, 5 steps ahead, pooled"
        " scaling, abs"
        if source != "meters"
        else "the authors' windows: the last 18 % tested, 5 steps ahead, pooled scaling, abs",
        {
            "data": {"comstock": {"join": "position"}},
            # The authors test on all of the last fifth; our records want some validation part.
            "windows": {"look_ahead": 5, "scaling": "pooled", "split": [0.8, 0.02, 0.18]},
            "model": {"output": "abs"},
            "grid": {"method": ["fedopt"]},
            "server_opt": {"fedavg": {"lr": 1.0}},
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
    raw |= {key: default[key] for key in ("client_opt", "server_opt", "method", "tuning")}
    raw["federation"] = default["federation"] | {key: raw["federation"][key] for key in TAKEN}
    client_opts, server_opts = map(dict.fromkeys, zip(*PAIRS[walk], strict=True))
    # Of the rounds only the last one is shown.
    fixed = {
        "grid": {"client_opt": list(client_opts), "server_opt": list(server_opts)},
        "federation": {"evaluate_every": study.federation.rounds},
    }
    raw = _merged(raw, fixed)
    for step, (switch, change) in enumerate(steps):
        raw = _merged(raw, change)
        yield Variant(walk, step, switch, Study.parse(raw, f"{study.name}: audit, {switch}"))


def _merged(raw: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`raw` with the values of `change` over it, block by block."""
    both = {
        key: _merged(raw[key], value) if isinstance(value, Mapping) else value
        for key, value in change.items()
    }
    return {**raw, **both}


def audit(
    study: Study, load: Load, progress: Progress = lambda what, done, total: None
) -> pd.DataFrame:
    """Train both walks and score them.

    Args:
        study: the study whose data, seeds, splits and rounds are taken.
        load: makes the dataset of a state.
        progress: is told of every finished round.

    Returns:
        One row a walk, step, state, pair of optimisers, split and model: `walk`, `step` (from 0),
        `switch`, `state`, `client_opt`, `server_opt`, `personalization`, `model`; `mase` and
        `std`, mean and standard deviation over seeds of the mean over clients of test MASE at the
        last round (NaN where a seed diverged; `std` with one seed); `bytes` per client and round,
        both ways; `seeds`, `clients` and `diverged`.

    Raises:
        DataError: the data cannot be used, see `load`.
    """
    walks = variants(study)
    rounds = study.federation.rounds
    total = len(walks) * len(study.data.states) * rounds
    tables = []
    done = 0
    for variant in walks:
        for state in study.data.states:

            def tell(t: int, before: int = done, what: str = f"{state}, {variant.switch}") -> None:
                progress(what, before + t, total)

            table = _score(variant, state, load(variant.study, state), tell)
            for column in ("switch", "step", "walk"):
                table.insert(0, column, getattr(variant, column))
            tables.append(table)
            done += rounds
    return pd.concat(tables, ignore_index=True)


def _score(
    variant: Variant, state: str, dataset: Dataset, tell: Callable[[int], None]
) -> pd.DataFrame:
    study, pairs = variant.study, PAIRS[variant.walk]
    cells = [
        cell
        for cell in study.cells
        if cell.state == state and (cell.client_opt, cell.server_opt) in pairs
    ]
    results = train(study, cells, dataset, tell)
    records = pd.concat([result.records for result in results.values()], ignore_index=True)
    summary = summarise(records, study.data.source)
    summary = summary[summary["chosen"] == "last"]
    uploads = records[records["split"] == "train"].groupby(CELL).size().rename("uploads")
    summary = summary.join(uploads, on=CELL)
    summary["bytes"] = (summary["bytes_down"] + summary["bytes_up"]) / summary["uploads"]
    table = (
        summary.groupby(["state", *PAIR, "personalization", "model"], sort=False)
        .agg(
            mase=("mase_mean", "mean"),
            std=("mase_mean", "std"),
            bytes=("bytes", "mean"),
            seeds=("seed", "nunique"),
            clients=("mase_clients", "first"),
            diverged=("diverged", "any"),
        )
        .reset_index()
    )
    table.loc[table["diverged"], ["mase", "std"]] = np.nan
    return table


def as_markdown(study: Study, table: pd.DataFrame) -> str:
    """The two tables of `audit` to be read: a part for each state and pair of optimisers."""
    sample = " (sample data)" if study.is_sample else ""
    settings = study.federation
    lines = [
        f"# Audit of {study.name}{sample}",
        "",
        "Test MASE of the local / global models at the last round, mean over clients"
        f"{spread(study)}, after {settings.rounds} rounds of {settings.local_steps} local steps."
        " Each row has the switches of all rows above it. kB cross per client and"
        " round, both ways together.",
    ]
    for walk, title in TITLES.items():
        lines += ["", f"## {title}"]
        if walk == "data":
            lines += [
                "",
                "With another test part or look-ahead persistence errs differently: MASE above and"
                " below those rows have different denominators.",
            ]
        for keys, part in table[table["walk"] == walk].groupby(["state", *PAIR], sort=False):
            state, *pair = map(str, keys)
            lines += ["", f"### {state}, {pair_label(*pair)}", ""]
            lines += _rows(part, study.grid.personalization)
    return "\n".join(lines) + "\n"


def pair_label(client_opt: str, server_opt: str) -> str:
    """Names of two optimisers as the tables have them."""
    return f"{client_label(client_opt)} + {server_label(server_opt)}"


def spread(study: Study) -> str:
    """What stands behind ± in the tables of a study."""
    seeds = len(study.grid.seeds)
    return f" ± standard deviation over {seeds} seeds" if seeds > 1 else " of one seed"


def _rows(part: pd.DataFrame, splits: list[str]) -> Iterator[str]:
    heads = [*splits, *(f"kB {split}" for split in splits)]
    yield f"| switch | {' | '.join(heads)} |"
    yield "|---|" + "---:|" * len(heads)
    for switch, row in part.groupby("switch", sort=False):
        cells = zip(
            row["personalization"], row["model"], map(_score_text, row.itertuples()), strict=True
        )
        scores = {(split, model): text for split, model, text in cells}
        bytes_ = row.groupby("personalization")["bytes"].first()
        shown = [" / ".join(scores[split, model] for model in MODELS) for split in splits]
        traffic = [f"{bytes_[split] / 1000:,.1f}" for split in splits]
        yield f"| {switch} | {' | '.join([*shown, *traffic])} |"


def _score_text(cell: Any) -> str:
    if cell.diverged:
        return "diverged"
    spread = f" ± {cell.std:.3f}" if np.isfinite(cell.std) else ""
    return f"{cell.mase:.3f}{spread}"


def mark(study: Study, readings: Sequence[str]) -> str:
    """Digest of all that `audit` trains for a study, which its table carries."""
    return fingerprint((variant.study for variant in variants(study)), readings)


def write(study: Study, table: pd.DataFrame) -> list[Path]:
    """Write the tables beside the study's results, as audit.csv and audit.md; return the paths.

    Raises:
        DataError: see `plfl.results.marks.readings`.
        PlflError: the disk is full or the folder cannot be written.
    """
    paths = [study.results / "audit.csv", study.results / "audit.md"]
    write_csv(table.assign(data=study.data.source, study=mark(study, readings(study))), paths[0])
    with atomic(paths[1]) as temporary:
        temporary.write_text(as_markdown(study, table), encoding="utf-8")
    return paths
