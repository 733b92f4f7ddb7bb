"""What each departure of the authors' code does: a walk to the corrected algorithm.

Two walks are trained in process. One turns the quirks of `methods.authors_code` off, one after the
other, on the data of the study as they are; the other starts at the data as the authors' code made
them, with the corrected algorithm throughout. Only FedAvg is trained: two of the quirks (`server`,
`initial`) are of other ServerOpts and so have no row here.
"""

from collections.abc import Callable, Iterator, Mapping
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
from plfl.results.records import CELL
from plfl.results.tables import MODELS, client_label
from plfl.study import Study, Tuning, digest

Walk = Literal["algorithm", "data"]
Load = Callable[[Study, str], Dataset]
"""The dataset of a state, as a study's `data` and `windows` want it."""
Progress = Callable[[str, int, int], None]
"""Is told what is trained, how many rounds are done and how many there are in all."""

TITLES: dict[Walk, str] = {
    "algorithm": "From the authors' code to the algorithm",
    "data": "From the authors' data to the paper's and beyond, with the corrected algorithm",
}
CLIENT_OPTS = ("adam", "prox")
SERVER_LR = 0.01
"""FedAvg's rate in the authors' code; 1 makes the server hold the clients' mean."""

_QUIRKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("clients load the server's parameters", {"iterate": "loaded"}),
    ("proximal term on the shared parameters only", {"anchor": "shared"}),
    ("second moment begins at 0, not 1", {"v0": 0.0}),
    ("local moments re-created in every round", {"moments": "reset"}),
)


@dataclass(frozen=True)
class Variant:
    """One row of an audit table."""

    walk: Walk
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
            "server_opt": {"fedavg": {"lr": SERVER_LR}},
        },
    )
    for switch, values in _QUIRKS:
        yield switch, {"method": {"authors_code": values}}
    only_shared = "only shared parameters are sent, in single precision"
    yield only_shared, {"grid": {"method": ["fedopt"]}}
    yield "server rate 1, the clients' mean", {"server_opt": {"fedavg": {"lr": 1.0}}}


def _data(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield (
        "the authors' data: weather by position, 5 steps ahead, pooled scaling, abs"
        if source != "meters"
        else "the authors' windows: 5 steps ahead, pooled scaling, abs",
        {
            "data": {"comstock": {"join": "position"}},
            "windows": {"look_ahead": 5, "scaling": "pooled"},
            "model": {"output": "abs"},
            "grid": {"method": ["fedopt"]},
            "server_opt": {"fedavg": {"lr": 1.0}},
        },
    )
    if source != "meters":
        yield "weather joined by true time", {"data": {"comstock": {"join": "utc"}}}
    yield "4 steps ahead, as the paper says", {"windows": {"look_ahead": 4}}
    yield "every client scaled by itself", {"windows": {"scaling": "per_client"}}
    yield "linear output", {"model": {"output": "linear"}}


def _walk(
    walk: Walk, study: Study, steps: Iterator[tuple[str, dict[str, Any]]]
) -> Iterator[Variant]:
    raw = study.model_dump(mode="json") | {"tuning": Tuning().model_dump(mode="json")}
    # Of the rounds only the last one is shown.
    fixed = {
        "grid": {"client_opt": list(CLIENT_OPTS), "server_opt": ["fedavg"]},
        "federation": {"opt_state": "reset", "evaluate_every": study.federation.rounds},
    }
    raw = _merged(raw, fixed)
    for switch, change in steps:
        raw = _merged(raw, change)
        yield Variant(walk, switch, Study.parse(raw, f"{study.name}: audit, {switch}"))


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
        One row a walk, step, state, ClientOpt, split and model: `walk`, `step` (from 0), `switch`,
        `state`, `client_opt`, `personalization`, `model`; `mase` and `std`, mean and standard
        deviation over seeds of the mean over clients of test MASE at the last round (NaN where a
        seed diverged; `std` with one seed); `bytes` per client and round, both ways; `seeds`,
        `clients` and `diverged`.

    Raises:
        DataError: the data cannot be used, see `load`.
    """
    walks = variants(study)
    keys = [_key(variant.study) for variant in walks]
    rounds = study.federation.rounds
    total = len(set(keys)) * len(study.data.states) * rounds
    trained: dict[str, pd.DataFrame] = {}
    done = 0

    for key, variant in zip(keys, walks, strict=True):
        if key in trained:
            continue
        scored = []
        for state in study.data.states:

            def tell(t: int, before: int = done, what: str = f"{state}, {variant.switch}") -> None:
                progress(what, before + t, total)

            scored.append(_score(variant.study, state, load(variant.study, state), tell))
            done += rounds
        trained[key] = pd.concat(scored, ignore_index=True)

    tables = []
    steps = {"algorithm": 0, "data": 0}
    for key, variant in zip(keys, walks, strict=True):
        table = trained[key].copy()
        for column, value in (
            ("switch", variant.switch),
            ("step", steps[variant.walk]),
            ("walk", variant.walk),
        ):
            table.insert(0, column, value)
        steps[variant.walk] += 1
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _key(study: Study) -> str:
    """The same for studies that are trained alike: the walks meet where they both are corrected."""
    data = [block.model_dump(mode="json") for block in (study.data, study.windows)]
    return digest(data, [study.settings(cell) for cell in study.cells])


def _score(study: Study, state: str, dataset: Dataset, tell: Callable[[int], None]) -> pd.DataFrame:
    cells = [cell for cell in study.cells if cell.state == state]
    results = train(study, cells, dataset, tell)
    records = pd.concat([result.records for result in results.values()], ignore_index=True)
    summary = summarise(records, study.data.source)
    summary = summary[summary["chosen"] == "last"]
    uploads = records[records["split"] == "train"].groupby(CELL).size().rename("uploads")
    summary = summary.join(uploads, on=CELL)
    summary["bytes"] = (summary["bytes_down"] + summary["bytes_up"]) / summary["uploads"]
    table = (
        summary.groupby(["state", "client_opt", "personalization", "model"], sort=False)
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
    """The two tables of `audit` to be read: a part for each state and ClientOpt."""
    sample = " (sample data)" if study.is_sample else ""
    settings = study.federation
    lines = [
        f"# Audit of {study.name}{sample}",
        "",
        "Test MASE of the local / global models at the last round, mean over clients"
        f"{spread(study)}, after {settings.rounds} rounds of {settings.local_steps} local steps"
        " with FedAvg. Each row has the switches of all rows above it. kB cross per client and"
        " round, both ways together.",
    ]
    for walk, title in TITLES.items():
        lines += ["", f"## {title}"]
        if walk == "data":
            lines += [
                "",
                "With another look-ahead persistence errs differently: MASE above and below that"
                " row have different denominators.",
            ]
        for (state, client_opt), part in table[table["walk"] == walk].groupby(
            ["state", "client_opt"], sort=False
        ):
            lines += ["", f"### {state}, {client_label(str(client_opt))} + FedAvg", ""]
            lines += _rows(part, study.grid.personalization)
    return "\n".join(lines) + "\n"


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


def write(study: Study, table: pd.DataFrame) -> list[Path]:
    """Write the tables beside the study's results, as audit.csv and audit.md; return the paths.

    Raises:
        PlflError: the disk is full or the folder cannot be written.
    """
    paths = [study.results / "audit.csv", study.results / "audit.md"]
    with atomic(paths[0]) as temporary:
        named = table.assign(data=study.data.source)
        named.to_csv(temporary, index=False, float_format="%.6g", lineterminator="\n")
    with atomic(paths[1]) as temporary:
        temporary.write_text(as_markdown(study, table), encoding="utf-8")
    return paths
