"""The folders of a deployed cell, and the names of the files in the server's folder."""

import json
from dataclasses import dataclass
from pathlib import Path

from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.rounds import RoundSummary
from plfl.study import Cell, Study

RUN_SETTINGS = "settings.json"
"""File of the server's folder: the study, the cell and the policy that the ServerApp reads."""
PROGRESS = "progress.jsonl"
"""File of the server's folder: the summary of each completed round, one per line."""
OUTCOME = "outcome.json"
"""File of the server's folder: whether the ServerApp succeeded, and its error if not."""
SERVER_LOG = "server.log"
"""File of the server's folder: the log of the ServerApp."""
CHECKPOINT = "checkpoint"
"""Folder in the server's folder: the state after the last completed round."""
APP_LOCK = "server-app.lock"
"""File of the server's folder: locked by a ServerApp for as long as it lives."""


@dataclass(frozen=True)
class CellFolders:
    """The folders of one deployed cell."""

    study: Study
    cell: Cell
    root: Path = Path()
    """Working directory. The folders of the study are relative to it."""

    @property
    def results(self) -> Path:
        """Folder of the result tables."""
        return self.root / agreement.narrow_study(self.study, self.cell).paths.results

    @property
    def server(self) -> Path:
        """Folder of the server."""
        return self.results / "deploy" / "server"

    def client(self, name: str) -> Path:
        """Folder of a client that runs on this machine."""
        return self.results / "deploy" / "clients" / name

    @property
    def history(self) -> list[RoundSummary]:
        """Summaries of the rounds completed so far."""
        path = self.server / PROGRESS
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [RoundSummary(**json.loads(line)) for line in lines]
