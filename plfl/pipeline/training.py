"""A training job: trains the cells that no earlier job has trained, and reuses the others."""

import ctypes
import logging
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from plfl.base.files import digest, sha256
from plfl.config.study import Cell, Study
from plfl.data import sources
from plfl.experiments.cell_cache import CellCache
from plfl.experiments.train import train
from plfl.experiments.trainer import placed
from plfl.federated.checkpoint import Checkpoint
from plfl.pipeline.jobs import training_code
from plfl.pipeline.locks import hold
from plfl.results.records import TRAINED, Files
from plfl.training.engines import choose

log = logging.getLogger(__name__)


def train_cells(study: Study, cells: Mapping[Cell, Files], dataset: Path, label: str) -> None:
    """Write the records, forecasts and errors of some cells of one state.

    An interrupted job resumes from its checkpoint; Ctrl-C and SIGTERM save the round in progress
    first. A job waits for another one that trains the same cells, such as one that outlived its
    Snakemake, and takes over what that one finishes. `label`: its name in the log.
    """
    _give_back_memory()
    digests = _digests(study, cells, dataset)
    folder = study.root / TRAINED  # variants may share cells
    cache = CellCache(folder)
    name = digest(list(digests.values()))
    with hold(folder / f".{name}.lock"):
        new = study.with_all_seeds(
            cell for cell in cells if not cache.get(digests[cell], cells[cell])
        )
        key = digest([digests[cell] for cell in new])
        checkpoint = Checkpoint(
            folder / f"{name}.checkpoint", key, study.compute.checkpoint_seconds
        )
        if new:
            noted = _noted(label, study.federation.rounds)
            with _saving_on_interrupt(checkpoint, label):
                examples = sources.of(study.data).read(study, dataset)
                results = train(study, new, examples, noted, checkpoint)
            for cell, result in results.items():
                # First the models: records say that the cell is finished. One seed is enough.
                if result.models and cell.seed == study.grid.seeds[0]:
                    cache.put_models(digests[cell], result.models)
                cache.put(digests[cell], result, cells[cell])
        checkpoint.remove()


def _noted(label: str, rounds: int) -> Callable[[int], None]:
    """Writes the finished rounds of a training into the log, where `plfl study` reads them."""
    return lambda t: log.info("%s: round %d of %d", label, t, rounds)


def _give_back_memory() -> None:
    """Have glibc return the memory of every large array.

    Otherwise small arrays that stay cut up the memory of blocks of models: it then grows by as much
    as all models take.
    """
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(-3, 2**22)  # M_MMAP_THRESHOLD


@contextmanager
def _saving_on_interrupt(checkpoint: Checkpoint, label: str) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM end the training after the round in progress, which is saved.

    A second signal ends it at once.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        if checkpoint.interrupted:
            raise KeyboardInterrupt
        checkpoint.interrupted = True
        text = f"{label}: saves the round in progress and ends; press Ctrl-C again to end at once"
        print(text, file=sys.stderr, flush=True)

    signals = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _digests(study: Study, cells: Iterable[Cell], dataset: Path) -> dict[Cell, str]:
    """For every cell, the digest of everything that determines its results."""
    shared = [sha256(dataset), *choose(placed(study), study.model.kernel_form)]
    return {
        cell: digest(str(cell), study.settings(cell), training_code(study, [cell]), *shared)
        for cell in cells
    }
