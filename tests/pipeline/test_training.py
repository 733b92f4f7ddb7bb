"""A training job: what it takes over, and how it ends when it is interrupted."""

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from plfl.base.files import hold
from plfl.experiments.cell_cache import CellCache
from plfl.experiments.train import train as experiment
from plfl.pipeline import training
from plfl.pipeline.training import train_cells
from plfl.results.records import TRAINED_FOLDER, RecordFiles, cell_digest
from plfl.study import Cell, Study
from tests.helpers import tiny


@pytest.fixture
def study(here: Path) -> Study:
    """A study of nine rounds, in an empty folder; no checkpoint falls due by itself."""
    tiny.dataset().save("windows.npz")
    return tiny.study(federation={"rounds": 9}, compute={"checkpoint_seconds": 1e6})


def outputs(study: Study) -> dict[Cell, RecordFiles]:
    shared = [cell for cell in study.cells if cell.sharing == "P2"]
    return {cell: RecordFiles.in_folder(Path(), str(cell)) for cell in shared}


def train(study: Study) -> dict[str, bytes]:
    """The bytes of all tables of the job, which is run anew."""
    cells = outputs(study)
    train_cells(study, cells, {"XX": Path("windows.npz")}, "P2-XX")
    return {path.name: path.read_bytes() for files in cells.values() for path in files}


def test_states_train_together_if_they_fit(study, monkeypatch, caplog):
    study = tiny.study(data={"states": ["XX", "YY"]}, federation={"rounds": 3})
    tiny.dataset(clients=2, rows=500).save("others.npz")
    datasets = {"XX": Path("windows.npz"), "YY": Path("others.npz")}

    def trained(free: int | None) -> list[bytes]:
        groups.clear()
        device = None if free is None else SimpleNamespace(free_bytes=lambda: free)
        monkeypatch.setattr(training, "memory_of", lambda _: device)
        cells = outputs(study)
        train_cells(study, cells, datasets, "all")
        shutil.rmtree(study.paths.results / "trained")
        return [path.read_bytes() for files in cells.values() for path in files]

    def noted(study: Study, cells: list[Cell], *others: Any) -> Any:
        groups.append({(cell.state, cell.sharing) for cell in cells})
        return experiment(study, cells, *others)

    groups: list[set[tuple[str, str]]] = []
    monkeypatch.setattr(training, "train", noted)
    together = trained(None)
    assert groups == [{("XX", "P2"), ("YY", "P2")}]
    assert trained(10**9) == together
    assert len(groups) == 1
    with caplog.at_level("INFO"):
        assert trained(200_000) == together
    assert groups == [{("XX", "P2")}, {("YY", "P2")}]
    assert "train side by side: 20 models and their data take" in caplog.text
    assert "all: round 6 of 6" in caplog.text
    caplog.clear()
    replace(tiny.dataset(clients=2), look_ahead=3).save("others.npz")
    with caplog.at_level("INFO"):
        trained(None)
    assert "differ in more than the clients" in caplog.text


def test_a_job_that_waits_for_another_says_who_trains_its_cells(study, monkeypatch, caplog):
    """Such as one that outlived its Snakemake: its lock is held until the words are in the log."""

    def hold_while_busy(path: Path, *, waiting: Callable[[str], None]) -> FileLock:
        path.parent.mkdir(parents=True)
        other = FileLock(path)
        other.acquire()
        path.with_name(f"{path.name}.holder").write_text("process 12 on homer")

        def tell(holder: str) -> None:
            waiting(holder)
            other.release()

        return hold(path, waiting=tell)

    monkeypatch.setattr(training, "hold", hold_while_busy)
    assert train(study)
    assert "another job trains the same cells: process 12 on homer; this job waits" in caplog.text


def interrupting(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, rounds: list[int]
) -> list[int]:
    """Have the process receive a signal after these rounds; returns the rounds that finish."""
    finished: list[int] = []

    def interrupt(label: str, before: int, last: int, t: int) -> None:
        finished.append(t)
        for _ in range(rounds.count(t)):
            os.kill(os.getpid(), number)

    monkeypatch.setattr(training, "log_round", interrupt)
    return finished


def test_the_best_cell_of_a_job_keeps_its_models(study: Study) -> None:
    train(study)
    cells = outputs(study)
    digests = {cell: str(cell_digest(files.records)) for cell, files in cells.items()}
    cache = CellCache(study.paths.results / TRAINED_FOLDER)
    kept = {cell: models for cell in cells if (models := cache.models(digests[cell]))}
    trained = experiment(study, [*cells], tiny.dataset())
    ((best, expected),) = ((cell, r.models) for cell, r in trained.items() if r.models)
    assert list(kept) == [best] and list(expected) == list(kept[best]) == ["local", "global"]
    assert all(np.array_equal(expected[model], kept[best][model]) for model in expected)
    # A damaged file counts as none.
    file = study.paths.results / TRAINED_FOLDER / f"{digests[best]}.safetensors"
    file.write_bytes(file.read_bytes()[:-4] + b"\0\0\0\7")
    assert cache.models(digests[best]) is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_job_saves_its_round(study, number, monkeypatch, capsys):
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    finished = interrupting(monkeypatch, number, [4])
    with pytest.raises(KeyboardInterrupt):
        train(study)
    assert finished == [1, 2, 3, 4]
    assert "P2-XX: saves the round" in capsys.readouterr().err
    assert handlers == [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]

    resumed = interrupting(monkeypatch, number, [])
    after = train(study)
    assert resumed == [5, 6, 7, 8, 9]
    (study.paths.results / "trained").rename("elsewhere")
    assert train(study) == after


def test_a_second_signal_ends_the_job_at_once(study, monkeypatch):
    finished = interrupting(monkeypatch, signal.SIGINT, [2, 2])
    with pytest.raises(KeyboardInterrupt):
        train(study)
    assert finished == [1, 2]
    assert not list((study.paths.results / "trained").glob("*.checkpoint/state.json"))


def test_a_signal_in_the_last_round_loses_nothing(study, monkeypatch):
    finished = interrupting(monkeypatch, signal.SIGINT, [9])
    assert train(study)
    assert finished == list(range(1, 10))
