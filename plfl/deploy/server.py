"""The rounds, as the server sees them, over any way of exchanging messages with the clients.

A round asks those who are there, by name, takes in what comes back in time, in the fixed order of
the clients, and is saved before the next one begins. Who did not answer has not taken part.
"""

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl import federation
from plfl.checkpoint import Checkpoint
from plfl.clock import Clock
from plfl.deploy import agreement
from plfl.deploy.sides import (
    Roll,
    ServerChannel,
    arrays_as_rows,
    done_elsewhere,
    forget_clients,
    rows_as_arrays,
)
from plfl.deploy.terms import Taken, Terms
from plfl.deploy.wire import Message, WireError
from plfl.errors import PlflError
from plfl.experiment import Examined, Recorder, clusters_of, federation_of
from plfl.files import atomic
from plfl.forecaster import Forecaster
from plfl.methods import Local
from plfl.results.records import CellResult
from plfl.study import Cell, Study

log = logging.getLogger(__name__)

Node = int
"""What a transport calls the address of a client."""
MODEL = "model.safetensors"
"""What the server's state is at the end, beside its checkpoint."""
PAUSE = 0.25
"""Seconds between two looks at who is there."""


class Transport(Protocol):
    """Carries bytes to clients and their answers back."""

    def nodes(self) -> Mapping[Node, str]:
        """Addresses at which there is somebody now, and whose key they have proved to have.

        The name is empty where nobody has to prove anything.
        """

    def exchange(
        self, messages: Mapping[Node, bytes], timeout: float, kind: str
    ) -> dict[Node, bytes]:
        """Send each address its message; the answers that came within `timeout` seconds."""


class Reachable(Clock):
    """Participation as it is: who is there now."""

    there: NDArray[np.bool_]

    def available(self, t: int) -> NDArray[np.bool_]:
        return self.there


@dataclass
class _Joined:
    """What a client has told of itself."""

    node: Node
    windows: int
    describes: dict[str, Any]
    limits: dict[str, Tensor] = field(default_factory=dict)


