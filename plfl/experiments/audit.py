"""The effect of each deviation of the authors' code: trains the studies of `plfl.results.audit`."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from plfl.base.files import atomic
from plfl.config.study import Study
from plfl.data.dataset import Dataset
from plfl.experiments.train import train
from plfl.results.audit import PAIR, PAIRS, Variant, as_markdown, mark, variants
from plfl.results.provenance import readings
from plfl.results.records import CELL, write_csv
from plfl.results.summary import summarise

Load = Callable[[Study, str], Dataset]
"""The dataset of a state, as a study's `data` and `windows` require it."""
Progress = Callable[[str, int, int], None]
"""Called with what is trained, the rounds done and the rounds in all."""


def audit(
    study: Study, load: Load, progress: Progress = lambda what, done, total: None
) -> pd.DataFrame:
    """Train both walks and score them.

    Args:
        study: the study whose data, seeds, sharing schemes and rounds are used.
        load: makes the dataset of a state.
        progress: called after every finished round.

    Returns:
        One row per walk, step, state, pair of optimisers, sharing scheme and model: `walk`, `step`
        (from 0), `switch`, `state`, `client_opt`, `server_opt`, `sharing`, `model`; `mase` and
        `std`, mean and standard deviation over seeds of the mean over clients of test MASE at the
        last round (NaN if a seed diverged; `std` also with one seed); `bytes` per client and round,
        both directions; `seeds`, `clients` and `diverged`.

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
    uploads = records[records["split"] == "train"].groupby([*CELL, "model"]).size()
    summary = summary.join(uploads.rename("uploads"), on=[*CELL, "model"])
    summary["bytes"] = (summary["bytes_down"] + summary["bytes_up"]) / summary["uploads"]
    table = (
        summary.groupby(["state", *PAIR, "sharing", "model"], sort=False)
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


def write(study: Study, table: pd.DataFrame) -> list[Path]:
    """Write the tables beside the study's results, as audit.csv and audit.md; return the paths.

    Raises:
        DataError: see `plfl.results.provenance.readings`.
        PlflError: the disk is full or the folder cannot be written.
    """
    paths = [study.results / "audit.csv", study.results / "audit.md"]
    write_csv(table.assign(data=study.data.source, study=mark(study, readings(study))), paths[0])
    with atomic(paths[1]) as temporary:
        temporary.write_text(as_markdown(study, table), encoding="utf-8")
    return paths
