"""A training job: trains the cells that no earlier job has trained, and reuses the others."""

import ctypes
import logging
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

import torch

from plfl.base.files import digest, hold, sha256
from plfl.base.job_state import JobState
from plfl.data import sources
from plfl.data.dataset import Dataset, form_of
from plfl.data.examples import Examples, on_one_table
from plfl.experiments.cell_cache import CellCache
from plfl.experiments.job_sizes import COMMON_AXES
from plfl.experiments.train import train
from plfl.experiments.training_setup import place_computation
from plfl.federated.checkpoint import Checkpoint
from plfl.pipeline.training_jobs import training_code
from plfl.results.records import TRAINED_FOLDER, RecordFiles
from plfl.study import Cell, Study
from plfl.training.engines import choose_engine
from plfl.training.gpu import memory_of

log = logging.getLogger(__name__)

COPIES_KEPT = 4
"""Rows of parameters that a client keeps between rounds, an upper bound for most methods: its
model, two moments of its optimiser, and one row of the method."""
SHARE = 0.5
"""Fraction of a GPU's free memory for the data and the kept rows; the rest is for training."""


def train_cells(
    study: Study, cells: Mapping[Cell, RecordFiles], datasets: Mapping[str, Path], label: str
) -> None:
    """Write the records, forecasts and errors of some cells, given the datasets of their states.

    An interrupted job resumes from its checkpoint; Ctrl-C and SIGTERM save the round in progress
    first. If another job trains the same cells, such as one that outlived its Snakemake, this job
    waits and uses the cells that the other finishes. `label`: its name in the log.
    """
    engine = choose_engine(place_computation(study), study.model.kernel_form)
    if engine[0] == "fused":  # the stacked one needs its large arrays again in the next step
        with suppress(AttributeError):  # another C library than glibc
            # Return the memory of large arrays to the system (M_MMAP_THRESHOLD). Otherwise small
            # ones fragment what blocks of models leave, and the process grows by all models.
            ctypes.CDLL(None).mallopt(-3, 2**22)
    digests = _digests(study, cells, datasets, engine)
    folder = study.paths.root / TRAINED_FOLDER  # variants may share cells
    cache = CellCache(folder)
    name = digest(list(digests.values()))
    lock = folder / f".{name}.lock"
    with hold(lock, waiting=log_wait):
        new = study.plan.with_all_seeds(
            cell for cell in cells if not cache.restore(digests[cell], cells[cell])
        )
        read = sources.source_of(study.data).read
        examples = {state: read(study, datasets[state]) for state in _states(new)}
        device = memory_of(torch.device(engine[1]))
        groups = group_cells(study, new, examples, device.free_bytes() if device else None)
        file, rounds = folder / f"{name}.checkpoint", study.federation.rounds
        for number, group in enumerate(groups):
            key = digest([digests[cell] for cell in group])
            checkpoint = Checkpoint(file, key, study.compute.checkpoint_seconds)
            state_examples = {state: examples[state] for state in _states(group)}
            log_group_round = partial(log_round, label, number * rounds, len(groups) * rounds)
            with _saving_on_interrupt(checkpoint, label):
                results = train(
                    study, group, on_one_table(state_examples, folder), log_group_round, checkpoint
                )
            for cell, result in results.items():
                # Models are written first, because records mean that the cell is finished. One seed
                # is enough.
                if result.models and cell.seed == study.grid.seeds[0]:
                    cache.put_models(digests[cell], result.models, result.totals)
                cache.store(digests[cell], result, cells[cell])
        Checkpoint(file, "", 0).remove()


def group_cells(
    study: Study, cells: Sequence[Cell], examples: Mapping[str, Examples], free: int | None
) -> list[list[Cell]]:
    """The cells in groups that train side by side: all cells, those of a state, or those of a state
    and sharing scheme. The groups are the largest that fit into the `free` bytes of a GPU; None:
    there is no GPU."""
    for stack in ("study", "state", "sharing"):
        groups: dict[tuple[str, ...], list[Cell]] = {}
        for cell in cells:
            groups.setdefault(tuple(getattr(cell, a) for a in COMMON_AXES[stack]), []).append(cell)
        reasons = (
            _reason_against(study, cells_of_state, examples, free)
            for cells_of_state in groups.values()
        )
        reason = next(filter(None, reasons), None)
        if reason is None:
            break
        log.info("not all cells of a %s train side by side: %s", stack, reason)
    return list(groups.values())


def _reason_against(
    study: Study, cells: list[Cell], examples: Mapping[str, Examples], free: int | None
) -> str:
    """Why cells cannot train side by side; empty if they can."""
    data = [examples[state] for state in _states(cells)]
    forms = {form_of(part) if isinstance(part, Dataset) else (id(part),) for part in data}
    if len(forms) > 1:
        return "the examples of their states differ in more than the clients"
    if free is None:
        return ""
    models = sum(
        study.plan.count_trials(cell) * len(examples[cell.state].clients) for cell in cells
    )
    tables = sum(
        table.nbytes
        for dataset in data
        for table in (dataset.features, dataset.covariates, dataset.targets)
    )
    needed_bytes = 4 * COPIES_KEPT * models * study.plan.layout.width + tables
    if needed_bytes <= SHARE * free:
        return ""
    return (
        f"{models:,} models and their data take {needed_bytes / 1e9:.3g} GB of the GPU's memory, "
        f"of which {free / 1e9:.3g} GB are free"
    )


def _states(cells: Iterable[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.state for cell in cells))


def log_wait(holder: str) -> None:
    """Say in the log that the job waits for an orphan, a job that outlived its Snakemake."""
    log.warning(
        "another job trains the same cells: %s; this job waits until it has finished or is stopped",
        holder,
        extra=JobState(holder=holder).as_extra(),
    )


def log_round(label: str, first_round: int, rounds: int, t: int) -> None:
    """Write a finished round of a training into the log."""
    state = JobState("round", first_round + t, rounds)
    log.info("%s: %s", label, state, extra=state.as_extra())


@contextmanager
def _saving_on_interrupt(checkpoint: Checkpoint, label: str) -> Iterator[None]:
    """Make Ctrl-C and SIGTERM end the training after the round in progress, which is saved. A
    second signal ends it at once."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
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


def _digests(
    study: Study, cells: Iterable[Cell], datasets: Mapping[str, Path], engine: tuple[str, str]
) -> dict[Cell, str]:
    """For every cell, the digest of everything that determines its results. `engine`: the names of
    the engine and the device."""
    data = {state: sha256(path) for state, path in datasets.items()}
    return {
        cell: digest(
            str(cell),
            study.plan.settings(cell),
            training_code(study, [cell]),
            data[cell.state],
            *engine,
        )
        for cell in cells
    }
