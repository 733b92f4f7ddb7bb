"""One building: it trains when asked, and its data, model and memory stay in its folder.

Of every round it took part in, the client keeps the state that it was left in. A message names the
round that the client shall go on from: the last one whose answer the server has got. So an answer
that was lost on the way leaves no trace, and a round that is asked for again gives the same bits.
"""

import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import safetensors.torch
import torch
from torch import Tensor

from plfl.checkpoint import restore, tensors
from plfl.data.windows import Dataset, Limits, build, limits_of
from plfl.deploy import agreement
from plfl.deploy.private import private, private_folder
from plfl.deploy.sides import (
    ClientChannel,
    Sent,
    alone,
    arrays_as_rows,
    calibrated,
    rows_as_arrays,
)
from plfl.deploy.wire import Message, WireError
from plfl.errors import PlflError
from plfl.experiment import Examiner, federation_of
from plfl.federation import Federation
from plfl.fleet import Fleet
from plfl.forecaster import Forecaster
from plfl.results.collect import describe_clients
from plfl.study import Cell, Study
from plfl.training import Engine, engine
from plfl.turns import Turn, train_turns

log = logging.getLogger(__name__)

LATEST = "latest.json"
"""File of a client's folder: run and epoch of the server that it follows."""


class Client:
    """Answers the server's messages for one building.

    Args:
        study: the study, as the server has it.
        cell: which cell of it is run.
        name: the building's name.
        table: its series, see `features.assemble`.
        folder: its folder; nobody else may read it.
        calibrate: passes over its data by which it prepares its personal part, if it comes late.
    """

    def __init__(
        self,
        study: Study,
        cell: Cell,
        name: str,
        table: pd.DataFrame,
        folder: Path,
        calibrate: int = 0,
    ):
        self.study, self.cell, self.name = study, cell, name
        self.table, self.folder, self.calibrate = table, folder, calibrate
        self.windows = {name: table}
        torch.set_num_threads(study.compute.threads)
        private_folder(folder)
        self._run: tuple[str, int] = ("", 0)
        if self._latest.exists():
            run, epoch = json.loads(self._latest.read_text(encoding="utf-8"))
            self._run = (run, epoch)
        self._f: Federation | None = None
        self._round = 0
        self._limits: Limits | None = None
        self._bench: Bench | None = None

    def answer(self, data: bytes) -> bytes:
        """The answer to a message; of an error it says what it is."""
        try:
            message = Message.unpack(data)
            kinds = {"join": self._join, "train": self._train, "evaluate": self._evaluate}
            kind = message.about.get("kind")
            if kind not in kinds:
                raise WireError(f"a message of unknown kind {kind!r}")
            self._admit(message.about)
            return kinds[kind](message).pack()
        except PlflError as error:
            log.error("%s", error)
            return Message({"error": f"client {self.name}: {error}"}).pack()
        except Exception as error:
            log.exception("this is a fault of plfl; please report it")
            return Message({"error": f"client {self.name}: {type(error).__name__}: {error}"}).pack()

    def _admit(self, about: Any) -> None:
        """Refuse what comes from another study, or from a server that another one has replaced."""
        if about.get("agreement") != agreement.of(self.study, self.cell):
            raise PlflError(
                "the server runs another study, cell or version of plfl; give both the same "
                "configuration and install the same plfl"
            )
        run = (str(about["run"]), int(about["epoch"]))
        if not re.fullmatch(r"[0-9A-Za-z-]+", run[0]):
            raise WireError(f"{run[0]!r} names no run")
        if run < self._run:
            raise PlflError(f"message of {run}, which was replaced by {self._run}")
        if run > self._run:
            if run[0] != self._run[0]:
                self._f = self._bench = self._limits = None
            private_folder(self.folder / run[0])
            self._run = run
            with private(self._latest) as temporary:
                temporary.write_text(json.dumps(run), encoding="utf-8")

    def _join(self, message: Message) -> Message:
        own = build(self.windows, self.study.windows)
        (about,) = describe_clients(self.cell.state, own).to_dict("records")
        return Message(
            {
                "name": self.name,
                "windows": len(own.starts(0, "train")),
                "columns": own.columns.tolist(),
                "interval": own.interval,
                "describes": about,
            },
            self._own_limits(),
        )

    def _own_limits(self) -> dict[str, Tensor]:
        """What the server needs for a scaling of all clients' features alike."""
        if self.study.windows.scaling != "pooled":
            return {}
        low, high = limits_of(self.name, self.table, self.study.windows)
        return {"low": torch.from_numpy(low), "high": torch.from_numpy(high)}

    def _train(self, message: Message) -> Message:
        t, before = int(message.about["round"]), int(message.about["from"])
        f = self._at(message)
        inbox = self._channel(f).inbox = arrays_as_rows(message.arrays)
        # From here on the federation is ahead of what is on disk.
        self._f = None
        late = {}
        if self.calibrate and f.channel.shared and t > 1 and not before:
            late = {"calibrated": self.calibrate}
            f.local = calibrated(f, inbox[0][None].to(f.local.device), self.calibrate)
        asked = Turn(f, t, f.everyone, self.study.federation, stay=True)
        (turn,) = train_turns([asked], self.bench.engine)
        rows: list[Tensor] = []
        try:
            turn.close()
        except Sent as sent:
            rows = sent.rows
        self._keep(f, t, before)
        return Message({"round": t, "loss": float(turn.losses[0]), **late}, rows_as_arrays(rows))

    def _evaluate(self, message: Message) -> Message:
        f = self._at(message)
        received = None
        if f.channel.shared:
            (shared,) = arrays_as_rows(message.arrays)
            received = f.models(f.everyone, shared[None].to(f.local.device))
        scores = self.bench.examiner.examine(f.local, received).scores
        return Message({"scores": scores.to_dict("records")})

    @staticmethod
    def _channel(f: Federation) -> ClientChannel:
        assert isinstance(f.channel, ClientChannel)
        return f.channel

    def _at(self, message: Message) -> Federation:
        """The federation of this client as it was after the round that the message names."""
        self._agree(message)
        wanted = int(message.about["from"])
        if self._f is None or self._round != wanted:
            self._f, self._round = self._federation(), wanted
            if wanted:
                path = self._file(wanted)
                if not path.exists():
                    self._f = None
                    raise PlflError(
                        f"{path}: the state after round {wanted}, which the server wants to go on "
                        "from, is not there; restore the folder, or begin anew"
                    )
                restore(self._f, safetensors.torch.load(path.read_bytes()))
        return self._f

    def _federation(self) -> Federation:
        study, cell, bench = self.study, self.cell, self.bench
        fleet = Fleet(bench.dataset, bench.engine, study.federation, cell.seed)
        rates = agreement.candidate(study, cell)
        return alone(federation_of(study, cell, rates, bench.forecaster, fleet))

    @property
    def bench(self) -> "Bench":
        """What trains and scores, on this building's data as the clients have agreed to scale."""
        if self._bench is None:
            self._bench = Bench.of(self.study, self._dataset())
        return self._bench

    def _dataset(self) -> Dataset:
        if self.study.windows.scaling == "pooled" and self._limits is None:
            try:
                found = safetensors.torch.load(self._agreed.read_bytes())
            except FileNotFoundError:
                raise PlflError(
                    f"{self._agreed}: the limits that all features are scaled by are not there; "
                    "restore the folder, or begin anew"
                ) from None
            self._limits = found["low"].numpy(), found["high"].numpy()
        return build(self.windows, self.study.windows, self._limits)

    def _agree(self, message: Message) -> None:
        """Take over the limits of the features, which come with the first message."""
        if "low" not in message.arrays:
            return
        low, high = message.arrays["low"], message.arrays["high"]
        self._limits, self._f, self._bench = (low.numpy(), high.numpy()), None, None
        with private(self._agreed) as temporary:
            temporary.write_bytes(safetensors.torch.save({"low": low, "high": high}))

    def _keep(self, f: Federation, t: int, before: int) -> None:
        """Save the state after round `t`; of the earlier ones only the one it began from stays."""
        with private(self._file(t)) as temporary:
            temporary.write_bytes(safetensors.torch.save(tensors(f)))
        for file in self._file(t).parent.glob("round-*.safetensors"):
            if file not in (self._file(t), self._file(before)):
                file.unlink()
        self._f, self._round = f, t

    @property
    def _latest(self) -> Path:
        return self.folder / LATEST

    @property
    def _agreed(self) -> Path:
        return self.folder / self._run[0] / "limits.safetensors"

    def _file(self, t: int) -> Path:
        return self.folder / self._run[0] / f"round-{t}.safetensors"


@dataclass(frozen=True)
class Bench:
    """What trains and scores on one dataset."""

    dataset: Dataset
    forecaster: Forecaster
    engine: Engine
    examiner: Examiner

    @classmethod
    def of(cls, study: Study, dataset: Dataset) -> "Bench":
        """The bench that a study asks for."""
        forecaster = Forecaster.of(study.model, len(dataset.columns), dataset.look_back)
        machine = engine(study.compute, forecaster, dataset)
        return cls(dataset, forecaster, machine, Examiner(dataset, machine))