class Server:
    """One cell among real clients.

    Args:
        study: the study, as the clients have it.
        cell: which cell of it is run; it has to be deployable.
        transport: the way to the clients.
        folder: where the server keeps its checkpoint.
        terms: how long it waits, and for how many.
    """

    def __init__(
        self, study: Study, cell: Cell, transport: Transport, folder: Path, terms: Terms
    ) -> None:
        self.study, self.cell, self.transport, self.terms = study, cell, transport, terms
        self.names = agreement.roster(study, cell)
        self.agreement = agreement.of(study, cell)
        if not 1 <= terms.minimum <= len(self.names):
            raise PlflError(
                f"a round cannot wait for {terms.minimum} of {len(self.names)} clients; give a "
                f"minimum from 1 to {len(self.names)}"
            )
        self.checkpoint = Checkpoint(folder, self.agreement, every=0)
        self.recorder = Recorder(np.array(self.names, dtype=np.str_))
        self.history: list[Taken] = []
        self._crossed = self._nothing()
        self._joined: dict[str, _Joined] = {}
        self._strangers: dict[Node, float] = {}
        self._retired: set[Node] = set()
        self._told: set[str] = set()
        self._calibrated: dict[str, int] = {}
        # What resuming needs beside tensors and records.
        self.run_id, self.epoch = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}", 1
        self.accepted = dict.fromkeys(self.names, 0)
        self.limits: dict[str, Tensor] = {}
        self.columns: list[str] = []

    def run(self, progress: Callable[[Taken], None] = lambda taken: None) -> CellResult:
        """Run the rounds that are still to be run; the records of all of them.

        The checkpoint stays: who keeps the records safe removes it.

        Raises:
            PlflError: too few clients came, or none answered.
        """
        self._resume()
        self.gather()
        f = self._federation()
        after, _ = self.checkpoint.load([f])
        settings = self.study.federation
        for t in range(after + 1, settings.rounds + 1):
            self.gather()
            self._round(f, t, progress)
            self._save(f, t)
        with atomic(self.checkpoint.folder.parent / MODEL) as temporary:
            temporary.write_bytes(safetensors.torch.save(f.server_state))
        return self.recorder.result(self.cell, agreement.rates(self.study, self.cell))

    @property
    def clients(self) -> pd.DataFrame:
        """What the clients told of their series, as in `clients.parquet`."""
        told = [self._joined[name] for name in self.names if name in self._joined]
        table = pd.DataFrame([one.describes for one in told])
        return table.assign(order=[self.names.index(name) for name in table["client"]])

    # -- who is there ---------------------------------------------------------------------------

    def gather(self) -> None:
        """Wait until the stated minimum of clients is there.

        Raises:
            PlflError: they did not come in time; with the names of those who are missing.
        """
        end = time.monotonic() + self.terms.patience
        while True:
            here = self._look()
            if len(here) >= self.terms.minimum:
                return
            if time.monotonic() >= end:
                missing = ", ".join(name for name in self.names if name not in here)
                raise PlflError(
                    f"{len(here)} of {self.terms.minimum} clients were there after "
                    f"{self.terms.patience:.0f} s; missing: {missing}. Start them, or lower the "
                    "minimum"
                )
            time.sleep(PAUSE)

    def _look(self) -> list[str]:
        """Names of the clients that are there now; whoever is new is asked to join."""
        proved = self.transport.nodes()
        nodes = set(proved)
        known = {one.node for one in self._joined.values()}
        now = time.monotonic()
        new = {n for n in nodes - known - self._retired if now >= self._strangers.get(n, 0.0)}
        if new:
            message = self._message("join").pack()
            patience = min(self.terms.patience, self.terms.timeout)
            found = self.transport.exchange(dict.fromkeys(new, message), patience, "query")
            for node in new:
                self._welcome(node, found.get(node), proved[node])
        return [n for n in self.names if n in self._joined and self._joined[n].node in nodes]

    def _welcome(self, node: Node, data: bytes | None, proved: str) -> None:
        # Who cannot join now is asked again, but not without end in every look.
        self._strangers[node] = time.monotonic() + 5.0
        if data is None:
            return
        try:
            answer = _understood(data)
            about, limits = answer.about, dict(answer.arrays)
            name = str(about["name"])
            if proved and name != proved:
                raise WireError(f"who has the key of {proved} says that it is {name}: left out")
            if name not in self.names:
                raise WireError(f"client {name!r} is not one of this study; it is left out")
            columns = [*about["columns"], about["interval"]]
            self.columns = self.columns or columns
            if columns != self.columns:
                raise WireError(f"client {name} has {columns}, others {self.columns}: left out")
        except (PlflError, KeyError, TypeError) as error:
            log.warning("%s", error)
            return
        log.info("client %s has joined", name)
        if name in self._joined:
            # A transport may take a minute to notice that nobody is there any more.
            self._retired.add(self._joined[name].node)
        self._joined[name] = _Joined(node, int(about["windows"]), dict(about["describes"]), limits)
        # It may be a new process, which has nothing but what lies on its disk.
        self._told.discard(name)

    # -- the round ------------------------------------------------------------------------------

    def _federation(self) -> federation.Federation:
        study, cell = self.study, self.cell
        fleet = Roll(self.names, study.federation, cell.seed)
        forecaster = Forecaster.of(study.model, len(self.columns) - 1, study.windows.look_back)
        f = federation_of(study, cell, agreement.candidate(study, cell), forecaster, fleet)
        forget_clients(f)
        f.clock = Reachable(study.federation.simulation, fleet)
        return f

    def _round(self, f: federation.Federation, t: int, progress: Callable[[Taken], None]) -> None:
        begun = time.monotonic()
        here = self._look()
        assert isinstance(f.clock, Reachable)
        f.clock.there = np.isin(self.names, here)
        for name, one in self._joined.items():
            f.fleet.windows[self.names.index(name)] = one.windows
        present = federation.present_in(f, t, self.study.federation)
        losses: dict[int, float] = {}
        self._calibrated = {}
        for clients in federation.cycles_of(f, t, present):
            losses |= self._turn(f, t, clients)
        taken = Taken(
            t,
            [self.names[i] for i in present.tolist()],
            [self.names[i] for i in sorted(losses)],
            time.monotonic() - begun,
            self._calibrated,
        )
        self.history.append(taken)
        numbers = np.array(sorted(losses), dtype=np.int64)
        page = f.channel.close_round()
        by_number = np.array([losses[i] for i in numbers.tolist()], dtype=np.float64)
        # Who did not answer has a row all the same, without a loss: it was sent a message.
        self.recorder.train(t, numbers, by_number, page | self._crossed, None)
        if t % self.study.federation.evaluate_every == 0 or t == self.study.federation.rounds:
            self.recorder.evaluate(t, self._examine(f, t), page, clusters_of(f))
        self._crossed = self._nothing()
        progress(taken)

    def _turn(self, f: federation.Federation, t: int, clients: Tensor) -> dict[int, float]:
        """Let `clients` train, and the server step; the losses of those who answered."""
        if not len(clients):
            return {}
        outbox: dict[int, list[Tensor]] = {i: [] for i in clients.tolist()}
        local = Local(f.x0[None])
        if f.channel.shared:
            channel = _channel(f)
            channel.outbox.clear()
            local = f.method.down(f, t, clients)
            outbox = channel.outbox
        messages = {
            self.names[i]: self._message("train", self.names[i], rows, round=t)
            for i, rows in outbox.items()
        }
        answers = self._ask(messages, "train", "loss")
        arrived = [i for i in clients.tolist() if self.names[i] in answers]
        if not arrived:
            return {}
        if f.channel.shared:
            arrays = {i: arrays_as_rows(answers[self.names[i]].arrays) for i in arrived}
            channel.inbox = arrays
            kept = torch.tensor(arrived)
            f.method.up(f, t, kept, done_elsewhere(f, kept, local))
        for name in (self.names[i] for i in arrived):
            self.accepted[name] = t
            if epochs := answers[name].about.get("calibrated"):
                self._calibrated[name] = int(epochs)
        return {i: float(answers[self.names[i]].about["loss"]) for i in arrived}

    def _examine(self, f: federation.Federation, t: int) -> Examined:
        """Let all clients that are there score their models; the bytes of it are not counted."""
        held = f.method.held(f) if f.channel.shared else None
        messages = {
            name: self._message(
                "evaluate", name, [] if held is None else [held[self.names.index(name)]]
            )
            for name in self._look()
        }
        answers = self._ask(messages, "query", "scores")
        rows = [row for answer in answers.values() for row in answer.about["scores"]]
        scores = pd.DataFrame(rows, columns=["client", "split", "model", "mae", "rmse", "mase"])
        # Of a model and split, one client after the other.
        order = {name: n for n, name in enumerate(self.names)}
        kinds = {name: n for n, name in enumerate(["local", "global", "validation", "test"])}
        keys = {"model": kinds, "split": kinds, "client": order}
        scores = scores.sort_values(list(keys), key=lambda c: c.map(keys[str(c.name)]))
        return Examined(scores.reset_index(drop=True), pd.DataFrame())

    # -- messages -------------------------------------------------------------------------------

    def _message(
        self, kind: str, name: str | None = None, rows: list[Tensor] | None = None, **about: Any
    ) -> Message:
        about |= {"kind": kind, "run": self.run_id, "epoch": self.epoch}
        about["agreement"] = self.agreement
        arrays = rows_as_arrays(rows or [])
        if name is not None:
            about["from"] = self.accepted[name]
            if name not in self._told:
                arrays |= self._pooled()
        return Message(about, arrays)

    def _pooled(self) -> dict[str, Tensor]:
        """The limits that all clients scale by: those of all who were there at the beginning."""
        if not self.limits and self.study.windows.scaling == "pooled":
            told = [one.limits for one in self._joined.values()]
            self.limits = {
                "low": torch.stack([limits["low"] for limits in told]).amin(0),
                "high": torch.stack([limits["high"] for limits in told]).amax(0),
            }
        return self.limits

    def _ask(self, messages: Mapping[str, Message], kind: str, about: str) -> dict[str, Message]:
        """Answers by name, of those who gave one in time that tells what was asked `about`."""
        packed = {name: message.pack() for name, message in messages.items()}
        nodes = {self._joined[name].node: name for name in packed}
        to = {node: packed[name] for node, name in nodes.items()}
        found = self.transport.exchange(to, self.terms.timeout, kind)
        answers = {}
        for node, name in nodes.items():
            i = self.names.index(name)
            self._crossed["wire_down"][i] += len(packed[name])
            if node not in found:
                log.warning("client %s has not answered", name)
                continue
            self._crossed["wire_up"][i] += len(found[node])
            try:
                answer = _understood(found[node])
                if about not in answer.about:
                    raise WireError(f"no {about} in it")
            except PlflError as error:
                log.warning("client %s has answered nothing of use: %s", name, error)
                continue
            answers[name] = answer
            self._told.add(name)
        return answers

    def _nothing(self) -> dict[str, NDArray[np.int64]]:
        """Bytes of whole messages, per client and direction, before any."""
        blank = np.zeros(len(self.names), dtype=np.int64)
        return {"wire_down": blank, "wire_up": blank.copy()}

    # -- resuming -------------------------------------------------------------------------------

    def _save(self, f: federation.Federation, t: int) -> None:
        self.checkpoint.note = {
            "run": self.run_id,
            "epoch": self.epoch,
            "accepted": self.accepted,
            "columns": self.columns,
            "limits": {name: limit.tolist() for name, limit in self.limits.items()},
            "history": [vars(taken) for taken in self.history],
        }
        self.checkpoint.save(t, [f], [self.recorder.parts])

    def _resume(self) -> None:
        """Take over what an earlier server of the same study has left."""
        after, saved = self.checkpoint.load([])
        if not after:
            return
        note = self.checkpoint.note
        (self.recorder.parts,) = saved
        self.run_id, self.epoch = note["run"], note["epoch"] + 1
        self.accepted |= note["accepted"]
        self.columns = note["columns"]
        limits = note["limits"].items()
        self.limits = {n: torch.tensor(v, dtype=torch.float64) for n, v in limits}
        self.history = [Taken(**taken) for taken in note["history"]]


def _channel(f: federation.Federation) -> ServerChannel:
    assert isinstance(f.channel, ServerChannel)
    return f.channel


def _understood(data: bytes) -> Message:
    """The message in `data`.

    Raises:
        WireError: it is none, or tells of an error.
    """
    message = Message.unpack(data)
    if "error" in message.about:
        raise WireError(str(message.about["error"]))
    return message
