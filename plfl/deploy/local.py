"""A complete federation on this machine, and its comparison with the simulator, bit by bit."""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.torch
import torch
import yaml

from plfl.base.errors import PlflError, Problem
from plfl.data.dataset import Dataset
from plfl.data.sources import load_dataset
from plfl.deploy import flower
from plfl.deploy.folders import CellFolders
from plfl.deploy.host import GRACE, PROCESS_PAUSE, Processes, ending_in_order, free_port
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.client import read_latest
from plfl.deploy.protocol.rounds import ObservedClock, RoundPolicy, RoundSummary, record
from plfl.deploy.protocol.server import SERVER_MODEL_FILE
from plfl.experiments.recorder import Recorder
from plfl.experiments.training_setup import TrainingSetup
from plfl.federated.federation import Federation
from plfl.federated.round import Round, run_rounds
from plfl.results.records import CellResult
from plfl.results.tables import Tables
from plfl.study import Cell, Study

CLIENT_PATIENCE = 900.0
"""Seconds to wait for the clients; long, because the machine may be busy."""
ASKED_COLUMN = "asked"
"""Temporary column of the records, through which every client that was sent a message has a row."""


def federate(
    config: Path,
    folders: CellFolders,
    names: list[str],
    policy: RoundPolicy,
    rounds: int | None = None,
    report: Callable[[str], None] = print,
) -> None:
    """Run a server and all its clients on this machine, with the commands for separate hosts and
    with keys that are created for this run.

    `rounds` replaces `federation.rounds`. `report` is called with each line of output.
    """
    flower.require_flower()
    # Not at the top: needs cryptography, which comes with the extra `deploy`.
    from plfl.deploy.certificates import make

    deploy = folders.results / "deploy"
    keys = deploy / "keys"
    shutil.rmtree(keys, ignore_errors=True)
    make(keys, names)
    port = str(free_port())

    def command(program: str, key_folder: str, *options: str) -> list[str]:
        words = [sys.executable, "-P", "-m", "plfl", "deploy", program, "--config", str(config)]
        words += ["--cell", str(folders.cell), *(["--rounds", str(rounds)] if rounds else [])]
        return [*words, "--keys", str((keys / key_folder).resolve()), *options]

    with ending_in_order(), Processes(deploy / "logs", 3 * GRACE) as processes:
        options = [f"--{key}={value}" for key, value in asdict(policy).items()]
        serving = command("server", "server", "--port", port, *options)
        server = processes.start("server", serving, folder=folders.root, is_visible=True)
        for name in names:
            options = ["--building", name, "--server", f"127.0.0.1:{port}"]
            client = command("client", f"clients/{name}", *options)
            processes.start(name, client, folder=folders.root)
        report(f"{folders.cell}: a server and {len(names)} clients; logs in {processes.logs}")
        while (code := server.poll()) is None:
            for name in names:
                processes.check_running(name)
            time.sleep(PROCESS_PAUSE)
        if code:
            raise PlflError(
                Problem("", f"the server ended with status {code}", "see its messages above")
            )


MASKED_KEYS: dict[str, dict[str, Any]] = {
    "networks": {
        "grid": {"client_opt": ["adam"], "server_opt": ["fedavg"]},
        "federation": {"rounds": 1, "local_steps": 5},
    },
    "trees": {
        "windows": {"target": "change", "scaling": "per_client"},
        "model": {"name": "trees", "trees": 1, "own_trees": 1, "leaves": 2},
        "grid": {"method": ["boosting"], "client_opt": ["sgd"], "server_opt": ["fedavg"]},
        "federation": {"rounds": 2, "evaluate_every": 2, "loss": "mae"},
    },
}
"""Blocks of the check with masked sums. The first tree is shared, the second one a client's own."""


def configuration_of_check(
    client_count: int, rounds: int, folder: Path, masked_routine: str | None = None
) -> dict[str, Any]:
    """Configuration of the check: SCAFFOLD with Adam and scheme P2, all of which keep state; or one
    of `MASKED_KEYS`."""
    raw = _plain_configuration(client_count, rounds, folder)
    if masked_routine is not None:
        raw |= MASKED_KEYS[masked_routine] | {"channel": {"secure": True}}
        raw["grid"] = raw["grid"] | {"sharing": ["P2"]}
    return raw


def _plain_configuration(client_count: int, rounds: int, folder: Path) -> dict[str, Any]:
    return {
        "name": "deploy-check",
        "data": {
            "source": "sample",
            "states": ["NY"],
            "clients": client_count,
            "folder": str(folder),
        },
        "grid": {
            "method": ["scaffold"],
            "client_opt": ["adam"],
            "server_opt": ["fedavg"],
            "sharing": ["P2"],
        },
        "federation": {"rounds": rounds, "local_steps": 5, "evaluate_every": rounds},
    }


