"""Frozen tasks: what is to be forecast, from which data and with which budget, never changes.

A task is a YAML file in `tasks/`; its leaderboard is a CSV file of the same name in `leaderboard/`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from plfl.base.errors import ConfigError, DataError, PlflError, Problem, suggest_name
from plfl.base.shipped import root
from plfl.config.error_messages import explain, read
from plfl.data.dataset import SPLITS, Dataset
from plfl.data.examples import Examples
from plfl.plugins.registry import Section
from plfl.study import Study


class BenchmarkTask(Section):
    """A question with everything that decides its answer."""

    name: str
    version: int = Field(ge=1)
    """Raised by any change of the data, the study or the budget."""
    question: str
    metric: Literal["mase", "scaled_crps", "error"]
    """The score of its leaderboard: the lower, the better."""
    information: str
    """What a method may read."""
    seeds: list[int]
    """Seeds of a method that draws random numbers."""
    trials: int = Field(ge=1)
    """Most choices of hyperparameters that a method compares on validation."""
    bytes: int | None = None
    """Most bytes that cross between a client and others in both directions; None: any number."""
    clients: int
    digest: str | None = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the clients' names and of what is measured; see `digest_of`. null: nobody has
    stated it yet, so that the task is a draft and takes no submissions."""
    study: dict[str, Any]
    """Keys of a study that make the data: `data`, `windows`, `task`."""

    @classmethod
    def parse(cls, raw: object, source: str) -> BenchmarkTask:
        """Check the content of a file.

        Raises:
            ConfigError: a key is missing, unknown or has a wrong value.
        """
        try:
            task = cls.model_validate(raw)
        except ValidationError as error:
            raise ConfigError(source, explain(error, cls)) from None
        _ = task.data_study
        return task

    @cached_property
    def data_study(self) -> Study:
        """The study that makes the data. A task has no model; the one here reads any window."""
        raw = {"name": self.name, "model": {"name": "mlp"}} | self.study
        return Study.parse(raw, f"{self.name}: study")

    def check(self, data: Mapping[tuple[str, str], Examples]) -> None:
        """Check that data, by origin and state, are those of the task.

        Raises:
            DataError: they are not.
        """
        digest = digest_of(data, self.seeds)
        if self.digest is None:
            raise DataError(
                Problem(self.name, "is a draft", f"write the digest of its data, {digest}, into it")
            )
        if digest != self.digest:
            origins = len({origin for origin, _ in data})
            clients = sum(len(part.clients) for part in data.values()) // origins
            raise DataError(
                Problem(
                    self.name,
                    f"the data are not those of version {self.version} of the task: {clients} "
                    f"clients (the task has {self.clients}) with the digest {digest}, not "
                    f"{self.digest}",
                    "make them as docs/leaderboard.md says",
                )
            )

    def exceeded_budget(self, row: Mapping[str, Any]) -> str:
        """Which budget a row of the leaderboard exceeds, in words; empty if none."""
        if row["trials"] == "":
            return f"the trials are unknown, and the budget is {self.trials}"
        if int(row["trials"]) > self.trials:
            return f"{row['trials']} trials exceed the budget of {self.trials}"
        if self.bytes is None:
            return ""
        if row["bytes_up"] == "" or row["bytes_down"] == "":
            return f"the bytes are unknown, and the budget is {self.bytes:,}"
        sent_bytes = float(row["bytes_up"]) + float(row["bytes_down"])
        return (
            f"{sent_bytes:,.0f} bytes exceed the budget of {self.bytes:,}"
            if sent_bytes > self.bytes
            else ""
        )


def open_task(path: str | Path) -> tuple[Study, BenchmarkTask | None]:
    """The study in a file, or the frozen task in a file or of a name, with its study.

    Raises:
        ConfigError: see `Study.load` and `BenchmarkTask.parse`.
        PlflError: it is neither a file nor the name of a task.
    """
    path = Path(path)
    if not (path.suffix or path.is_file()):
        tasks = {task.stem: task for task in sorted((root() / "tasks").glob("*.yaml"))}
        if str(path) not in tasks:
            raise PlflError(
                Problem(
                    path,
                    "no file, and no frozen task",
                    f"these are {', '.join(tasks)}{suggest_name(str(path), list(tasks))}",
                )
            )
        path = tasks[str(path)]
    raw = read(path) if path.is_file() else None
    if isinstance(raw, Mapping) and "digest" in raw:
        task = BenchmarkTask.parse(raw, str(path))
        return task.data_study, task
    return Study.load(path), None


def digest_of(data: Mapping[tuple[str, str], Examples], seeds: Sequence[int]) -> str:
    """SHA-256 of what is measured, given the data by origin and state.

    It is of every client's name, and of the stamps and loads (kWh per interval, to six decimals) of
    all its sets. Of other examples, such as images, it is of all inputs and targets, and of the
    windows in each client's sets for every seed.
    """
    digest = hashlib.sha256()
    for (origin, state), examples in data.items():
        digest.update(f"{origin}/{state}".encode())
        if isinstance(examples, Dataset):
            for client, bounds in zip(examples.clients.tolist(), examples.view.bounds, strict=True):
                rows = slice(int(bounds[0]), int(bounds[-1]))
                loads = np.nan_to_num(np.round(examples.load[rows], 6), nan=-1.0) + 0.0
                digest.update(client.encode())
                digest.update(examples.stamps[rows].astype("datetime64[s]").tobytes())
                digest.update(loads.tobytes())
            continue
        targets = np.asarray(examples.targets)
        digest.update(np.round(examples.features, 6).tobytes() + targets.tobytes())
        for divided in map(examples.divide_by_seed, seeds):
            for i, client in enumerate(divided.clients.tolist()):
                starts = [divided.starts(i, split).astype(np.int64) for split in SPLITS]
                digest.update(client.encode() + np.concatenate(starts).tobytes())
    return digest.hexdigest()
