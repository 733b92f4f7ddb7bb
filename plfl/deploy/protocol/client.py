"""One building, which trains on request; its data, model and state stay in its folder.

The client saves its state after each round in which it trains. A message names the round from which
the client continues: the last one whose answer the server received. A lost answer therefore has no
effect, and a round that is requested again gives the same bits. Only the server can request it: a
message that someone else sends once more is refused, whenever it was first sent.
"""

import json
import logging
import os
import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from torch import Tensor

from plfl.base.errors import PlflError, Problem
from plfl.data.dataset import Dataset
from plfl.data.sources import build_dataset
from plfl.data.windows import Limits, limits_of
from plfl.deploy.host import private, private_folder
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.endpoints import (
    ClientChannel,
    ClientSent,
    Message,
    MessageError,
    RequestFacts,
    arrays_as_rows,
    as_bytes,
    as_row,
    rows_as_arrays,
)
from plfl.experiments.training_setup import TrainingSetup
from plfl.federated.channel import Check, OtherMachines
from plfl.federated.checkpoint import restore, tensors
from plfl.federated.codecs.coder import Direction
from plfl.federated.federation import Federation
from plfl.federated.local_training import Cohort, broadcast, train_cohorts
from plfl.federated.privacy.mechanism import draw_own_system_noise
from plfl.federated.secure.encryption import SystemSecrets
from plfl.forecast.contents import describe
from plfl.results.collect import describe_clients
from plfl.results.records import MODELS, ConformalWidths, Models, write_models_in_place
from plfl.study import Cell, Study
from plfl.study.combinations import overrides

log = logging.getLogger(__name__)

Reply: TypeAlias = tuple[dict[str, Any], dict[str, Tensor]]
"""The facts and the arrays of an answer; `DeployedClient.answer` adds the number of the message."""
CLIENT_MODEL_FILE = "model.safetensors"
"""File of a client's run: the models that were scored last, for `plfl forecast`."""
ANSWERED_FILE = "answered.txt"
"""File of a client's run: the numbers of the messages that changed its state, one on each line."""
LATEST = "latest.json"
"""File of a client's folder: run and epoch of the server that the client follows."""


def read_latest(folder: Path) -> tuple[str, int]:
    """The run and the epoch of the server that the client with this folder follows; "" and 0 if it
    has not met one."""
    file = folder / LATEST
    if not file.exists():
        return "", 0
    run, epoch = json.loads(file.read_text(encoding="utf-8"))
    return str(run), int(epoch)


class _Talk:
    """A round in which clients train together: a thread that sends messages, and at last a reply.

    LightGBM waits for the answer to a message in a function of its own.
    """

    def __init__(self, work: Callable[[], Reply]):
        self.request = ""
        """Number of the server's message that was answered last; empty after the reply."""
        self.heard: SimpleQueue[bytes | None] = SimpleQueue()
        """What the server sends; None: it begins the round again."""
        self.thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self.facts: dict[str, Any] = {}
        """What all further answers state."""
        self._replies: SimpleQueue[bytes | Reply | Exception] = SimpleQueue()

    def _run(self, work: Callable[[], Reply]) -> None:
        try:
            self._replies.put(work())
        except Exception as error:
            self._replies.put(error)

    def exchange(self, way: Direction, messages: Sequence[bytes], _check: Check) -> list[bytes]:
        """Send the message of this client, or wait for the server's."""
        if way == "up":
            self._replies.put(messages[0])
            return [*messages]
        if (heard := self.heard.get()) is None:
            raise MessageError("the server begins the round again")
        return [heard]

    def next(self, message: Message) -> Reply:
        """The answer to a `message`."""
        reply = self._replies.get()
        if isinstance(reply, bytes):
            self.request = str(message.request["request"])
            return self.facts, rows_as_arrays([as_row(reply)])
        self.request = ""
        if isinstance(reply, Exception):
            raise reply
        return reply

    def end(self) -> None:
        """End the thread, if it waits for an answer."""
        if self.request:
            self.heard.put(None)
            self.thread.join()