def check(
    client_count: int, rounds: int, report: Callable[[str], None], masked_routine: str | None = None
) -> None:
    """Run a federation and its simulation in a temporary folder, and compare them.
    `masked_routine`: of `MASKED_KEYS`.

    If they agree, the last line is `identical bits` and the folder is removed.
    """
    folder = Path(tempfile.mkdtemp(prefix="plfl-"))
    raw = configuration_of_check(client_count, rounds, folder / "data", masked_routine)
    study = Study.parse(raw, "plfl deploy check")
    config = folder / "check.yaml"
    config.write_text(yaml.safe_dump(raw), encoding="utf-8")
    folders = CellFolders(study, study.cells[0], folder)
    beginning = time.monotonic()
    dataset = load_dataset(study, folders.cell.state).refit()
    policy = RoundPolicy(client_count, patience=CLIENT_PATIENCE)
    federate(config, folders, agreement.roster(study, folders.cell), policy, report=report)
    deployed = time.monotonic() - beginning
    beginning = time.monotonic()
    result, f = replay(study, folders.cell, dataset, folders.history)
    report(f"{deployed:.1f} s with Flower, {time.monotonic() - beginning:.1f} s in the simulator")
    if differences := list(compare_with_simulation(folders, result, f)):
        raise PlflError(f"the simulator gives other bits, see {folder}: " + "; ".join(differences))
    shutil.rmtree(folder)
    report("identical bits")


def compare_with_simulation(
    folders: CellFolders, result: CellResult, f: Federation
) -> Iterator[str]:
    """Differences between a cell that was deployed on this machine and its simulation `f` after the
    last round. Each is the name of a part: the records, an array of the server, or the parameters
    of a client."""
    records = Tables(folders.results).records(result.records.columns.tolist())
    simulated = scored_rows(result.records, records, folders.history)
    try:
        pd.testing.assert_frame_equal(records, simulated, check_exact=True)
    except AssertionError as error:
        yield f"records: {error}"
    server_arrays = safetensors.torch.load_file(folders.server / SERVER_MODEL_FILE)
    for name, expected in f.server.state.items():
        if not are_equal(server_arrays[name], expected):
            yield f"the server's {name}"
    for i, name in enumerate(f.client_data.names):
        folder = folders.client(name)
        rounds = [summary.t for summary in folders.history if name in summary.took_part]
        if not rounds:
            continue
        run, _ = read_latest(folder)
        client_arrays = safetensors.torch.load_file(
            folder / run / f"round-{max(rounds)}.safetensors"
        )
        if not are_equal(client_arrays["local"][0], f.local[i]):
            yield f"the parameters of client {name}"


def scored_rows(
    simulated: pd.DataFrame, deployed: pd.DataFrame, history: list[RoundSummary]
) -> pd.DataFrame:
    """The simulated records without scores that the deployment cannot have.

    A simulation scores every client. A deployment lacks the scores of a client that was not
    connected, which are left out here unless the client took part in the round.
    """
    took_part = {(summary.t, name) for summary in history for name in summary.took_part}
    evaluated = deployed[deployed["split"] != "train"]
    expected = took_part | set(zip(evaluated["round"], evaluated["client"], strict=True))
    rows = zip(simulated["split"], simulated["round"], simulated["client"], strict=True)
    is_expected = [split == "train" or (t, client) in expected for split, t, client in rows]
    return simulated[is_expected].reset_index(drop=True)


def replay(
    study: Study, cell: Cell, dataset: Dataset, history: Iterable[RoundSummary]
) -> tuple[CellResult, Federation]:
    """Run a cell with the participation of `history`.

    Returns:
        The result tables, and the federation after the last round.
    """
    setup = TrainingSetup.for_study(study, dataset)
    f = setup.make_federation(cell, agreement.candidate(study, cell))
    client_data = f.client_data
    clock = f.clock = ObservedClock(study.federation.simulation, client_data.names, cell.seed)
    settings = study.federation
    evaluator, recorder = setup.evaluator, Recorder.for_clients(dataset, settings)
    windows = client_data.window_counts.clone()
    for summary in history:
        clock.observe(summary.asked, summary.took_part)
        # The server knows the numbers of windows only of clients that have joined.
        has_joined = np.isin(client_data.names, summary.joined or client_data.names)
        client_data.window_counts = windows.where(
            torch.from_numpy(has_joined).to(windows.device), torch.nan
        )

        def report(finished_rounds: list[Round], summary: RoundSummary = summary) -> None:
            (result,) = finished_rounds
            evaluation = None
            if settings.evaluates(result.t):
                global_models = f.global_models if f.local_differs_from_global else None
                evaluation = evaluator.score_federation(f, global_models)
                if result.t == settings.rounds:
                    recorder.week = evaluation.week()
            was_asked = np.isin(client_data.names, summary.asked).astype(np.int64)
            record(recorder, f, result, evaluation, {ASKED_COLUMN: was_asked})

        run_rounds([f], setup.engine, range(summary.t, summary.t + 1), report)
    result = agreement.tables(study, cell, recorder)
    return replace(result, records=result.records.drop(columns=ASKED_COLUMN)), f


def are_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are identical, bit for bit."""
    return a.shape == b.shape and a.numpy().tobytes() == b.cpu().numpy().tobytes()
