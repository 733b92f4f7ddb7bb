"""Server and clients in one process, with nothing but bytes between them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import safetensors.torch
import torch
from torch import Tensor

from plfl.config.federation import FederationSettings
from plfl.data.dataset import Dataset
from plfl.data.windows import build
from plfl.deploy.local import replay
from plfl.deploy.protocol.client import DeployedClient
from plfl.deploy.protocol.endpoints import Message
from plfl.deploy.protocol.rounds import RoundPolicy, RoundSummary
from plfl.deploy.protocol.server import DeployedServer
from plfl.experiments.train import train
from plfl.methods.boosting import UNUSED
from plfl.study import Cell, Study
from tests.helpers import tiny

NAMES = ["101", "102", "103", "104"]
MEASURED = ["message_down", "message_up"]
"""Columns of the records that a simulation does not have."""


def study(**blocks: Any) -> Study:
    """The tiny study with clients that have numbers for names, as buildings have."""
    data = {"clients": len(NAMES), "buildings": {"XX": [int(name) for name in NAMES]}}
    data["features"] = ["load", "temperature"]
    grid = {"client_opt": ["adam"], "server_opt": ["fedavg"]}
    blocks["data"] = data | blocks.get("data", {})
    blocks["grid"] = grid | blocks.get("grid", {})
    return tiny.study(**blocks)


COVARIATES = [{"name": "lags", "days": [1]}, {"name": "level"}, {"name": "calendar"}]
EMPTY: Mapping[str, Any] = {}


def trees(noise: float = 0, federation: Mapping[str, Any] = EMPTY, **blocks: Any) -> Study:
    """Two trees of the body and one of the head."""
    plain = FederationSettings()
    unused = {key: getattr(plain, key) for key in UNUSED}
    federation = unused | {"loss": "mae", "evaluate_every": 3} | dict(federation)
    if "task" in blocks:
        del federation["loss"]
    model = {"name": "trees", "trees": 2, "own_trees": 1, "leaves": 4}
    return study(
        windows={"target": "change", "scaling": "per_client", "covariates": COVARIATES},
        model=blocks.pop("model", model),
        grid={"method": ["boosting"], "client_opt": ["sgd"]},
        method={"boosting": {"bins": 15, "noise": noise}},
        federation=federation,
        **blocks,
    )


def tables() -> dict[str, pd.DataFrame]:
    return dict(zip(NAMES, tiny.tables(len(NAMES), 300).values(), strict=True))


def dataset(study: Study) -> Dataset:
    return build(tables(), study.windows)


class Loopback:
    """Hands every message to a client in this process, and keeps all bytes that cross.

    The answers to messages that `is_lost` chooses do not arrive; clients that are `absent` are not
    connected. `forged` returns what a client sends instead of its answer.
    """

    def __init__(self, clients: Mapping[str, DeployedClient]):
        self.clients = dict(clients)
        self.crossed_messages: list[bytes] = []
        self.absent: set[str] = set()
        self.is_lost: Callable[[str, Message], bool] = lambda name, message: False
        self.forged: Callable[[str, Message, bytes], bytes] = lambda name, message, answer: answer

    def list_connected(self) -> set[str]:
        return {*self.clients} - self.absent

    def exchange(
        self, messages: Mapping[str, bytes], timeout: float, kind: str
    ) -> dict[str, bytes]:
        answers = {}
        # The order of arrival is none of the server's business.
        for name in sorted(messages, reverse=True):
            if name in self.absent:
                continue
            message = messages[name]
            answer = self.clients[name].answer(message)
            self.crossed_messages += [message, answer]
            opened = Message.unpack(message)
            if not self.is_lost(name, opened):
                answers[name] = self.forged(name, opened, answer)
        return answers


@dataclass
class Deployment:
    """A server and its clients, each with a folder of its own below `folder`."""

    study: Study
    cell: Cell
    folder: Path
    minimum: int = len(NAMES)

    def __post_init__(self) -> None:
        self.loopback = Loopback({name: self.client(name) for name in NAMES})
        self.server = self.new_server()

    def client(self, name: str) -> DeployedClient:
        return DeployedClient(self.study, self.cell, name, tables()[name], self.folder / name)

    def new_server(self) -> DeployedServer:
        policy = RoundPolicy(self.minimum, patience=0.3)
        return DeployedServer(
            self.study, self.cell, self.loopback, self.folder / "server/points", policy
        )

    def run(self, tell: Callable[[RoundSummary], None] = lambda summary: None) -> pd.DataFrame:
        return self.server.run(tell).records.drop(columns=MEASURED)


def replayed(deployed: Deployment) -> pd.DataFrame:
    """The records of a simulation with the participation of a deployment."""
    study = deployed.study
    return replay(study, deployed.cell, dataset(study), deployed.server.history)[0].records


def by_split(study: Study) -> dict[str, Cell]:
    return {cell.sharing: cell for cell in study.cells}


def assert_equal_bits(
    study: Study, folder: Path, splits: Collection[str] = ("P1", "P2", "P3")
) -> None:
    """Deployments of a study, one for each of the `splits` that it has, are its simulation."""
    cells = by_split(study)
    for split in (split for split in splits if split in cells):
        cell, data = cells[split], dataset(study)
        deployed = Deployment(study, cell, folder / split)
        records = deployed.run()
        expected = train(study, [cell], data)[cell].records
        pd.testing.assert_frame_equal(records, expected, check_exact=True)
        history = deployed.server.history
        if study.federation.participation < 1:
            assert all(len(s.took_part) < len(NAMES) for s in history), "all took part"
        replayed_result, f = replay(study, cell, data, history)
        pd.testing.assert_frame_equal(replayed_result.records, expected, check_exact=True)
        state = safetensors.torch.load_file(folder / split / "server" / "model.safetensors")
        for name, values in f.server.state.items():
            assert torch.equal(state[name], values), name
        for i, name in enumerate(NAMES):
            assert torch.equal(last_model(folder / split / name, f.initial), f.local[i]), name


def last_model(folder: Path, initial: Tensor) -> Tensor:
    """The model that a client was left with: `initial` if it took part in no round."""
    files = sorted(folder.glob("*/round-*.safetensors"), key=lambda path: int(path.stem[6:]))
    return safetensors.torch.load_file(files[-1])["local"][0] if files else initial
