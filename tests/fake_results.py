"""A results folder as `plfl.results` leaves it, with made-up numbers, for tests of what reads it."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from plfl import __version__
from plfl.results.records import summarise, write_table
from plfl.study import FORMAT, Cell, Study, digest

EVALUATE_EVERY = 2
DIVERGED = "CA-P1-prox-fedadam"
"""State, split and optimisers of the one cell that diverges, in round 3."""


def a_study(
    states: Sequence[str] = ("CA", "IL"),
    client_opts: Sequence[str] = ("adam", "prox"),
    server_opts: Sequence[str] = ("fedavg", "fedadam", "fedyogi"),
    seeds: Sequence[int] = (10,),
    rounds: int = 4,
    clients: int = 3,
) -> Study:
    return Study.model_validate(
        {
            "name": "demo",
            "data": {"source": "sample", "states": list(states), "clients": clients},
            "grid": {
                "client_opt": list(client_opts),
                "server_opt": list(server_opts),
                "seeds": list(seeds),
            },
            "federation": {"rounds": rounds, "evaluate_every": EVALUATE_EVERY},
        }
    )


def write_results(folder: Path, study: Study, rounds: int | None = None) -> Path:
    """Write `study.json`, `records.parquet` and `summary.csv`, up to round `rounds` if given."""
    last = rounds or study.federation.rounds
    records = pd.concat([_records(study, cell, last) for cell in study.cells], ignore_index=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_table(records, folder / "records.parquet")
    summarise(records, study.data.source).to_csv(folder / "summary.csv", index=False)
    about = {
        "format": FORMAT,
        "version": __version__,
        "git": "0123abc",
        "study": study.model_dump(mode="json"),
        "cells": {str(cell): digest(study.settings(cell)) for cell in study.cells},
    }
    (folder / "study.json").write_text(json.dumps(about), encoding="utf-8")
    return folder


def _records(study: Study, cell: Cell, last: int) -> pd.DataFrame:
    """Scores that fall from round to round, client by client; the third client has no MASE."""
    sends = not study.shares_nothing(cell.personalization)
    # P3 is the same under every ServerOpt, P2 is the best, and yogi beats the others.
    level = {"P1": 1.1, "P2": 0.7, "P3": 0.8}[cell.personalization]
    level += {"CA": 0.0, "IL": 0.05}.get(cell.state, 0.1) + 0.02 * (cell.client_opt != "adam")
    level += 0.03 * sends * (cell.server_opt != "fedyogi") + 0.01 * (cell.seed - 10)
    key = {
        "state": cell.state,
        "personalization": cell.personalization,
        "client_opt": cell.client_opt,
        "server_opt": cell.server_opt,
        "seed": cell.seed,
    }
    rows = []
    for t in range(1, last + 1):
        broken = str(cell).startswith(DIVERGED) and t >= 3
        for i in range(study.data.clients):
            traffic = {
                "bytes_down": 200_000 * sends,
                "bytes_up": 100_000 * sends,
                "extras_down": 0,
                "extras_up": 0,
            }
            row = key | {"round": t, "client": f"b{i:03d}"} | traffic
            loss = np.nan if broken else 0.001 * level / t
            rows.append(row | {"split": "train", "model": "local", "loss": loss})
            if t % EVALUATE_EVERY and t != study.federation.rounds:
                continue
            for split in ("validation", "test"):
                for model in ("local", "global"):
                    error = level + 0.3 / t + 0.1 * i + 0.2 * sends * (model == "global")
                    mae = np.nan if broken else 2 * error
                    mase = np.nan if broken or i == 2 else error
                    scores = {"mae": mae, "rmse": 1.3 * mae, "mase": mase}
                    rows.append(row | {"split": split, "model": model} | scores)
    return pd.DataFrame(rows)