class DeployedClient:
    """Answers the messages of the server for one building, whose series is `table`."""

    def __init__(self, study: Study, cell: Cell, name: str, table: pd.DataFrame, folder: Path):
        self.study, self.cell, self.name = study, cell, name
        self.table, self.folder = table, folder
        self.client_series = {name: table}
        torch.set_num_threads(study.compute.threads)
        private_folder(folder)
        self._run = read_latest(folder)
        self._answered_numbers = self._numbers_answered()
        self._f: Federation | None = None
        self._round = 0
        self._limits: Limits | None = None
        self._trainer: TrainingSetup | None = None
        self._talk: _Talk | None = None

    def answer(self, data: bytes) -> bytes:
        """The answer to a message. After an error, the answer contains the error's message."""
        try:
            message = Message.unpack(data)
            kinds = {
                "join": self._join,
                "train": self._train,
                "exchange": self._exchange,
                "evaluate": self._evaluate,
            }
            kind = message.request.get("kind")
            if kind not in kinds:
                raise MessageError(f"unknown kind of message {kind!r}")
            self._admit(message.request)
            if kind in ("train", "evaluate"):
                self._answer_once(str(message.request["request"]))
            facts, arrays = kinds[kind](message)
            about = {"request": message.request["request"], "name": self.name}
            return Message(about | facts, arrays).pack()
        except PlflError as error:
            log.error("%s", error)
            return Message({"error": f"client {self.name}: {error}"}).pack()
        except Exception as error:
            log.exception("this is a bug in plfl; please report it")
            return Message({"error": f"client {self.name}: {type(error).__name__}: {error}"}).pack()

    def _admit(self, about: RequestFacts) -> None:
        """Refuse messages of another study or of a server that has been replaced."""
        if about.get("agreement") != agreement.fingerprint(self.study, self.cell):
            raise PlflError(
                Problem(
                    "",
                    "the server runs another study or cell, or a version of plfl with other "
                    "messages or configuration keys",
                    "use the same configuration and install the same version of plfl on both hosts",
                )
            )
        run = (str(about["run"]), int(about["epoch"]))
        if not re.fullmatch(r"[0-9A-Za-z-]+", run[0]):
            raise MessageError(f"{run[0]!r} is not the name of a run")
        if run < self._run:
            raise PlflError(
                Problem(
                    "",
                    f"message of server {run}, which was replaced by {self._run}: the name of a "
                    "run begins with the time of its start",
                    "if this server is the newer one, its clock was behind: set it, and start the "
                    "server again",
                )
            )
        if run > self._run:
            if run[0] != self._run[0]:
                self._f = self._trainer = self._limits = None
            private_folder(self.folder / run[0])
            self._run = run
            self._answered_numbers = self._numbers_answered()
            with private(self.folder / LATEST) as temporary:
                temporary.write_text(json.dumps(run), encoding="utf-8")

    def _answer_once(self, number: str) -> None:
        """Refuse a message if one of this number was answered before, also by another process."""
        if number in self._answered_numbers:
            raise MessageError("it was answered before")
        if not re.fullmatch(r"[0-9a-f]{16}", number):
            raise MessageError(f"{number!r} is not the number of a message")
        self._answered_numbers.add(number)
        with open(self._answered_file, "a", opener=partial(os.open, mode=0o600)) as file:
            file.write(f"{number}\n")

    def _numbers_answered(self) -> set[str]:
        """The numbers of the messages of the run that have been answered."""
        path = self._answered_file
        return set(path.read_text(encoding="ascii").split()) if path.exists() else set()

    def _join(self, message: Message) -> Reply:
        dataset = build_dataset(self.study, self.client_series).refit()
        (about,) = describe_clients(self.cell.state, dataset).to_dict("records")
        facts = {
            "windows": len(dataset.starts(0, "train")),
            "columns": dataset.columns.tolist(),
            "interval": dataset.interval,
            "describes": about,
        }
        if self.study.windows.scaling != "pooled":
            return facts, {}
        # The minimum and maximum of each feature.
        low, high = limits_of(
            self.name, self.table, self.study.windows, self.study.data.origin_date
        )
        return facts, {"low": torch.from_numpy(low), "high": torch.from_numpy(high)}

    def _train(self, message: Message) -> Reply:
        if self._talk is not None:
            self._talk.end()
        f = self._federation_at(message)
        assert isinstance(f.channel, ClientChannel)
        f.channel.inbox = arrays_as_rows(message.arrays)
        # Until the state is saved, the federation in memory is newer than the one on disk.
        self._f = None
        work = partial(self._reply_of_round, f, message.request)
        if not (machines := message.request["machines"]):
            return work()
        place, number = machines
        self._talk = _Talk(work)
        f.channel.other_machines = OtherMachines(place, number, f.everyone, self._talk.exchange)
        self._talk.thread.start()
        return self._talk.next(message)

    def _exchange(self, message: Message) -> Reply:
        """Continue a round in which clients train together."""
        talk = self._talk
        if talk is None or message.request["after"] != talk.request:
            raise MessageError("it does not follow the client's last answer")
        talk.heard.put(as_bytes(message.arrays["0"]))
        return talk.next(message)

    def _reply_of_round(self, f: Federation, about: RequestFacts) -> Reply:
        t, last_round = int(about["round"]), int(about["from"])
        f.begin_round(t)
        own_cohort = Cohort(
            f, t, f.everyone, are_staying=True, instructions=broadcast(f, t, f.everyone)
        )
        (cohort,) = train_cohorts([own_cohort], self.setup.engine)
        facts = {"loss": float(cohort.losses[0]), "steps": float(cohort.steps_taken[0])}
        if f.adds_masked and self._talk is not None:
            self._talk.facts = facts  # the client may be gone after its numbers have arrived
        assert isinstance(f.channel, ClientChannel)
        f.channel.keep = partial(self._keep, f, t, last_round)
        rows: list[Tensor] = []
        try:
            cohort.close()
        except ClientSent as sent:
            rows = sent.rows
        f.end_round()
        self._keep(f, t, last_round)
        return facts, rows_as_arrays(rows)

    def _evaluate(self, message: Message) -> Reply:
        f = self._federation_at(message)
        global_models = (
            f.global_models if f.local_differs_from_global and not f.channel.shared_count else None
        )
        if f.channel.shared_count:
            sent_row = arrays_as_rows(message.arrays)[0]
            global_models = f.models(f.everyone, sent_row[None].to(f.local.device))
        evaluation = self.setup.evaluator.score_federation(f, global_models)
        self._keep_model(f, global_models, evaluation.widths)
        return {"scores": evaluation.scores.to_dict("records")}, {}

    def _keep_model(
        self, f: Federation, global_models: Tensor | None, widths: ConformalWidths
    ) -> None:
        """Save the models that were scored last in the form that `plfl forecast` reads."""
        rows = {} if global_models is None else {"global": global_models}
        # Clients that mix do not forecast with a model alone.
        if not overrides(f.method, "mix_outputs"):
            rows = {"local": f.own_models(global_models), **rows}
        if not rows:
            return
        models: Models = {
            model: rows[model].cpu().numpy().astype(np.float32) for model in MODELS if model in rows
        }
        model_widths = {model: widths for model, widths in widths.items() if model in models}
        about = describe(self.study, self.cell, self.setup.series_dataset, model_widths)
        with private(self.folder / self._run[0] / CLIENT_MODEL_FILE) as temporary:
            write_models_in_place(temporary, models, about)

    def _federation_at(self, message: Message) -> Federation:
        """The federation of this client after the round that the message names."""
        self._store_limits(message)
        wanted_round = int(message.request["from"])
        if self._f is None or self._round != wanted_round:
            candidate = agreement.candidate(self.study, self.cell)
            size = self.study.data.clients_of(self.cell.state)
            self._f = self.setup.make_federation(self.cell, candidate, size=size)
            self._round = wanted_round
            secrets = None if self._f.channel.secrets is None else SystemSecrets()
            self._f.channel = ClientChannel(
                self._f.channel.shared_count, 1, self._f.channel.coder, secrets
            )
            if self._f.privacy is not None:
                self._f.privacy.client_normals = draw_own_system_noise
            self._f.server_average = None  # the server has it, and sends it to be scored
            if wanted_round:
                path = self._file(wanted_round)
                if not path.exists():
                    self._f = None
                    raise PlflError(
                        Problem(
                            path,
                            "is missing, but the server continues from the state after round "
                            f"{wanted_round}",
                            "restore the folder, or start a new run",
                        )
                    )
                restore(self._f, safetensors.torch.load(path.read_bytes()))
        return self._f

    @property
    def setup(self) -> TrainingSetup:
        """The setup on this building's data, which are scaled by the agreed limits."""
        if self._trainer is None:
            self._trainer = TrainingSetup.for_study(self.study, self._dataset())
        return self._trainer

    def _dataset(self) -> Dataset:
        if self.study.windows.scaling == "pooled" and self._limits is None:
            try:
                limits = safetensors.torch.load(self._limits_file.read_bytes())
            except FileNotFoundError:
                raise PlflError(
                    Problem(
                        self._limits_file,
                        "is missing, and with it the limits by which all clients scale their "
                        "features",
                        "restore the folder, or start a new run",
                    )
                ) from None
            self._limits = limits["low"].numpy(), limits["high"].numpy()
        return build_dataset(self.study, self.client_series, self._limits).refit()

    def _store_limits(self, message: Message) -> None:
        """Adopt and save the limits of the features if the message contains them."""
        if "low" not in message.arrays:
            return
        low, high = message.arrays["low"], message.arrays["high"]
        self._limits, self._f, self._trainer = (low.numpy(), high.numpy()), None, None
        with private(self._limits_file) as temporary:
            temporary.write_bytes(safetensors.torch.save({"low": low, "high": high}))

    def _keep(self, f: Federation, t: int, last_round: int) -> None:
        """Save the state after round `t`; remove all others except the one after round
        `last_round`."""
        with private(self._file(t)) as temporary:
            temporary.write_bytes(safetensors.torch.save(tensors(f)))
        for file in self._file(t).parent.glob("round-*.safetensors"):
            if file not in (self._file(t), self._file(last_round)):
                file.unlink()
        self._f, self._round = f, t

    @property
    def _answered_file(self) -> Path:
        return self.folder / self._run[0] / ANSWERED_FILE

    @property
    def _limits_file(self) -> Path:
        return self.folder / self._run[0] / "limits.safetensors"

    def _file(self, t: int) -> Path:
        return self.folder / self._run[0] / f"round-{t}.safetensors"
