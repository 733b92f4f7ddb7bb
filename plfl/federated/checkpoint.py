"""Checkpoints: a training job on disk, so that an interrupted job continues where it stopped.

Every few rounds the tensors of all federations (safetensors, never a pickle) and the records so far
are written to one folder. `state.json`, written last, names the round they belong to. All random
numbers depend on the round only, so a resumed job produces the same bits.
"""

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from plfl.base.files import atomic, digest, sha256, write_text
from plfl.federated.federation import Federation

log = logging.getLogger(__name__)

_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
SAVED_PARTS = ("state", "server", "privacy", "moments", "average", "server_average", "best")
"""Attributes of a federation, objects whose tensors are saved; also those of its coder."""


class Checkpoint:
    """The last saved round of one training job, in a folder of its own.

    `key`: digest of everything that determines the result of the job; a checkpoint with another key
    is not used. `seconds`: least number of seconds from one checkpoint to the next.
    """

    def __init__(self, folder: Path, key: str, seconds: float):
        self.folder, self.key, self.seconds = folder, key, seconds
        self.saved = time.monotonic()
        self.note: dict[str, Any] = {}
        """Further content of the next checkpoint, or of the one that was loaded, as JSON values."""
        self.interrupted = False
        """Whether the job was told to end: it saves the round in progress before it does."""

    def is_due(self) -> bool:
        """Whether the last checkpoint is at least `seconds` seconds old, or the job has to end."""
        return self.interrupted or time.monotonic() - self.saved >= self.seconds

    def save(
        self, t: int, federations: Sequence[Federation], records: Sequence[Sequence[pd.DataFrame]]
    ) -> None:
        """Save round `t` with the parts of each federation's records. The previous checkpoint is
        kept until the new one is complete. KeyboardInterrupt: the round is saved, and the job was
        told to end."""
        federation_files, record_file = self._files(t, len(federations))
        numbered = [
            table_of_round.assign(trial=i)
            for i, tables in enumerate(records)
            for table_of_round in tables
        ]
        joined_records = pd.concat(numbered) if numbered else pd.DataFrame({"trial": []}, dtype=int)
        table = pa.Table.from_pandas(joined_records, preserve_index=False)
        # One federation at a time: two copies of all models may not fit into memory.
        for f, file in zip(federations, federation_files, strict=True):
            with atomic(file) as temporary:
                # Not `save_file`, whose error does not say that the disk is full.
                temporary.write_bytes(safetensors.torch.save(tensors(f)))
        with atomic(record_file) as temporary:
            pq.write_table(table, temporary)
        state = {"key": self.key, "round": t, "note": self.note}
        files = [record_file, *federation_files]
        state["files"] = {file.name: sha256(file) for file in files}
        write_text(self._state, json.dumps(state | {"digest": digest(state)}))
        for file in self.folder.iterdir():
            if file not in (*files, self._state):
                file.unlink()
        self.saved = time.monotonic()
        if self.interrupted:
            raise KeyboardInterrupt

    def load(self, federations: Sequence[Federation]) -> tuple[int, list[list[pd.DataFrame]]]:
        """Restore the saved tensors; return the saved round and the parts of the records, 0 and []
        without a usable checkpoint."""
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
            if state.pop("digest") != digest(state):
                raise ValueError("state.json has changed")
            if state["key"] != self.key:
                return 0, []
            arrays, tables = self._files(state["round"], len(state["files"]) - 1)
            for file in (tables, *arrays):
                if sha256(file) != state["files"][file.name]:
                    raise ValueError(f"{file.name} has changed")
            records = pd.read_parquet(tables)
        except FileNotFoundError:
            return 0, []
        except _DAMAGE as error:
            log.warning("%s: is damaged (%s); training starts again", self.folder, error)
            return 0, []
        for f, path in zip(federations, arrays, strict=False):
            restore(f, safetensors.torch.load_file(path))
        self.note = state["note"]
        log.info("continues after round %d", state["round"])
        # A trial without participants so far has no records, but keeps its position.
        numbers = range(len(arrays))
        by_trial = dict(tuple(records.groupby("trial")))
        tables_by_trial = [
            [by_trial[i].drop(columns="trial")] if i in by_trial else [] for i in numbers
        ]
        return int(state["round"]), tables_by_trial

    def remove(self) -> None:
        """Delete the checkpoint of a finished job."""
        if self.folder.is_dir():
            for file in self.folder.iterdir():
                file.unlink()
            self.folder.rmdir()

    @property
    def _state(self) -> Path:
        return self.folder / "state.json"

    def _files(self, t: int, federations: int) -> tuple[list[Path], Path]:
        arrays = [self.folder / f"{t}-{i}.safetensors" for i in range(federations)]
        return arrays, self.folder / f"{t}.parquet"


def _parts(f: Federation) -> dict[str, Any]:
    """The objects with tensors, by the names that these begin with."""
    return {part: getattr(f, part) for part in SAVED_PARTS} | {"coder": f.channel.coder}


def tensors(f: Federation) -> dict[str, Tensor]:
    """Everything that a federation keeps from one round to the next, by name."""
    flat = {"local": f.local}
    flat["computing"] = torch.tensor(f.clock.computing, dtype=torch.float64)
    for part, part_value in _parts(f).items():
        for name, value in vars(part_value).items() if part_value is not None else ():
            if isinstance(value, dict):
                flat |= {f"{part}/{name}/{key}": x for key, x in value.items()}
            elif isinstance(value, Tensor):
                flat[f"{part}/{name}"] = value
    return {name: x.detach().clone().contiguous() for name, x in flat.items()}


def restore(f: Federation, saved_tensors: dict[str, Tensor]) -> None:
    """Restore what `tensors` returned."""
    # Bytes and time of before round 1 are in the saved records: drop the new federation's counts.
    f.clock.close_round(f.channel.close_round(), [])
    f.clock.computing = float(saved_tensors["computing"])
    f.local = saved_tensors["local"].to(f.local.device)
    f.state = replace(f.state, **dict.fromkeys(vars(f.state)))  # None was not saved
    for path, x in saved_tensors.items():
        part, *names = path.split("/", maxsplit=2)
        part_value = _parts(f)[part] if names else None
        match names:
            case [name, key]:
                getattr(part_value, name)[key] = x.to(f.local.device)
            case [name] if is_dataclass(part_value) and not isinstance(part_value, type):
                setattr(f, part, replace(part_value, **{name: x.to(f.local.device)}))
            case [name]:
                setattr(part_value, name, x.to(f.local.device))
