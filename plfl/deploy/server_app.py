"""The Flower ServerApp: runs the rounds, with Flower's grid as the transport to the clients.

It writes its outcome to the server's folder, because Flower's exit codes do not report it.
"""

import json
import logging
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from plfl.base.errors import PlflError
from plfl.base.files import hold, write_text
from plfl.deploy import flower
from plfl.deploy.certificates import Seal, SealError, ServerKeys
from plfl.deploy.client_app import FIELD, RECORD, message_in
from plfl.deploy.flower import FOLDER_VARIABLE
from plfl.deploy.folders import (
    APP_LOCK,
    CHECKPOINT,
    OUTCOME,
    PROGRESS,
    RUN_SETTINGS,
    SERVER_LOG,
)
from plfl.deploy.host import end_with_parent
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.rounds import RoundPolicy, RoundSummary
from plfl.deploy.protocol.server import DeployedServer
from plfl.pipeline.jobs import git_commit
from plfl.results.collect import summarise, write_summary
from plfl.results.records import CellResult, write_table
from plfl.study import Cell, Study

log = logging.getLogger(__name__)

POLL = 0.5
"""Seconds between two polls for answers."""

app = ServerApp()


@app.main()
def main(grid: Grid, _context: Context) -> None:
    """Run the rounds of the plan in the server's folder."""
    # Without its SuperLink it must not write to the folder, which another ServerApp may use
    # already.
    end_with_parent(signal.SIGKILL)
    folder = Path(os.environ[FOLDER_VARIABLE])
    logging.basicConfig(
        filename=folder / SERVER_LOG, format="%(asctime)s %(levelname)s %(message)s", force=True
    )
    logging.getLogger("plfl").setLevel(logging.INFO)
    # Wait until an earlier ServerApp has ended: only one may use the checkpoint.
    with hold(folder / APP_LOCK):
        write_text(folder / OUTCOME, json.dumps(_outcome(grid, folder)))


def _outcome(grid: Grid, folder: Path) -> dict[str, Any]:
    try:
        notes = _run(grid, folder)
    except PlflError as error:
        return {"done": False, "error": str(error)}
    except Exception as error:
        log.exception("this is a bug in plfl; please report it")
        return {"done": False, "error": f"{type(error).__name__}: {error}"}
    return {"done": True, "notes": notes}


def _run(grid: Grid, folder: Path) -> list[str]:
    """Run the rounds and write their tables; return what the operator should know of them."""
    settings = json.loads((folder / RUN_SETTINGS).read_text(encoding="utf-8"))
    study = Study.parse(settings["study"], str(folder / RUN_SETTINGS), Path(settings["folder"]))
    cell = agreement.deployable(study, settings["cell"], str(folder / RUN_SETTINGS))
    policy = RoundPolicy(**settings["policy"])
    transport = FlowerGrid(grid, settings["nodes"], ServerKeys(Path(settings["keys"])).seals())
    server = DeployedServer(study, cell, transport, folder / CHECKPOINT, policy)

    def report(_summary: RoundSummary) -> None:
        # The history includes the rounds before a restart.
        lines = [json.dumps(vars(summary_before)) + "\n" for summary_before in server.history]
        write_text(folder / PROGRESS, "".join(lines))

    result = server.run(report)
    write_results(study, cell, result, server.membership.descriptions, Path(settings["results"]))
    if (result.records["split"] != "train").any():
        return server.notes
    unscored = (
        "no client was scored in any round, so the results have no scores; see "
        f"{folder / PROGRESS} and the logs of the clients"
    )
    return [*server.notes, unscored]


def write_results(
    study: Study, cell: Cell, result: CellResult, clients: pd.DataFrame, folder: Path
) -> None:
    """Write the tables of a cell to `folder`; `study.json` states the engine `flower`.

    `forecasts.parquet` is empty because forecasts stay on the clients.
    """
    study = agreement.narrow_study(study, cell)
    write_table(result.records, folder / "records.parquet")
    write_table(result.forecasts, folder / "forecasts.parquet")
    write_table(clients, folder / "clients.parquet")
    # If no client was ever scored, the records have no scores, and the summary has no rows.
    records = result.records.reindex(
        columns=[*result.records, *{"mae", "mase", "rmse"}.difference(result.records)]
    )
    summary = summarise(records, study.data.source)
    about = {"engine": "flower", "study": study.description(), "cells": {str(cell): ""}}
    write_summary(folder, summary, about, git_commit(), {"flwr": flower.require_flower()})


class FlowerGrid:
    """Flower as a `Transport`.

    `nodes`: Flower's ids of the clients that this server has registered; others are ignored.
    `seals`: what seals their messages.
    """

    def __init__(self, grid: Grid, nodes: Mapping[str, int], seals: Mapping[str, Seal]) -> None:
        self.grid, self.nodes, self.seals = grid, nodes, seals

    def list_connected(self) -> set[str]:
        connected = set(self.grid.get_node_ids())
        return {name for name, node in self.nodes.items() if node in connected}

    def exchange(
        self, messages: Mapping[str, bytes], timeout: float, kind: str
    ) -> dict[str, bytes]:
        end = time.monotonic() + timeout
        message_ids = {}
        for name, data in messages.items():
            content = RecordDict({RECORD: ConfigRecord({FIELD: self.seals[name].encrypt(data)})})
            # The time to live includes the answer. It must not end before the timeout.
            node = self.nodes[name]
            message = Message(content, dst_node_id=node, message_type=kind, ttl=timeout + 60)
            (number,) = self.grid.push_messages([message])
            message_ids[number] = name
        answers: dict[str, bytes] = {}
        while message_ids and time.monotonic() < end:
            for reply in self.grid.pull_messages(list(message_ids)):
                node, number = reply.metadata.src_node_id, reply.metadata.reply_to_message_id
                if number not in message_ids or self.nodes[message_ids[number]] != node:
                    log.warning("node %s sent an answer twice, or that of another node", node)
                    continue
                name = message_ids.pop(number)
                if reply.has_error():
                    log.warning("client %s: %.500r", name, reply.error.reason)
                    continue
                try:
                    answers[name] = self.seals[name].decrypt(message_in(reply))
                except SealError as error:
                    log.warning("client %s: %s; did another account answer?", name, error)
                    answers[name] = b""  # is refused
            if message_ids:
                time.sleep(POLL)
        return answers
