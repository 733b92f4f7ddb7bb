"""A training job on disk, so that an interrupted one goes on where it was.

Every few rounds the tensors of all federations (safetensors, never a pickle) and the records so far
are written beside each other; `state.json`, written last, names the round they belong to. What is
drawn at random depends on the round alone, so a resumed job gives the same bits.
"""

import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
import safetensors.torch
from torch import Tensor

from plfl.federation import Federation
from plfl.files import atomic

log = logging.getLogger(__name__)

TABLES = ("server_state", "memory", "moments")


class Checkpoint:
    """The last saved round of one training job.

    Args:
        folder: where it lies; nobody else writes there.
        key: digest of all that fixes the job's result; a checkpoint of another key is not used.
        every: seconds of training from one checkpoint to the next, at least.
    """

    def __init__(self, folder: Path, key: str, every: float):
        self.folder, self.key, self.every = folder, key, every
        self.saved = time.monotonic()

    def is_due(self) -> bool:
        """Whether the last saved round is some time ago."""
        return time.monotonic() - self.saved >= self.every

    def save(
        self, t: int, federations: Sequence[Federation], records: Sequence[Sequence[pd.DataFrame]]
    ) -> None:
        """Save round `t` with the parts of each federation's records.

        What was saved before stays until all of it is written.
        """
        arrays, tables = self._files(t)
        numbered = [part.assign(trial=i) for i, parts in enumerate(records) for part in parts]
        table = pa.Table.from_pandas(pd.concat(numbered), preserve_index=False)
        with atomic(arrays) as temporary:
            safetensors.torch.save_file(_tensors(federations), temporary)
        with atomic(tables) as temporary:
            pq.write_table(table, temporary)
        with atomic(self._state) as temporary:
            temporary.write_text(json.dumps({"key": self.key, "round": t}), encoding="utf-8")
        for file in self.folder.iterdir():
            if file not in (arrays, tables, self._state):
                file.unlink()
        self.saved = time.monotonic()

    def load(self, federations: Sequence[Federation]) -> tuple[int, list[list[pd.DataFrame]]]:
        """Put the saved tensors back; the saved round and the parts of the records, or 0, []."""
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
            if state["key"] != self.key:
                return 0, []
            arrays, tables = self._files(state["round"])
            records = pd.read_parquet(tables)
            found = safetensors.torch.load_file(arrays)
        except FileNotFoundError:
            return 0, []
        except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
            log.warning("%s: is damaged (%s); training begins anew", self.folder, error)
            return 0, []
        _restore(federations, found)
        log.info("goes on after round %d", state["round"])
        by_trial = records.groupby("trial", sort=True)
        return int(state["round"]), [[part.drop(columns="trial")] for _, part in by_trial]

    def remove(self) -> None:
        """Forget the job, which is finished."""
        if self.folder.is_dir():
            for file in self.folder.iterdir():
                file.unlink()
            self.folder.rmdir()

    @property
    def _state(self) -> Path:
        return self.folder / "state.json"

    def _files(self, t: int) -> tuple[Path, Path]:
        return self.folder / f"{t}.safetensors", self.folder / f"{t}.parquet"


def _tensors(federations: Sequence[Federation]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for i, f in enumerate(federations):
        found |= {f"{i}/local": f.local, f"{i}/steps": f.steps}
        for table in TABLES:
            found |= {f"{i}/{table}/{name}": x for name, x in getattr(f, table).items()}
    return {name: x.detach().clone().contiguous() for name, x in found.items()}


def _restore(federations: Sequence[Federation], found: dict[str, Tensor]) -> None:
    for i, f in enumerate(federations):
        device = f.local.device
        # What the method did before round 1 was counted before the interruption.
        f.clock.close_round(f.channel.close_round(), [])
        f.local, f.steps = (found[f"{i}/{name}"].to(device) for name in ("local", "steps"))
        for table in TABLES:
            prefix = f"{i}/{table}/"
            kept = {n.removeprefix(prefix): x for n, x in found.items() if n.startswith(prefix)}
            setattr(f, table, {name: x.to(device) for name, x in kept.items()})
