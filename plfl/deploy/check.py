"""Whether a federation among real processes gives the simulator's bits, on sample data."""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import safetensors.torch
import torch
import yaml

from plfl.data import source, windows
from plfl.deploy import agreement
from plfl.deploy.client import LATEST
from plfl.deploy.launch import Place, federate
from plfl.deploy.replay import replay
from plfl.deploy.server import MODEL
from plfl.deploy.terms import Taken, Terms
from plfl.errors import PlflError
from plfl.federation import Federation
from plfl.results.records import CellResult
from plfl.results.tables import Tables
from plfl.study import Study

PATIENCE = 900.0
"""Seconds to wait for the clients: the machine may be busy."""


def study_of(clients: int, rounds: int, folder: Path) -> dict[str, object]:
    """The configuration that is checked: P2, with control variates and an adaptive optimiser."""
    return {
        "name": "deploy-check",
        "data": {
            "source": "sample",
            "states": ["NY"],
            "clients": clients,
            "folder": str(folder),
        },
        "grid": {
            "method": ["scaffold"],
            "client_opt": ["adam"],
            "server_opt": ["fedavg"],
            "personalization": ["P2"],
        },
        "federation": {"rounds": rounds, "local_steps": 5, "evaluate_every": rounds},
    }


def check(clients: int, rounds: int, tell: Callable[[str], None]) -> None:
    """Run both and compare them, in a folder that is removed when all is well.

    The last line told is `equal bits`.

    Raises:
        PlflError: something differs, which the message names.
    """
    # Results and data lie below the working directory of whoever runs a study.
    here = Path(tempfile.mkdtemp(prefix="plfl-"))
    raw = study_of(clients, rounds, here / "data")
    study = Study.parse(raw, "plfl deploy check")
    config = here / "check.yaml"
    config.write_text(yaml.safe_dump(raw), encoding="utf-8")
    place = Place(study, study.cells[0], here)
    source.fetch(study.data, place.cell.state)
    begun = time.monotonic()
    terms = Terms(clients, patience=PATIENCE)
    federate(config, place, agreement.roster(study, place.cell), terms, tell=tell)
    deployed = time.monotonic() - begun
    dataset = windows.build(source.load(study.data, place.cell.state), study.windows)
    begun = time.monotonic()
    result, f = replay(study, place.cell, dataset, place.history)
    tell(f"{deployed:.1f} s with Flower, {time.monotonic() - begun:.1f} s in the simulator")
    if differences := list(compare(place, result, f)):
        raise PlflError(f"not equal, see {here}: " + "; ".join(differences))
    shutil.rmtree(here)
    tell("equal bits")


def compare(place: Place, result: CellResult, f: Federation) -> Iterator[str]:
    """What differs between a deployed cell on this machine and a simulated one."""
    found = Tables(place.results).records(result.records.columns.tolist())
    simulated = _scored(result.records, found, place.history)
    try:
        pd.testing.assert_frame_equal(found, simulated, check_exact=True)
    except AssertionError as error:
        yield f"records: {error}"
    shared = safetensors.torch.load_file(place.server / MODEL)
    for name, expected in f.server_state.items():
        if not same(shared[name], expected):
            yield f"the server's {name}"
    for i, name in enumerate(f.fleet.names):
        folder = place.client(name)
        run, _ = json.loads((folder / LATEST).read_text(encoding="utf-8"))
        taken = [taken.t for taken in place.history if name in taken.took_part]
        held = safetensors.torch.load_file(folder / run / f"round-{max(taken)}.safetensors")
        if not same(held["local"][0], f.local[i]):
            yield f"the parameters of client {name}"


def _scored(simulated: pd.DataFrame, found: pd.DataFrame, history: list[Taken]) -> pd.DataFrame:
    """Simulated records without scores that a client was not there for: a simulation has all."""
    took_part = {(taken.t, name) for taken in history for name in taken.took_part}
    scored = found[found["split"] != "train"]
    there = took_part | set(zip(scored["round"], scored["client"], strict=True))
    rows = zip(simulated["split"], simulated["round"], simulated["client"], strict=True)
    kept = [split == "train" or (t, client) in there for split, t, client in rows]
    return simulated[kept].reset_index(drop=True)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are the same to the bit."""
    return a.shape == b.shape and a.numpy().tobytes() == b.cpu().numpy().tobytes()
